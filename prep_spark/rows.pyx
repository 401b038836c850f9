"""Parses delimited text into a matrix of float64, exactly rounded, and says why a line gives no row.

Short numbers take the short way of Clinger ("How to read floating point numbers accurately", PLDI 1990, section 2):
a mantissa up to 2^53 times or over a power of ten up to 10^22 is one correctly rounded operation. Longer ones, such as
the original HIGGS file's 19 digits, do the same in long double, which tells when rounding twice could differ. The rest
goes to CPython's own conversion, so that every result equals Python's `float(field)`.
"""

from libc.math cimport isfinite
from libc.stdint cimport uint64_t

cdef extern from "<float.h>":
    int LDBL_MANT_DIG

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1.0

# The values of formats.Reason that a parser can find.
cdef enum:
    NONE = 0
    BLANK = 1
    COLUMNS = 2
    NUMBER = 3
    FINITE = 4

cdef uint64_t EXACT = 1ULL << 53
cdef int POWER_MAX = 22  # 10^22 is the last power of ten that a double holds exactly
cdef int LONG_POWER_MAX = 27  # the same of a long double with 64 bits of mantissa
cdef long double[28] POWERS
cdef double[23] SHORT_POWERS
cdef int _power
POWERS[0] = SHORT_POWERS[0] = 1
for _power in range(1, 28):
    POWERS[_power] = POWERS[_power - 1] * 10
for _power in range(1, 23):
    SHORT_POWERS[_power] = SHORT_POWERS[_power - 1] * 10


cdef const char *slow_number(const char *start, double *value):
    """CPython's conversion; returns the end of the number, NULL when there is none."""
    cdef char *end = NULL
    try:
        value[0] = PyOS_string_to_double(start, &end, NULL)
    except ValueError:
        return NULL
    return end


cdef bint long_number(uint64_t mantissa, int exponent, double *value) noexcept:
    """mantissa * 10^exponent by way of a long double; False when it cannot tell how to round."""
    cdef long double exact, rest
    if LDBL_MANT_DIG < 64 or exponent > LONG_POWER_MAX or exponent < -LONG_POWER_MAX:
        return False
    exact = mantissa * POWERS[exponent] if exponent >= 0 else mantissa / POWERS[-exponent]
    value[0] = <double>exact
    rest = exact - value[0]
    # Half-way between two doubles the side is lost; there, and only there, twice the rest leads to a double again.
    return rest == 0 or <double>(exact + rest) != exact + rest


cdef const char *exponent_of(const char *p, int *exponent) noexcept:
    """Add the digits behind an `e` to `exponent`; NULL when the short way does not know them."""
    cdef bint negative = p[0] == c"-"
    cdef int digits = 0
    cdef int written = 0
    if p[0] == c"-" or p[0] == c"+":
        p += 1
    while c"0" <= p[0] <= c"9" and digits < 4:
        written = written * 10 + (p[0] - c"0")
        digits += 1
        p += 1
    if digits == 0 or c"0" <= p[0] <= c"9":
        return NULL
    exponent[0] += -written if negative else written
    return p


cdef const char *number(const char *start, double *value):
    """Read one number; returns its end, NULL when there is none."""
    cdef const char *p = start
    cdef uint64_t mantissa = 0
    cdef int digits = 0
    cdef int exponent = 0
    cdef bint negative = p[0] == c"-"
    if p[0] == c"-" or p[0] == c"+":
        p += 1
    while c"0" <= p[0] <= c"9":
        mantissa = mantissa * 10 + <uint64_t>(p[0] - c"0")
        digits += 1
        p += 1
    if p[0] == c".":
        p += 1
        while c"0" <= p[0] <= c"9":
            mantissa = mantissa * 10 + <uint64_t>(p[0] - c"0")
            digits += 1
            exponent -= 1
            p += 1
    if digits == 0 or digits > 19:  # 19 digits always fit in 64 bits
        return slow_number(start, value)
    if p[0] == c"e" or p[0] == c"E":
        p = exponent_of(p + 1, &exponent)
        if p == NULL:
            return slow_number(start, value)
    while mantissa > EXACT and mantissa % 10 == 0:  # "%.18e" of a short number pads it with zeros
        mantissa //= 10
        exponent += 1
    if mantissa <= EXACT and -POWER_MAX <= exponent <= POWER_MAX:
        value[0] = mantissa * SHORT_POWERS[exponent] if exponent >= 0 else mantissa / SHORT_POWERS[-exponent]
    elif not long_number(mantissa, exponent, value):
        return slow_number(start, value)
    if negative:
        value[0] = -value[0]
    return p


cdef const char *field(
    const char *p, const char *stop, char delimiter, bint empty_is_zero, bint keep_all, double *value, int *fault
):
    """Read the column at `p`; returns its end when it is one number between spaces, else sets `fault`."""
    cdef const char *end
    while p[0] == c" ":
        p += 1
    if p == stop or p[0] == delimiter or p[0] == c"\n":
        value[0] = 0.0
        if not empty_is_zero:
            fault[0] = NUMBER
        return p
    end = number(p, value)
    if end == NULL:
        fault[0] = NUMBER
        return p
    while end[0] == c" ":
        end += 1
    if end != stop and end[0] != delimiter and end[0] != c"\n":
        fault[0] = NUMBER
    elif not keep_all and not isfinite(value[0]):
        fault[0] = FINITE
    return end


def parse(
    bytes text, str delimiter, bint empty_is_zero, double[:, ::1] rows, unsigned char[::1] reasons, bint keep_all=False
):
    """Parse lines separated by newlines; returns how many rows were written, packed, to the front of `rows`.

    `reasons` has one place a line and gets a `formats.Reason` each; `rows` (lines x columns) must be as long.
    A line with the wrong number of columns says so, whatever else is wrong with it. With `keep_all` NaN and infinity
    are numbers like others.
    Raises ValueError when `text` has another number of lines than `reasons`.
    """
    cdef const char *p = text
    cdef const char *end = p + len(text)
    cdef char mark = <char>ord(delimiter)
    cdef Py_ssize_t lines = reasons.shape[0], columns = rows.shape[1], line, column, row = 0
    cdef double value = 0.0
    cdef int fault
    if text.count(b"\n") + 1 != lines or rows.shape[0] < lines:
        raise ValueError("text, rows and reasons differ in their number of lines")
    for line in range(lines):
        fault = NONE
        column = 0
        if p == end or p[0] == c"\n":
            fault = BLANK
        else:
            while fault == NONE and column < columns:
                p = field(p, end, mark, empty_is_zero, keep_all, &value, &fault)
                rows[row, column] = value
                column += 1
                if p[0] != mark or p == end:
                    break
                if fault == NONE and column < columns:
                    p += 1
            while p < end and p[0] != c"\n":  # count what a fault or a surplus left unread
                if p[0] == mark:
                    column += 1
                p += 1
            if column != columns:
                fault = COLUMNS
        reasons[line] = fault
        if fault == NONE:
            row += 1
        p += 1
    return row
