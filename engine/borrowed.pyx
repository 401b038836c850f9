"""The borrowing half of shared memory between workers of one host: views of slots in another worker's segment."""

import mmap
import os

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp, memset

from codec.errors import FrameError
from engine._atomics cimport fence, load_acquire, load_relaxed, store_release
from engine._segment cimport LINKS_MAX, MAGIC, SLOTS, TOKEN_BYTES, Head, Lane, control_bytes, generations, lane_of


@cython.final
@cython.no_gc_clear
cdef class View:
    """Bytes of a slot, read-only; the slot is released when the last view of it is gone."""

    cdef Borrowed segment
    cdef int index
    cdef size_t start
    cdef readonly size_t nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <char*>self.segment.data.buf + self.start, self.nbytes, 1, flags)

    def __dealloc__(self):
        if self.segment is not None:
            self.segment.release(self.index)


cdef class Borrowed:
    cdef Py_buffer control
    cdef Py_buffer data
    cdef Lane* lane
    cdef size_t owner
    cdef size_t held[SLOTS]  # generation
    cdef unsigned int views[SLOTS]
    cdef bint is_open

    def __cinit__(self, int pid, int descriptor, bytes token, size_t link, size_t owner):
        memset(self.held, 0, sizeof(self.held))
        memset(self.views, 0, sizeof(self.views))
        fd = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map(fd, token, link)
        finally:
            os.close(fd)
        self.owner = owner

    cdef int _map(self, int fd, bytes token, size_t link) except -1:
        """Map both parts; OSError unless the file is the segment that the token names."""
        cdef size_t size = os.fstat(fd).st_size
        cdef Head head
        first = os.pread(fd, sizeof(Head), 0)
        if len(first) < <Py_ssize_t>sizeof(Head) or len(token) != TOKEN_BYTES:
            raise OSError("not a segment")
        head = (<Head*><char*>first)[0]
        if head.magic != MAGIC or memcmp(head.token, <char*>token, TOKEN_BYTES) != 0 or link >= head.links:
            raise OSError("another segment")
        cdef size_t control = control_bytes(head.links) if head.links <= LINKS_MAX else 0
        if control == 0 or size != control + head.data_bytes:
            raise OSError("a segment of another size")
        PyObject_GetBuffer(mmap.mmap(fd, control), &self.control, PyBUF_SIMPLE)
        PyObject_GetBuffer(mmap.mmap(fd, size - control, prot=mmap.PROT_READ, offset=control), &self.data, PyBUF_SIMPLE)
        self.lane = lane_of(<char*>self.control.buf, link)
        self.is_open = True
        return 0

    def __dealloc__(self):
        if self.control.buf != NULL:
            PyBuffer_Release(&self.control)
        if self.data.buf != NULL:
            PyBuffer_Release(&self.data)

    @property
    def is_current(self):
        fence()
        return load_acquire(&self.lane.owner) == self.owner

    def view(self, int index, size_t generation, size_t offset, size_t nbytes):
        if not 0 <= index < SLOTS or generation == 0 or offset > <size_t>self.data.len or nbytes > self.data.len - offset:
            raise FrameError("a slot outside its segment")
        if self.views[index] == 0:
            self._enter(index, generation)
        elif self.held[index] != generation:
            raise FrameError("a slot with two generations")
        self.views[index] += 1
        cdef View view = View.__new__(View)
        view.segment, view.index, view.start, view.nbytes = self, index, offset, nbytes
        return view

    cdef int _enter(self, int index, size_t generation) except -1:
        """Begin to hold a slot, unless it is over: released from here before, or given away."""
        if load_relaxed(&self.lane.released[index]) == generation:
            raise FrameError("a slot that was released")
        if load_acquire(&generations(<char*>self.control.buf)[index]) != generation:
            raise FrameError("a slot that was given away")
        self.held[index] = generation
        return 0

    cdef void release(self, int index) noexcept:
        self.views[index] -= 1
        if self.views[index] == 0:
            # A fence before the word: all reads of the slot are over when the lender sees it.
            store_release(&self.lane.released[index], self.held[index])

    @property
    def holding(self):
        return sum(1 for views in self.views if views)
