"""The ordinary way of a block that leaves; the odd cases stand in engine/worker/port.py."""

cimport cython
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from riprap.codec._bundle cimport Bundle

from riprap.codec.blocks import Kind

cdef object HELLO = Kind.HELLO
cdef enum:
    BURST_NS = 50_000  # since the block before: what follows later is alone, and leaves at once
    HELD_NS = 200_000  # the longest that a block is held for those behind it


@cython.final
cdef class Way:
    cdef readonly object connection
    cdef readonly object edge
    cdef readonly object to
    cdef Bundle bundle
    cdef int64_t held_at
    cdef int64_t used_at

    def __init__(self, connection, edge, to, bytes prefix):
        self.connection, self.edge, self.to, self.bundle = connection, edge, to, Bundle(prefix)
        self.used_at = 0


cdef class OrdinaryWire:
    cdef public dict _ways
    cdef list _held

    def __init__(self):
        self._ways, self._held = {}, []

    def transmit(self, edge, to, seq, block):
        cdef Way way = self._ways.get((edge, to))
        if way is None:
            way = self._open(edge, to)
            if way is None:
                return
        block.seq = seq
        if block.kind is HELLO or not self._hold(way, block, seq):
            self.flush()
            self._forward(way.connection, edge, to, block)

    cdef bint _hold(self, Way way, object block, object seq) except -1:
        """Put a block in the bundle of its link; False for one that is too large for any."""
        cdef int64_t now = now_ns()
        if not way.bundle.put(block, seq):
            if not way.bundle.count:
                return False
            self.flush()
            if not way.bundle.put(block, seq):
                return False
        if way.bundle.count == 1:
            way.held_at = now
            self._held.append(way)
        if now - way.used_at > BURST_NS or now - way.held_at > HELD_NS:
            self.flush()
        way.used_at = now
        return True

    def flush(self):
        cdef Way way
        cdef bytes header
        cdef list frames
        if not self._held:
            return
        self._check_current()
        held, self._held = self._held, []
        for way in held:
            header, frames = way.bundle.taken()
            self._write(way, header, frames)

    def shut(self, to=None):
        self._held = [way for way in self._held if to is not None and (<Way>way).to != to]
        self._ways = {place: way for place, way in self._ways.items() if to is not None and (<Way>way).to != to}

    cdef int _write(self, Way way, bytes header, list frames) except -1:
        if self.network.send(way.connection, header, frames):
            self.bytes_sent[way.edge[1]] += len(header) + (len(frames[0]) if frames else 0)
        else:
            self.counts["ring_full"] += 1  # lost on the way; the next HELLO brings it back
        return 0


cdef int64_t now_ns() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
