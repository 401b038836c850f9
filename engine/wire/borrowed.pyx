"""The borrowing half of shared memory between workers of one host: views of slots in another worker's segment."""

cimport cython
from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from libc.string cimport memset

from riprap.codec.errors import FrameError
from riprap.engine.wire._atomics cimport fence, load_acquire, load_relaxed, store_release
from riprap.engine.wire._segment cimport SLOTS, Lane, Segment, generations, lane_of


@cython.final
@cython.no_gc_clear
cdef class SlotView:
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
    def __cinit__(self, int pid, int descriptor, bytes token, size_t link, size_t owner):
        memset(self.held, 0, sizeof(self.held))
        memset(self.views, 0, sizeof(self.views))
        self.mapped = Segment(pid, descriptor, token)
        if link >= self.mapped.links:
            raise OSError("a link that the segment has not")
        self.control, self.data = &self.mapped.control, &self.mapped.data
        self.lane = lane_of(<char*>self.control.buf, link)
        self.owner = owner

    @property
    def is_current(self):
        return self.current()

    cdef bint current(self) noexcept:
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
        cdef SlotView view = SlotView.__new__(SlotView)
        view.segment, view.index, view.start, view.nbytes = self, index, offset, nbytes
        return view

    cdef int _enter(self, int index, size_t generation) except -1:
        """Begin to hold a slot, unless it is over: released from here before, or given away."""
        if load_relaxed(&self.lane.released[index]) == generation:
            raise FrameError("a slot that was released")
        if load_acquire(&generations(<char*>self.control.buf)[index]) != generation:
            raise FrameError("a slot that was given away")
        self.held[index] = generation
        self.holding += 1
        return 0

    cdef void release(self, int index) noexcept:
        self.views[index] -= 1
        if self.views[index] == 0:
            self.holding -= 1
            # A fence before the word: all reads of the slot are over when the lender sees it.
            store_release(&self.lane.released[index], self.held[index])
