from libc.stdint cimport int64_t, uint8_t, uint16_t

cpdef enum:
    VERSION = 3
    HEADER_BYTES_MAX = 65536  # a punctuation names every participant: about 30 bytes each
    FRAMES_MAX = 16  # arrays of one block
    DIMENSIONS_MAX = 4
    PAYLOAD_BYTES_MAX = 268435456
    META_KEYS_MAX = 16
    NAME_BYTES_MAX = 64  # of a job, or of a sender

cdef enum:
    COUNTS = 7  # seq, epoch, the four fields of the key, items
    BODY_BYTES = 4 + 8 * COUNTS
    ARRAY_BYTES_MAX = 2 + 8 * DIMENSIONS_MAX
    BLOCK_BYTES_MAX = BODY_BYTES + FRAMES_MAX * ARRAY_BYTES_MAX  # without references and meta
    ALIGNMENT = 8


cdef class Payload:
    """The arrays of a bundle, one behind another, and what its blocks have in common: mostly that is much."""

    cdef object frame
    cdef Py_ssize_t at
    cdef Py_ssize_t nbytes
    cdef int blocks  # that are not read
    cdef const uint8_t* form  # of the array before, in the table of its block
    cdef list alike  # views of those behind it, the next one last, should they have its form too
    cdef bytes packed  # the meta before, where its values are numbers, and what it says
    cdef dict meta

    cdef tuple arrays(self, const uint8_t* table, int count)
    cdef object _array(self, const uint8_t* form)
    cdef list _views(self, tuple shape, object dtype, Py_ssize_t at, int64_t nbytes)
    cdef dict meta_of(self, bytes packed)


cdef inline Py_ssize_t padded(Py_ssize_t nbytes) noexcept:
    return (nbytes + ALIGNMENT - 1) & ~<Py_ssize_t>(ALIGNMENT - 1)


cdef Py_ssize_t body_at(bytes header) except -1
cdef object read_block(bytes header, Py_ssize_t at, Py_ssize_t nbytes, object frames, object fetch, Payload payload)
cdef tuple arrays_of(object block)
cdef int put_body(uint8_t* to, object block, object seq, int arrays) except -1
cdef Py_ssize_t put_form(uint8_t* to, object array, Py_ssize_t place, int64_t* nbytes) except -1
cdef bytes packed_meta(object meta)
cdef void put16(uint8_t* to, uint16_t number) noexcept
cdef uint16_t get16(const uint8_t* at) noexcept
