from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t

from riprap.engine.wire._doorbell cimport Doorbell
from riprap.engine.wire._segment cimport SLOTS, Side

cdef struct Entry:
    size_t start
    size_t end
    size_t generation  # 0: the slot is free


cdef class Arena:
    cdef Py_buffer map
    cdef char* base
    cdef char* data
    cdef size_t links
    cdef size_t sides
    cdef size_t taken_bytes  # of the data, from the system
    cdef size_t last_generation
    cdef Entry entries[SLOTS]
    cdef int dropped[SLOTS]  # slots whose array here is gone, and that are not free yet
    cdef int dropped_count
    cdef int fd
    cdef readonly size_t data_bytes
    cdef readonly bytes token
    cdef readonly str refusal
    cdef list gaps  # free (start, end), ascending, no two adjacent
    cdef list spare  # slots without memory
    cdef dict holders  # slot -> the links that have not released it

    cdef Doorbell* doorbell(self) noexcept
    cdef Side* take_side(self, size_t side) except NULL
    cdef int _check(self, size_t link) except -1
    cdef bint _take_memory(self, size_t end) except -1
    cdef Slot _slot(self, size_t start, size_t end, size_t nbytes)
    cdef bint _released(self, int index, size_t link) noexcept
    cdef bint _is_lent(self, int index) except -1
    cdef int _free(self, int index) except -1


cdef class Slot:
    cdef readonly Arena arena
    cdef readonly int index
    cdef readonly size_t nbytes
