from libc.stdint cimport uint8_t


cdef class Bundle:
    cdef readonly int count
    cdef bytes prefix
    cdef uint8_t* head
    cdef uint8_t* payload
    cdef Py_ssize_t head_at
    cdef Py_ssize_t payload_at
    cdef dict meta  # of the block before, where its values are numbers
    cdef bytes packed

    cdef bytes _packed(self, dict meta)

    cdef int _empty(self) except -1
    cdef int _copy(self, bytes array) except -1
    cdef bint put(self, object block, object seq) except -1
    cdef tuple taken(self)
