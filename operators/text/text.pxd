from libc.stdint cimport int64_t, uint8_t

cdef extern from "text.h" nogil:
    ctypedef struct text_lines:
        const uint8_t *bytes
        const int64_t *offsets
        size_t size, count


cdef class HeldLines:
    cdef const uint8_t[::1] bytes
    cdef const int64_t[::1] offsets
    cdef text_lines own
