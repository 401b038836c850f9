"""A worker's shared memory: slots that it lends to its receivers, and its side of each channel (engine/wire/channel.pyx).

The segment is a file of /dev/shm without a name (O_TMPFILE, open(2)): whoever is killed, nothing can be left behind.
Neighbours open it as /proc/PID/fd/FD. A slot is free again when its array here is gone and every link that it was lent
on has released it, or leads elsewhere; only slots without an array are looked at. So nothing that someone may still
read is ever written over, except by the death of the reader's incarnation, which its lane's `owner` tells it.
"""

from bisect import bisect

import mmap
import os

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy, memset

from riprap.engine.wire._atomics cimport fence, load_acquire, store_release
from riprap.engine.wire._doorbell cimport Doorbell
from riprap.engine.wire._segment cimport (
    LINKS_MAX, MAGIC, SIDES_MAX, SLOTS, TOKEN_BYTES, Head, Side, control_bytes, generations, lane_of, side_offset,
)

cdef extern from "<fcntl.h>" nogil:
    int posix_fallocate(int fd, long offset, long size)

FOLDER = "/dev/shm"

cdef enum:
    ALIGN_BYTES = 64
    # Memory is taken from the system in such steps, before it is touched: then a lack of it is an error, not a SIGBUS.
    STEP_BYTES = 1 << 21


@cython.final
@cython.no_gc_clear
cdef class Slot:
    """A piece of an arena with the buffer protocol; an array over it keeps it from being given away."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.arena.data + self.arena.entries[self.index].start, self.nbytes, 0, flags)

    def __dealloc__(self):
        if self.arena is not None:
            self.arena.dropped[self.arena.dropped_count] = self.index
            self.arena.dropped_count += 1

    @property
    def address(self):
        return <size_t>self.arena.data + self.arena.entries[self.index].start

    @property
    def place(self):
        """Its place, for a receiver: (slot, generation, offset)."""
        cdef Entry* entry = &self.arena.entries[self.index]
        return self.index, entry.generation, entry.start


cdef class Arena:
    def __cinit__(self, size_t links, size_t data_bytes, size_t sides=0):
        self.fd = -1
        if links > LINKS_MAX or sides > SIDES_MAX or not 1 <= data_bytes <= 1 << 40:
            raise ValueError(
                f"an arena has up to {LINKS_MAX} links, {SIDES_MAX} sides and 2**40 bytes, "
                f"not {links}, {sides} and {data_bytes}"
            )
        memset(self.entries, 0, sizeof(self.entries))
        self.links, self.sides, self.data_bytes, self.refusal = links, sides, data_bytes, ""
        self.token = os.urandom(TOKEN_BYTES)
        self.gaps, self.spare, self.holders = [(0, data_bytes)], list(range(SLOTS - 1, -1, -1)), {}
        self.fd = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        cdef size_t control = control_bytes(links, sides)
        os.ftruncate(self.fd, control + data_bytes)
        cdef int error = posix_fallocate(self.fd, 0, side_offset(links, 0))
        if error:
            raise OSError(error, os.strerror(error))
        PyObject_GetBuffer(mmap.mmap(self.fd, control + data_bytes), &self.map, PyBUF_SIMPLE)
        self.base = <char*>self.map.buf
        self.data = self.base + control
        cdef Head* head = <Head*>self.base
        memcpy(head.token, <char*>self.token, TOKEN_BYTES)
        head.links, head.sides, head.data_bytes, head.magic = links, sides, data_bytes, MAGIC

    def __dealloc__(self):
        if self.base != NULL:
            PyBuffer_Release(&self.map)
        if self.fd >= 0:
            os.close(self.fd)

    @property
    def descriptor(self):
        return self.fd

    cdef Doorbell* doorbell(self) noexcept:
        return &(<Head*>self.base).doorbell

    cdef Side* take_side(self, size_t side) except NULL:
        """A side, backed by memory from now on; OSError when there is none."""
        if side >= self.sides:
            raise ValueError(f"no side {side} among {self.sides}")
        cdef long start = side_offset(self.links, side)
        cdef int error = posix_fallocate(self.fd, start, sizeof(Side))
        if error:
            raise OSError(error, os.strerror(error))
        return <Side*>(self.base + start)

    def open_link(self, size_t link, size_t owner):
        self._check(link)
        if owner == 0:
            raise ValueError("a link's owner is a number from 1 on")
        self.close_link(link)
        store_release(&lane_of(self.base, link).owner, owner)

    def close_link(self, size_t link):
        self._check(link)
        store_release(&lane_of(self.base, link).owner, 0)
        fence()  # before anything that it held is written over
        for held in self.holders.values():
            held.discard(link)

    cdef int _check(self, size_t link) except -1:
        if link >= self.links:
            raise ValueError(f"no link {link} among {self.links}")
        return 0

    def allocate(self, size_t nbytes):
        if nbytes == 0:
            raise ValueError("a slot has at least one byte")
        cdef size_t size = (nbytes + ALIGN_BYTES - 1) // ALIGN_BYTES * ALIGN_BYTES
        self.collect()
        if not self.spare:
            return None
        for i, (start, end) in enumerate(self.gaps):
            if end - start >= size:
                if not self._take_memory(start + size):
                    return None
                if end - start == size:
                    del self.gaps[i]
                else:
                    self.gaps[i] = (start + size, end)
                return self._slot(start, start + size, nbytes)
        return None

    cdef bint _take_memory(self, size_t end) except -1:
        """Have so much of the data backed by memory; False, with `refusal` set, when there is none."""
        cdef size_t wanted = min(self.data_bytes, (end + STEP_BYTES - 1) // STEP_BYTES * STEP_BYTES)
        if end <= self.taken_bytes:
            return True
        cdef long start = control_bytes(self.links, self.sides) + self.taken_bytes
        cdef int error = posix_fallocate(self.fd, start, wanted - self.taken_bytes)
        if error:
            self.refusal = os.strerror(error)
            return False
        self.taken_bytes = wanted
        return True

    cdef Slot _slot(self, size_t start, size_t end, size_t nbytes):
        cdef int index = self.spare.pop()
        self.last_generation += 1
        self.entries[index] = Entry(start, end, self.last_generation)
        store_release(&generations(self.base)[index], self.last_generation)
        cdef Slot slot = Slot.__new__(Slot)
        slot.arena, slot.index, slot.nbytes = self, index, nbytes
        self.holders[index] = set()
        return slot

    def lend(self, Slot slot, size_t link):
        """Note that the slot is lent on a link. False when that link has released it before: it may hold nothing then."""
        self._check(link)
        if self._released(slot.index, link):
            return False
        self.holders[slot.index].add(link)
        return True

    cdef bint _released(self, int index, size_t link) noexcept:
        return load_acquire(&lane_of(self.base, link).released[index]) == self.entries[index].generation

    def collect(self):
        """Free the slots that nobody reads any more; how many are left."""
        cdef int i = 0, kept = 0, index
        while i < self.dropped_count:  # which grows, where a slot that is freed brings the collector of garbage about
            index = self.dropped[i]
            i += 1
            if self._is_lent(index):
                self.dropped[kept] = index
                kept += 1
            else:
                self._free(index)
        self.dropped_count = kept
        return len(self.holders)

    cdef bint _is_lent(self, int index) except -1:
        cdef set held = self.holders[index]
        for link in [link for link in held if self._released(index, link)]:
            held.remove(link)
        return bool(held)

    cdef int _free(self, int index) except -1:
        start, end = self.entries[index].start, self.entries[index].end
        store_release(&generations(self.base)[index], 0)
        self.entries[index].generation = 0
        del self.holders[index]
        self.spare.append(index)
        cdef Py_ssize_t place = bisect(self.gaps, (start, end))
        if place < len(self.gaps) and self.gaps[place][0] == end:
            end = self.gaps.pop(place)[1]
        if place and self.gaps[place - 1][1] == start:
            place -= 1
            start = self.gaps.pop(place)[0]
        self.gaps.insert(place, (start, end))
        return 0
