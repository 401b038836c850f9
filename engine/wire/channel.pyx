"""The channels of a worker: see engine/wire/channel.pxd for the form of what travels, engine/wire/channel.pyi for its use.

Only the segment's own worker writes to a side, so a former incarnation of the neighbour that goes on writing reaches
nobody: nobody reads its segment any more. The order of messages is kept; none is lost but by the end of either process.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from riprap.engine.wire._atomics cimport fence, load_acquire, load_relaxed, store_relaxed, store_release
from riprap.engine.wire._doorbell cimport doorbell_ring
from riprap.engine.wire._message cimport FRAMES_MAX
from riprap.engine.wire._segment cimport RING_BYTES

cdef enum:
    WORD = 8
    PARTS_MAX = FRAMES_MAX + 1


cdef inline size_t padded(size_t size) noexcept nogil:
    return (size + WORD - 1) & ~<size_t>(WORD - 1)


cdef bint channel_ready(End* end) noexcept nogil:
    if end.broken:
        return False
    if load_acquire(&end.theirs.tail) != load_relaxed(&end.mine.head):
        return True
    return end.waiting and load_relaxed(&end.mine.tail) - load_acquire(&end.theirs.head) < RING_BYTES


cdef class Channel:
    def __cinit__(self, Arena arena not None, size_t side, object origin, object sender, size_t bytes_max):
        self.arena, self.origin, self.sender, self.bytes_max = arena, origin, sender, bytes_max
        self.end.mine = arena.take_side(side)
        self.end.broken = True  # nothing until it is joined
        self.waiting = []
        # Of a former neighbour's incarnation nothing may be left: what it did not read is not for the next one.
        store_relaxed(&self.end.mine.stalled, 0)

    @property
    def tail(self):
        return load_relaxed(&self.end.mine.tail)

    def join(self, int pid, int descriptor, bytes token, size_t side, size_t tail):
        self.segment = Segment(pid, descriptor, token)
        self.end.theirs = self.segment.side(side)
        self.end.bell = &self.segment.head().doorbell
        store_release(&self.end.mine.head, tail)
        self.end.broken = False

    @property
    def is_broken(self):
        return self.end.broken

    cdef bint offer(self, bytes header, object frames) except -1:
        """Take a message over, whether there is room or not; False when the channel is broken."""
        cdef Py_buffer views[PARTS_MAX]
        cdef int count = 0
        if len(frames) > FRAMES_MAX or not header:
            raise ValueError(f"a message has a header and at most {FRAMES_MAX} frames")
        if self.end.broken:
            return False
        try:
            PyObject_GetBuffer(header, &views[0], PyBUF_SIMPLE)
            count = 1
            for frame in frames:
                PyObject_GetBuffer(frame, &views[count], PyBUF_SIMPLE)
                count += 1
            self.waiting.append(self._packed(views, count))
        finally:
            while count > 0:
                count -= 1
                PyBuffer_Release(&views[count])
        self._write_on()
        return True

    cdef bytes _packed(self, Py_buffer* views, int count):
        cdef size_t size = WORD * (2 + count)
        cdef int i
        for i in range(count):
            size += padded(views[i].len)
        if size > self.bytes_max:
            raise ValueError(f"a message of {size} bytes is over the bound of {self.bytes_max}")
        cdef bytes message = PyBytes_FromStringAndSize(NULL, size)
        cdef uint64_t* words = <uint64_t*>PyBytes_AS_STRING(message)
        cdef char* place = PyBytes_AS_STRING(message) + WORD * (2 + count)
        words[0], words[1] = size, count
        for i in range(count):
            words[2 + i] = views[i].len
            memcpy(place, views[i].buf, views[i].len)
            memset(place + views[i].len, 0, padded(views[i].len) - views[i].len)
            place += padded(views[i].len)
        self.messages_out += 1
        self.bytes_out += size
        return message

    cdef int _write_on(self) except -1:
        """Write of what waits as much as there is room for, and have the neighbour look."""
        cdef bytes message
        cdef size_t size, before = load_relaxed(&self.end.mine.tail)
        while self.waiting:
            message = self.waiting[0]
            size = PyBytes_GET_SIZE(message)
            self.written += self._write(PyBytes_AS_STRING(message) + self.written, size - self.written)
            if self.written < size:
                break
            self.written = 0
            del self.waiting[0]
        self.end.waiting = len(self.waiting) > 0
        if not self.end.waiting:
            store_relaxed(&self.end.mine.stalled, 0)
        if load_relaxed(&self.end.mine.tail) != before:
            doorbell_ring(self.end.bell)
        return 0

    cdef size_t _room(self) noexcept:
        """Free bytes of the ring; when there are none, the neighbour is asked to ring once there are."""
        cdef size_t tail = load_relaxed(&self.end.mine.tail)
        cdef size_t used = tail - load_acquire(&self.end.theirs.head)
        if used == RING_BYTES:
            store_relaxed(&self.end.mine.stalled, 1)
            fence()
            used = tail - load_acquire(&self.end.theirs.head)
        if used > RING_BYTES:
            self.end.broken = True
            return 0
        return RING_BYTES - used

    cdef size_t _write(self, const char* data, size_t size) noexcept:
        cdef size_t done = 0, room, start, piece, tail
        while done < size:
            room = self._room()
            if room == 0:
                break
            tail = load_relaxed(&self.end.mine.tail)
            start = tail & (RING_BYTES - 1)
            piece = min(size - done, min(room, RING_BYTES - start))
            memcpy(&self.end.mine.ring[start], data + done, piece)
            store_release(&self.end.mine.tail, tail + piece)
            done += piece
        return done

    cdef int turn(self, list batch, int count_max) except -1:
        """Add to a batch what has come whole, and write what waits; how many came."""
        cdef int count = 0
        if self.end.waiting:
            self._write_on()
        while count < count_max and not self.end.broken and self._read_piece():
            message = self._unpacked()
            if message is None:
                self.end.broken = True
                break
            batch.append(message)
            count += 1
        return count

    cdef bint _read_piece(self) except -1:
        """Read on in the current message; whether it is whole."""
        cdef size_t head = load_relaxed(&self.end.mine.head)
        cdef size_t there = load_acquire(&self.end.theirs.tail) - head
        cdef size_t start, piece, size
        if there > RING_BYTES:
            self.end.broken = True
        if there == 0 or self.end.broken:
            return False
        if self.partial is None:
            size = (<uint64_t*>&self.end.theirs.ring[head & (RING_BYTES - 1)])[0]
            if there < WORD or head % WORD or size % WORD or not 4 * WORD <= size <= self.bytes_max:
                self.end.broken = True
                return False
            self.partial, self.partial_size = PyBytes_FromStringAndSize(NULL, size), 0
        size = PyBytes_GET_SIZE(self.partial)
        there = min(there, size - self.partial_size)
        while there > 0:
            start = head & (RING_BYTES - 1)
            piece = min(there, RING_BYTES - start)
            memcpy(PyBytes_AS_STRING(self.partial) + self.partial_size, &self.end.theirs.ring[start], piece)
            self.partial_size += piece
            head += piece
            there -= piece
        store_release(&self.end.mine.head, head)
        fence()
        if load_relaxed(&self.end.theirs.stalled):
            doorbell_ring(self.end.bell)
        return self.partial_size == size

    cdef tuple _unpacked(self):
        """The message that has come whole; None for what no neighbour can have written."""
        cdef bytes whole = self.partial
        cdef uint64_t* words = <uint64_t*>PyBytes_AS_STRING(whole)
        cdef size_t size = PyBytes_GET_SIZE(whole), place = WORD * (2 + words[1]), i
        self.partial = None
        if not 1 <= words[1] <= PARTS_MAX or words[0] != size or place > size or words[2] == 0:
            return None
        view = memoryview(whole)
        cdef list parts = []
        for i in range(words[1]):
            if words[2 + i] > size - place:
                return None
            parts.append(view[place : place + words[2 + i]])
            place += padded(words[2 + i])
        if place != size:
            return None
        self.messages_in += 1
        self.bytes_in += size
        return self.origin, self.sender, bytes(parts[0]), parts[1:]
