"""Maps another worker's segment, by what that worker said of it."""

import mmap
import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp


cdef class Segment:
    def __cinit__(self, int pid, int descriptor, bytes token):
        fd = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map(fd, token)
        finally:
            os.close(fd)

    cdef int _map(self, int fd, bytes token) except -1:
        cdef size_t size = os.fstat(fd).st_size
        cdef Head head
        first = os.pread(fd, sizeof(Head), 0)
        if len(first) < <Py_ssize_t>sizeof(Head) or len(token) != TOKEN_BYTES:
            raise OSError("not a segment")
        head = (<Head*><char*>first)[0]
        if head.magic != MAGIC or memcmp(head.token, <char*>token, TOKEN_BYTES) != 0:
            raise OSError("another segment")
        if head.links > LINKS_MAX or head.sides > SIDES_MAX:
            raise OSError("a segment of another form")
        cdef size_t control = control_bytes(head.links, head.sides)
        if size != control + head.data_bytes:
            raise OSError("a segment of another size")
        self.links, self.sides = head.links, head.sides
        PyObject_GetBuffer(mmap.mmap(fd, control), &self.control, PyBUF_SIMPLE)
        PyObject_GetBuffer(mmap.mmap(fd, size - control, prot=mmap.PROT_READ, offset=control), &self.data, PyBUF_SIMPLE)
        return 0

    def __dealloc__(self):
        if self.control.buf != NULL:
            PyBuffer_Release(&self.control)
        if self.data.buf != NULL:
            PyBuffer_Release(&self.data)

    cdef Head* head(self) noexcept:
        return <Head*>self.control.buf

    cdef Side* side(self, size_t side) except NULL:
        if side >= self.sides:
            raise OSError(f"no side {side} among {self.sides}")
        return <Side*>(<char*>self.control.buf + side_offset(self.links, side))
