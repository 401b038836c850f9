"""A count-min sketch of bytes per flow as a fault-tolerant state (AF Table 3, Experiment 3).

Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch and its applications" (2005). The rows'
hash functions are Thorup's pair-multiply-shift ("High speed hashing for integers and strings", 2015).
"""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from riprap.operators.packets.flows import ENDS, as_bytes, ends_of
from riprap.operators.states.base import Backup, State

cdef extern from "count_min.h" nogil:
    enum:
        SKETCH_ROWS
    ctypedef struct row_hash:
        uint64_t a, b, c
    ctypedef struct flow_set:
        uint64_t *keys
        size_t *packets
        void *table
        size_t count
    ctypedef struct packet_columns:
        const char *flows
        const char *sizes
        size_t stride
    ctypedef struct count_min:
        int64_t *totals
        int64_t *saved
        row_hash hashes[4]
        size_t width
        uint32_t *list
        size_t listed
        int64_t line, limit, divergence
        bint behind
        flow_set kept
    size_t sketch_column(const row_hash *hash, uint64_t flow, size_t width)
    int flow_set_add(flow_set *set, uint64_t key, size_t packet)
    void flow_set_clear(flow_set *set)
    ptrdiff_t sketch_add(count_min *sketch, packet_columns packets, size_t first, size_t stop, int64_t theta)
    void sketch_look(count_min *sketch)
    void sketch_draw(count_min *sketch, int64_t line)
    void sketch_take_listed(count_min *sketch, uint32_t *indexes, int64_t *totals)
    size_t sketch_take_all(count_min *sketch, int full, uint32_t *indexes, int64_t *totals)

ROWS = SKETCH_ROWS
WIDTH_MAX = 1 << 24

cdef int64_t whole(double bound):
    """The largest integer that is not above a bound; differences are whole, so comparing with it is exact."""
    return INT64_MAX if bound >= 9e18 else <int64_t>np.floor(bound) if bound > -9e18 else -INT64_MAX


cdef class _Sketch:
    """The counters and the flows that crossed the limit, in C."""

    cdef count_min own
    cdef size_t kept_saved

    def __cinit__(self, size_t width, uint64_t[:, ::1] hashes, double limit):
        self.own.totals = <int64_t *>calloc(SKETCH_ROWS * width, sizeof(int64_t))
        self.own.saved = <int64_t *>calloc(SKETCH_ROWS * width, sizeof(int64_t))
        self.own.list = <uint32_t *>calloc(SKETCH_ROWS * width, sizeof(uint32_t))
        if not self.own.totals or not self.own.saved or not self.own.list:
            raise MemoryError
        self.own.width = width
        self.own.limit = whole(limit)
        for row in range(SKETCH_ROWS):
            self.own.hashes[row] = row_hash(hashes[row, 0], hashes[row, 1], hashes[row, 2])

    def __dealloc__(self):
        free(self.own.totals)
        free(self.own.saved)
        free(self.own.list)
        free(self.own.kept.keys)
        free(self.own.kept.packets)
        free(self.own.kept.table)

    def add(self, const unsigned char[::1] records, size_t stride, size_t flow, size_t size, size_t first, double theta):
        cdef packet_columns packets
        cdef size_t stop = records.shape[0] // stride
        cdef int64_t bound = whole(theta)
        cdef ptrdiff_t left
        if first >= stop:
            return stop
        packets.flows, packets.sizes = <const char *>&records[flow], <const char *>&records[size]
        packets.stride = stride
        with nogil:
            left = sketch_add(&self.own, packets, first, stop, bound)
        if left < 0:
            raise MemoryError
        return left

    def columns(self, const uint64_t[::1] flows):
        cdef size_t row, i
        out = np.empty((SKETCH_ROWS, flows.shape[0]), np.int64)
        cdef int64_t[:, ::1] to = out
        for row in range(SKETCH_ROWS):
            for i in range(<size_t>flows.shape[0]):
                to[row, i] = sketch_column(&self.own.hashes[row], flows[i], self.own.width)
        return out

    cdef array(self, int64_t *counters):
        return np.asarray(<int64_t[:SKETCH_ROWS * self.own.width]>counters)

    def totals(self):
        return self.array(self.own.totals).reshape(SKETCH_ROWS, -1).copy()

    def draw_line(self, double most):
        """Count as changed only counters that differ by more than `most` bytes from the last backup."""
        cdef int64_t line = max(0, whole(most))
        if line != self.own.line:
            with nogil:
                sketch_draw(&self.own, line)

    def take_changed(self):
        """Indexes and totals of the counters that changed, and the flows kept since; they count from here from now on."""
        if not self.own.line:
            return self.take_all(False)
        self.catch_up()
        cdef size_t count = self.own.listed
        indexes, totals = np.empty(count, np.uint32), np.empty(count, np.int64)
        cdef uint32_t[::1] to_indexes = indexes
        cdef int64_t[::1] to_totals = totals
        sketch_take_listed(&self.own, &to_indexes[0] if count else NULL, &to_totals[0] if count else NULL)
        kept = self.kept(self.kept_saved)
        self.kept_saved = self.own.kept.count
        return indexes, totals, kept

    def take_all(self, bint full):
        """The same by a look at all counters (`full`: those that are not 0, and all flows kept)."""
        room = SKETCH_ROWS * self.own.width
        indexes, totals = np.empty(room, np.uint32), np.empty(room, np.int64)
        cdef uint32_t[::1] to_indexes = indexes
        cdef int64_t[::1] to_totals = totals
        with nogil:
            count = sketch_take_all(&self.own, full, &to_indexes[0], &to_totals[0])
        kept = self.kept(0 if full else self.kept_saved)
        self.kept_saved = self.own.kept.count
        return indexes[:count].copy(), totals[:count].copy(), kept

    def kept(self, size_t first):
        cdef size_t count = self.own.kept.count
        if first >= count:
            return np.empty(0, np.uint64)
        return np.asarray(<uint64_t[:count]>self.own.kept.keys)[first:].copy()

    @property
    def kept_count(self):
        return self.own.kept.count

    def brought_by(self, size_t first):
        """The packets of the block that was added last that brought the flows from number `first` on."""
        return [self.own.kept.packets[i] for i in range(first, self.own.kept.count)]

    def load(self, indexes, totals, const uint64_t[::1] kept):
        for counters in self.array(self.own.totals), self.array(self.own.saved):
            counters[indexes] = totals
        for i in range(kept.shape[0]):
            if flow_set_add(&self.own.kept, kept[i], 0):
                raise MemoryError
        self.kept_saved = self.own.kept.count
        self.own.divergence = 0
        self.own.behind = False

    def clear(self):
        for counters in self.array(self.own.totals), self.array(self.own.saved):
            counters[:] = 0
        flow_set_clear(&self.own.kept)
        self.own.divergence = 0
        self.own.behind = False
        self.own.listed = 0
        self.kept_saved = 0

    cdef catch_up(self):
        if self.own.behind:
            with nogil:
                sketch_look(&self.own)

    @property
    def divergence(self):
        self.catch_up()
        return self.own.divergence


class CountMin(State):
    """Sums of bytes per flow, never underestimated, in 4 rows of `width` counters.

    An estimate exceeds the truth by more than e / width of all bytes with a probability of at most e^-4. Flows whose
    estimate exceeds `limit` bytes are kept, with the ends of the packet that brought them over it. Divergence: the maximum difference of a counter (AF Table 3), in bytes.
    Sketches of the same width and seed can be added.

    A partial backup holds the counters that differ by more than `spared` from the last one; compensation is always saved.
    """

    window = "hopping"

    def __init__(self, width=8000, seed=0, limit=np.inf):
        if not 0 < width <= WIDTH_MAX:
            raise ValueError(f"a row of {width} counters; 1 to {WIDTH_MAX} are possible")
        hashes = np.random.default_rng([seed, 0xC0]).integers(0, 2**64, (ROWS, 3), np.uint64)
        self._sketch = _Sketch(width, hashes, limit)
        self._fresh = True
        self._compensation = self._compensation_saved = 0
        self._ends = as_bytes(np.empty(0, ENDS))
        self._layout = self._offsets = None
        self.width = width

    def add(self, records, first=0, flow="flow", size="size"):
        """Count packets first, first + 1, ... of a structured array and return the number of the first that is left.

        `flow` and `size` name a uint64 and a uint32 field. Stops behind the packet that makes the divergence exceed
        theta. ValueError when the fields are others.
        """
        layout = records.dtype, flow, size
        if layout != self._layout:
            self._offsets = offsets_of(*layout)
            self._layout = layout
        if records.ndim != 1:
            raise ValueError(f"packets must be a one-dimensional array, not of shape {records.shape}")
        raw = np.ascontiguousarray(records).view(np.uint8)
        unsaved = self._compensation - self._compensation_saved
        self._sketch.draw_line(self.spared)
        known = self._sketch.kept_count
        left = self._sketch.add(raw, records.itemsize, *self._offsets, first, self.theta - unsaved)
        if self._sketch.kept_count > known:
            fresh = as_bytes(ends_of(records[self._sketch.brought_by(known)]))
            self._ends = np.concatenate([self._ends, fresh])
        return left

    def compensate(self, amount):
        """Add `amount` bytes to every counter, so that no flow is underestimated after a loss of that many."""
        self._compensation += int(np.ceil(amount))

    def columns(self, flows):
        """The columns in which flows (uint64) are counted: int64 (4, len(flows)), one number a row of the sketch."""
        return self._sketch.columns(np.ascontiguousarray(flows, np.uint64))

    def estimate(self, flows):
        """Estimated bytes of flows (uint64): int64, none below the truth."""
        return estimate(self.totals(), self.columns(flows))

    def totals(self):
        """All counters: int64 (4, width), a copy."""
        return self._sketch.totals() + self._compensation

    @property
    def kept(self):
        """The flows whose estimate (without compensation) exceeded the limit: uint64, in the order they crossed it."""
        return self._sketch.kept(0)

    @property
    def ends(self):
        """The ends of the kept flows, by the packet that brought each over the limit: uint8 (n, 38), see flows.py."""
        return self._ends

    @property
    def cleared(self):
        """True when the next backup is a full one."""
        return self._fresh

    def clear(self):
        """Empty it, at a window's end; the next backup is a full one."""
        self._sketch.clear()
        self._compensation = self._compensation_saved = 0
        self._ends = self._ends[:0]
        self._fresh = True

    def state_divergence(self):
        return float(self._sketch.divergence + self._compensation - self._compensation_saved)

    @property
    def exceeded(self):
        """True when a backup is due: also when it was compensated, as the losses of a failure count against theta."""
        if self._compensation > self._compensation_saved:
            return True
        return self.theta < np.inf and self.state_divergence() > self.theta

    def backup_state(self):
        if self._fresh:
            return self.backup_all()
        self._sketch.draw_line(self.spared)
        return self._backup(False, *self._sketch.take_changed())

    def backup_all(self):
        self._fresh = False
        return self._backup(True, *self._sketch.take_all(True))

    def _backup(self, full, indexes, totals, kept):
        """Counters and flows with the values that are saved beside them."""
        self._compensation_saved = self._compensation
        about = np.array([self.width, self._compensation], np.int64)
        return Backup(full, (about, indexes, totals, kept, self._ends[len(self._ends) - len(kept):].copy()))

    def recover_state(self, backup):
        about, indexes, totals, kept, ends = self._checked(backup)
        if backup.full:
            self._sketch.clear()
        elif self._fresh or self.state_divergence() > 0:
            raise ValueError("a partial backup can only be taken in after the full one and those between them")
        self._sketch.load(indexes, totals, kept)
        self._ends = ends.copy() if backup.full else np.concatenate([self._ends, ends])
        self._compensation = self._compensation_saved = int(about[1])
        self._fresh = False

    def _checked(self, backup):
        types = [(a.dtype, a.ndim) for a in backup.arrays]
        if types != [(np.dtype(t), d) for t, d in (("<i8", 1), ("<u4", 1), ("<i8", 1), ("<u8", 1), ("|u1", 2))]:
            raise ValueError(f"a backup of a sketch does not consist of {types}")
        about, indexes, totals, kept, ends = backup.arrays
        known = kept if backup.full else np.concatenate([self.kept, kept])
        if ends.shape != (len(kept), ENDS.itemsize) or len(np.unique(known)) != len(known):
            raise ValueError("a backup of a sketch with flows that are there twice, or without their ends")
        if len(about) != 2 or about[0] != self.width or len(indexes) != len(totals):
            raise ValueError(f"a backup of another sketch than one of 4 rows of {self.width}")
        if (indexes >= ROWS * self.width).any() or (totals < 0).any() or about[1] < 0:
            raise ValueError("a backup of a sketch with counters that cannot be")
        return about, indexes, totals, kept, ends


def offsets_of(dtype, flow, size):
    """The offsets of the fields of flows and sizes in a record. ValueError when they are no uint64 and uint32."""
    fields = dtype.fields or {}
    if any(name not in fields or fields[name][0] != np.dtype(t) for name, t in ((flow, "<u8"), (size, "<u4"))):
        raise ValueError(f"no column {flow} of uint64 or {size} of uint32 in {dtype}")
    return fields[flow][1], fields[size][1]


def estimate(totals, columns):
    """Estimated bytes of the flows at these columns, from counters of shape (4, width)."""
    return np.take_along_axis(totals, columns, axis=1).min(axis=0)
