"""Reads one number, exactly rounded."""

# Returns where the number ends, NULL when there is none; the text must end in a NUL.
cdef const char *number(const char *start, double *value)
