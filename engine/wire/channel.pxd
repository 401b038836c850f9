"""Messages between two workers of one host through memory: a ring of bytes in each one's segment.

A message is a run of 64-bit words, all little-endian: its size in bytes with these words, the number of its parts (the
header and the frames), the size of each part; then the parts, each padded to 8 bytes. A message that the ring has no room
for goes in pieces, as the reader makes room.
"""

from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t

from riprap.engine.wire._doorbell cimport Doorbell
from riprap.engine.wire._segment cimport Segment, Side
from riprap.engine.wire.arena cimport Arena

# What the loop of the compute thread looks at without the GIL.
cdef struct End:
    Side* mine
    Side* theirs
    Doorbell* bell  # the neighbour's
    bint waiting  # something waits for room
    bint broken  # the neighbour wrote what it cannot have meant

# Whether there is something to read, or room for what waits.
cdef bint channel_ready(End* end) noexcept nogil


cdef class Channel:
    cdef End end
    cdef Arena arena
    cdef Segment segment
    cdef object origin  # of what arrives, and who it is from: as Network.receive returns them
    cdef object sender
    cdef size_t bytes_max
    cdef list waiting  # messages that were not written whole yet
    cdef size_t written  # of the first of them
    cdef bytes partial  # a message that has not come whole yet
    cdef size_t partial_size  # how much of it came
    cdef readonly size_t messages_in
    cdef readonly size_t bytes_in
    cdef readonly size_t messages_out
    cdef readonly size_t bytes_out

    cdef bint offer(self, bytes header, object frames) except -1
    cdef int turn(self, list batch, int count_max) except -1
    cdef bytes _packed(self, Py_buffer* views, int count)
    cdef size_t _room(self) noexcept
    cdef size_t _write(self, const char* data, size_t size) noexcept
    cdef int _write_on(self) except -1
    cdef bint _read_piece(self) except -1
    cdef tuple _unpacked(self)
