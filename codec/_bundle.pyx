"""Bundles: small blocks of one link in one message, one behind another; the layout stands in codec/header.py."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from riprap.codec._header cimport (
    BLOCK_BYTES_MAX, BODY_BYTES, Payload, arrays_of, body_at, get16, packed_meta, padded, put16, put_body, put_form,
    read_block,
)

from riprap.codec.errors import FrameError

cpdef enum:
    BUNDLE_BLOCKS_MAX = 64
    BUNDLE_BYTES_MAX = 32768  # half of a channel's ring, so that one is read while the next is written
    SMALL_BYTES_MAX = 4096  # of a block that travels in a bundle

cdef enum:
    MARK = 4  # where a lone block has kind, flags and arrays: 0, 0, the number of blocks (u16)
    LENGTH = 2  # before each block
    META_BYTES_MAX = 512
    HEAD_BYTES = 32768  # of one bundle; every block is small, so fewer than BUNDLE_BLOCKS_MAX seldom fill it


@cython.final
cdef class Bundle:
    def __cinit__(self, bytes prefix):
        cdef Py_ssize_t nbytes = PyBytes_GET_SIZE(prefix)
        self.prefix = prefix
        self.head, self.payload = <uint8_t*>malloc(HEAD_BYTES), <uint8_t*>malloc(BUNDLE_BYTES_MAX)
        if self.head == NULL or self.payload == NULL:
            raise MemoryError
        memcpy(self.head, PyBytes_AS_STRING(prefix), nbytes)
        self._empty()

    def __dealloc__(self):
        free(self.head)
        free(self.payload)

    cdef int _empty(self) except -1:
        self.count, self.payload_at = 0, 0
        self.head_at = PyBytes_GET_SIZE(self.prefix) + MARK
        return 0

    def add(self, block, seq):
        return self.put(block, seq)

    def take(self):
        return self.taken()

    cdef bint put(self, object block, object seq) except -1:
        cdef tuple arrays = arrays_of(block)
        cdef int64_t nbytes, total = 0
        cdef Py_ssize_t at = self.head_at + LENGTH + BODY_BYTES
        cdef bytes meta = b""
        if self.count == BUNDLE_BLOCKS_MAX or at + BLOCK_BYTES_MAX + META_BYTES_MAX > HEAD_BYTES:
            return False
        for array in arrays:
            at += put_form(&self.head[at], array, 0, &nbytes)
            total += padded(nbytes)
        if total > SMALL_BYTES_MAX or total > BUNDLE_BYTES_MAX - self.payload_at:
            return False
        if block.meta:
            meta = self._packed(block.meta)
            if PyBytes_GET_SIZE(meta) > META_BYTES_MAX:
                return False
        put_body(&self.head[self.head_at + LENGTH], block, seq, len(arrays))
        memcpy(&self.head[at], PyBytes_AS_STRING(meta), PyBytes_GET_SIZE(meta))
        at += PyBytes_GET_SIZE(meta)
        for array in arrays:
            self._copy(array.tobytes())
        put16(&self.head[self.head_at], at - self.head_at - LENGTH)
        self.head_at = at
        self.count += 1
        return True

    cdef bytes _packed(self, dict meta):
        """The bytes of a meta; those of the block before, where it says the same in whole numbers."""
        for value in meta.values():
            if type(value) is not int:
                return packed_meta(meta)
        if self.meta != meta:
            self.packed, self.meta = packed_meta(meta), meta.copy()
        return self.packed

    cdef int _copy(self, bytes array) except -1:
        cdef Py_ssize_t nbytes = PyBytes_GET_SIZE(array)
        memcpy(&self.payload[self.payload_at], PyBytes_AS_STRING(array), nbytes)
        memset(&self.payload[self.payload_at + nbytes], 0, padded(nbytes) - nbytes)
        self.payload_at += padded(nbytes)
        return 0

    cdef tuple taken(self):
        cdef uint8_t* mark = &self.head[PyBytes_GET_SIZE(self.prefix)]
        mark[0], mark[1] = 0, 0
        put16(&mark[2], self.count)
        cdef bytes header = PyBytes_FromStringAndSize(<char*>self.head, self.head_at)
        cdef bytes payload = PyBytes_FromStringAndSize(<char*>self.payload, self.payload_at)
        self._empty()
        return header, [payload] if payload else []


def is_bundle(bytes header, bytes prefix):
    return PyBytes_AS_STRING(header)[PyBytes_GET_SIZE(prefix)] == 0


def decode_bundle(bytes header, object frames):
    cdef Py_ssize_t at = body_at(header)
    cdef Py_ssize_t end, nbytes = PyBytes_GET_SIZE(header)
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(header)
    cdef uint16_t count = get16(&data[at + 2])
    cdef list blocks = []
    if data[at] or data[at + 1] or not 1 <= count <= BUNDLE_BLOCKS_MAX:
        raise FrameError("an odd number of blocks in a bundle")
    cdef Payload payload = payload_of(frames, count)
    at += MARK
    for _ in range(count):
        end = at + LENGTH + (get16(&data[at]) if nbytes - at >= LENGTH else 0)
        if end > nbytes or end - at < LENGTH + BODY_BYTES:
            raise FrameError("a bundle that was cut short")
        blocks.append(read_block(header, at + LENGTH, end, (), None, payload))
        at = end
    if at != nbytes or payload.at != payload.nbytes:
        raise FrameError("bytes behind a bundle")
    return blocks


cdef Payload payload_of(object frames, int blocks):
    if not frames:
        return Payload(b"", 0, blocks)
    if len(frames) > 1 or not 0 < len(frames[0]) <= BUNDLE_BYTES_MAX:
        raise FrameError("a bundle with an odd payload")
    return Payload(frames[0], len(frames[0]), blocks)
