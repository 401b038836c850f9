from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t

from riprap.engine.wire._segment cimport SLOTS, Lane, Segment

cdef class Borrowed:
    cdef Segment mapped
    cdef Py_buffer* control
    cdef Py_buffer* data
    cdef Lane* lane
    cdef size_t owner
    cdef size_t held[SLOTS]  # generation
    cdef unsigned int views[SLOTS]
    cdef readonly int holding  # slots with views

    cdef bint current(self) noexcept
    cdef int _enter(self, int index, size_t generation) except -1
    cdef void release(self, int index) noexcept
