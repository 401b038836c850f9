"""The layout of a segment: memory of one worker that other workers of its host map (engine/wire/arena.pyx).

    Head | generation of each slot | per link: owner, then what was released of each slot |
    per neighbour: this worker's side of their channel | data

A word is written by the segment's worker alone, but `doorbell`, which every neighbour may ring, and `released`, which
the link's borrower writes. Both ends treat what the other wrote as a claim: a borrower checks the generation of a slot,
a lender compares what was released with what it lent, a channel checks positions and sizes (engine/wire/channel.pyx).
"""

from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from riprap.engine.wire._atomics cimport Word
from riprap.engine.wire._doorbell cimport Doorbell

cdef enum:
    SLOTS = 2048
    LINKS_MAX = 4096
    SIDES_MAX = 2 * LINKS_MAX
    PAGE_BYTES = 4096
    TOKEN_BYTES = 16
    RING_BYTES = 1 << 16
    LINE_BYTES = 128  # two cache lines: x86 prefetches lines in pairs
    MAGIC = 0x72697332  # "ris2": changes with the layout

cdef struct Head:
    uint64_t magic
    unsigned char token[TOKEN_BYTES]  # drawn by the worker: tells its segment from any other file
    uint64_t links
    uint64_t sides
    uint64_t data_bytes
    char pad[LINE_BYTES]
    Doorbell doorbell  # wakes the worker's compute thread

cdef struct Lane:
    Word owner  # which incarnation the link leads to; 0: none. Once it changes the former owner may read nothing any more.
    char pad[56]
    Word released[SLOTS]  # the last generation that the borrower has let go of

# Positions are bytes since the segment was made; they only grow. Invariant: head of the other side <= tail <= head + RING_BYTES
cdef struct Side:
    Word tail  # up to here this worker has written
    Word stalled  # 1: it waits for room, and wants to be rung when the neighbour has read
    char pad_tail[LINE_BYTES - 16]
    Word head  # up to here it has read what the neighbour wrote in the neighbour's segment
    char pad_head[PAGE_BYTES - LINE_BYTES - 8]
    char ring[RING_BYTES]


cdef inline Word* generations(char* base) noexcept nogil:
    return <Word*>(base + PAGE_BYTES)


cdef inline Lane* lane_of(char* base, size_t link) noexcept nogil:
    return <Lane*>(base + PAGE_BYTES + SLOTS * sizeof(Word)) + link


cdef inline size_t side_offset(size_t links, size_t side) noexcept nogil:
    """Sides begin at a page."""
    cdef size_t lanes = PAGE_BYTES + SLOTS * sizeof(Word) + links * sizeof(Lane)
    return (lanes + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES + side * sizeof(Side)


cdef inline size_t control_bytes(size_t links, size_t sides) noexcept nogil:
    """Bytes before the data: whole pages."""
    return side_offset(links, sides)


# Another worker's segment, mapped: the control part to write, the data to read only.
cdef class Segment:
    cdef Py_buffer control
    cdef Py_buffer data
    cdef size_t links
    cdef size_t sides

    cdef int _map(self, int fd, bytes token) except -1
    cdef Head* head(self) noexcept
    cdef Side* side(self, size_t side) except NULL
