"""The inner loops of the fault-tolerant states: updates of whole blocks without the GIL, which stop where theta is crossed.

An object is used by one thread at a time. Arrays come contiguous and of the right type (riprap.operators.states.checks).
"""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t, uint64_t

import numpy as np

cdef extern from "entries.h" nogil:
    enum:
        MAXIMUM
    ctypedef union Cell:
        pass
    ctypedef struct Entries:
        Cell *values
        Cell *saved
        uint8_t *changed
        int64_t *list
        int64_t listed, count, counted
        double line, part
    int64_t entries_update(Entries *entries, const int64_t *indexes, const Cell *amounts, int64_t n, double theta, int kind,
                           int assign)
    void entries_replace(Entries *entries, const Cell *values, int kind)
    const double NO_LINE, NO_PROMISE
    void entries_draw(Entries *entries, double line, double part, int integer)
    void entries_settle_listed(Entries *entries)
    void entries_take(Entries *entries, const int64_t *indexes, const Cell *values, int64_t n)
    void entries_settle(Entries *entries)
    double entries_divergence(const Entries *entries, int kind)

cdef extern from "keys.h" nogil:
    enum:
        WAVE
        BEGINNING
        EXCEEDED
        NO_ROOM
        MALFORMED
    ctypedef struct Keys:
        uint64_t *slots
        int64_t *integers
        int64_t *offsets
        uint8_t *bytes
        uint64_t seed
        int64_t count, room, bytes_room
        int64_t bytes_wanted
        int bits, packed
    ctypedef struct Batch:
        const int64_t *integers
        const int64_t *offsets
        const uint8_t *bytes
        int64_t size
    int map_update(Keys *keys, Entries *entries, const Batch *batch, const Cell *amounts, int64_t n, int64_t *done,
                   double theta, int assign, int integer, int kind)
    int keys_add(Keys *keys, const Batch *batch, int64_t n, int64_t *done, int64_t counted, double theta)
    int map_take(Keys *keys, Entries *entries, const Batch *batch, const Cell *values, int64_t n, int64_t *done)
    int keys_find(const Keys *keys, const Batch *batch, int64_t n, int64_t *indexes)
    void keys_gather(const Keys *keys, const int64_t *indexes, int64_t n, uint8_t *bytes, const int64_t *offsets)
    void keys_rehash(const Keys *keys, const uint64_t *old, int64_t count)

DIVERGENCES = ("manhattan", "euclidean", "maximum", "cardinality")

LEAST_ROOM = 2 * WAVE
MOST_KEYS = 2**31


cdef inline void *address(array):
    """The address of an array's data."""
    cdef size_t at = array.ctypes.data
    return <void *>at


cdef grown(array, size_t room, size_t kept):
    """A copy with more room; the entries behind the `kept` first are not set."""
    larger = np.empty(room, array.dtype)
    larger[:kept] = array[:kept]
    return larger


cdef class Cells:
    """Values and their copies of the last backup."""

    cdef Entries at
    cdef int kind
    cdef bint integer
    cdef object values_, saved_, changed_, list_

    def __init__(self, size_t count, divergence, dtype=np.float64, size_t room=0):
        """`count` zeros, nothing changed; `room` for more."""
        room = max(count, room)
        self.kind = DIVERGENCES.index(divergence)
        self.integer = dtype == np.int64
        self.at.count = self.at.counted = count
        self.at.line, self.at.part = NO_LINE, NO_PROMISE
        self.hold(np.zeros(room, dtype), np.zeros(room, dtype), np.zeros(room, np.uint8), np.empty(room, np.int64))

    cdef hold(self, values, saved, changed, listed):
        self.values_, self.saved_, self.changed_, self.list_ = values, saved, changed, listed
        self.at.values, self.at.saved = <Cell *>address(values), <Cell *>address(saved)
        self.at.changed, self.at.list = <uint8_t *>address(changed), <int64_t *>address(listed)

    cdef grow(self, size_t room):
        cdef size_t count = self.at.count
        self.hold(grown(self.values_, room, count), grown(self.saved_, room, count), grown(self.changed_, room, count),
                  grown(self.list_, room, self.at.listed))

    def __len__(self):
        return self.at.count

    @property
    def values(self):
        """The values themselves, not a copy."""
        return self.values_[:self.at.count]

    @property
    def saved(self):
        """Their copies of the last backup, not a copy of these."""
        return self.saved_[:self.at.count]

    @property
    def changes(self):
        """The entries that changed since the last backup by more than the line, in the order of crossing it."""
        return self.list_[:self.at.listed].copy()

    @property
    def changed(self):
        """Their number."""
        return self.at.listed

    @property
    def divergence(self):
        return entries_divergence(&self.at, self.kind)

    def update(self, const int64_t[::1] indexes, const double[::1] amounts, double theta, bint assign):
        """Number of items applied: up to the one that exceeds theta. Without indexes all are of entry 0.

        ValueError at an index that is out of range, with the items before it applied.
        """
        cdef int64_t n = amounts.shape[0], done
        cdef const int64_t *where = NULL
        if indexes is not None:
            if indexes.shape[0] != n:
                raise ValueError(f"{indexes.shape[0]} indexes for {n} values")
            where = &indexes[0] if n else NULL
        if not n:
            return 0
        with nogil:
            done = entries_update(&self.at, where, <const Cell *>&amounts[0], n, theta, self.kind, assign)
        if done < n and (done == 0 or not self.divergence > theta):
            raise ValueError(f"item {done}: index {where[done]} of {self.at.count} entries")
        return done

    def replace(self, const double[::1] values):
        """Take all values over from an array of as many."""
        if values.shape[0] != self.at.count:
            raise ValueError(f"{values.shape[0]} values for {self.at.count} entries")
        if values.shape[0]:
            with nogil:
                entries_replace(&self.at, <const Cell *>&values[0], self.kind)

    def fill(self, parts, size_t room):
        """Hold the values of these arrays alone, all of them saved, with room for more."""
        cdef size_t count = sum(map(len, parts))
        room = max(count, room)
        values, saved = np.empty(room, self.values_.dtype), np.empty(room, self.values_.dtype)
        np.concatenate(parts, out=values[:count])
        saved[:count] = values[:count]
        self.hold(values, saved, np.zeros(room, np.uint8), np.empty(room, np.int64))
        self.at.count, self.at.listed = count, 0
        self.settle()

    def take(self, const int64_t[::1] indexes, const double[::1] values):
        """Set entries, where none has changed since the last backup, to what a later one holds: none has changed then.

        Indexes must be in range.
        """
        assert indexes.shape[0] == values.shape[0] and self.at.listed == 0
        if indexes.shape[0]:
            with nogil:
                entries_take(&self.at, &indexes[0], <const Cell *>&values[0], indexes.shape[0])

    def draw_line(self, double most, double promised):
        """Of divergence maximum: do not count as changed what differs by at most `most` from the last backup, unless it
        differs by more than the part `promised` of its value there; then the divergence is infinite, too.

        0 is no line: all that is touched counts. An infinite part is no promise. All entries are looked at when the
        line or the part is another than before.
        """
        cdef double line = most if most > 0.0 and self.kind == MAXIMUM else NO_LINE
        cdef double part = promised if isfinite(promised) and self.kind == MAXIMUM else NO_PROMISE
        if line != self.at.line or part != self.at.part:
            with nogil:
                entries_draw(&self.at, line, part, self.integer)

    def settle_changes(self):
        """Note that the changes were saved; the divergence left is that of the others, no greater than the line."""
        with nogil:
            entries_settle_listed(&self.at)

    def settle(self):
        """All was saved: from now on the divergence counts from here."""
        with nogil:
            entries_settle(&self.at)

    def clear(self, size_t count):
        """`count` zeros again, as many as there is room for at most; the divergence counts from them."""
        assert count <= <size_t>len(self.values_)
        for array in self.values_, self.saved_, self.changed_:
            array[:max(count, <size_t>self.at.count)] = 0
        self.at.count, self.at.listed = count, 0
        self.settle()


cdef class KeyTable:
    """Distinct keys, counted in the order in which they came: int64, or byte strings in one arena."""

    cdef Keys at
    cdef object slots, integers, offsets, bytes_

    def __init__(self, bint packed, uint64_t seed, size_t room=0):
        """`packed`: the keys are byte strings. `seed` goes into the hashes, so that nobody can foresee collisions.

        There is room for so many keys from the beginning: a table that grows files all its keys anew each time.
        """
        self.at.packed, self.at.seed = packed, seed
        self.offsets, self.integers, self.bytes_ = np.zeros(1, np.int64), np.empty(0, np.int64), np.zeros(BEGINNING, np.uint8)
        self.hold_bytes()
        self.grow(room + WAVE)

    cdef hold_bytes(self):
        self.at.bytes, self.at.bytes_room = <uint8_t *>address(self.bytes_), len(self.bytes_) - BEGINNING

    cdef grow(self, size_t wanted=0):
        """Twice the room, or as much as is wanted."""
        cdef size_t room = max(LEAST_ROOM, 2 * self.at.room, 1 << (wanted - 1).bit_length() if wanted else 0)
        if room > MOST_KEYS:
            raise MemoryError(f"more than {MOST_KEYS} keys")
        if self.at.packed:
            self.offsets = grown(self.offsets, room + 1, self.at.count + 1)
        else:
            self.integers = grown(self.integers, room, self.at.count)
        old, self.slots = self.slots, np.zeros(2 * room, np.uint64)
        self.at.slots = <uint64_t *>address(self.slots)
        self.at.integers, self.at.offsets = <int64_t *>address(self.integers), <int64_t *>address(self.offsets)
        self.at.room, self.at.bits = room, (2 * room - 1).bit_length()
        if old is not None:
            keys_rehash(&self.at, <uint64_t *>address(old), len(old))

    cdef make_room(self):
        """Room for a wave of new keys; at least twice as much of what there is too little of."""
        if self.at.count + WAVE > self.at.room:
            self.grow()
        if self.at.packed and self.at.bytes_wanted > self.at.bytes_room:
            room = max(2 * self.at.bytes_room, self.at.bytes_wanted)
            self.bytes_ = grown(self.bytes_, room + BEGINNING, len(self.bytes_))
            self.hold_bytes()

    cdef int64_t batch(self, keys, Batch *batch) except -1:
        """Point at the keys handed in, an array or the pair (bytes, offsets); returns their number."""
        cdef int64_t n
        if not self.at.packed:
            batch.integers, n = <int64_t *>address(keys), len(keys)
            return n
        data, offsets = keys
        n = len(offsets) - 1
        if n < 0:
            raise ValueError("n packed keys have n + 1 offsets")
        batch.bytes, batch.offsets, batch.size = <uint8_t *>address(data), <int64_t *>address(offsets), len(data)
        return n

    def __len__(self):
        return self.at.count

    @property
    def room(self):
        """For so many keys."""
        return self.at.room

    @property
    def contents(self):
        """All keys, as they are handed in."""
        cdef int64_t count = self.at.count
        if self.at.packed:
            return self.bytes_[:self.at.offsets[count]].copy(), self.offsets[:count + 1].copy()
        return self.integers[:count].copy()

    @property
    def tags(self):
        """The bits of its hash that the table keeps of each key."""
        taken = self.slots[self.slots > 0]
        tags = np.empty(len(taken), np.int64)
        tags[(taken & 0xFFFFFFFF).astype(np.int64) - 1] = taken >> np.uint64(32)
        return tags

    def take(self, indexes):
        """The keys of these indexes, which must be in range."""
        if not self.at.packed:
            return self.integers[indexes]
        starts = self.offsets[indexes]
        offsets = np.zeros(len(indexes) + 1, np.int64)
        np.cumsum(self.offsets[indexes + 1] - starts, out=offsets[1:])
        data = np.empty(offsets[len(indexes)], np.uint8)
        keys_gather(&self.at, <int64_t *>address(indexes), len(indexes), <uint8_t *>address(data),
                    <int64_t *>address(offsets))
        return data, offsets

    def part(self, int64_t start, int64_t stop):
        """Copies of the keys from one index up to another, which must be in range."""
        if not self.at.packed:
            return self.integers[start:stop].copy()
        offsets = self.offsets[start:stop + 1]
        return self.bytes_[offsets[0]:offsets[stop - start]].copy(), offsets - offsets[0]

    def clear(self):
        self.at.count = 0
        self.slots[:] = 0

    def find(self, keys):
        """The index of each key, -1 where it is not there. ValueError when offsets do not ascend within the bytes."""
        cdef Batch batch
        cdef int64_t n = self.batch(keys, &batch)
        cdef int why
        indexes = np.empty(n, np.int64)
        cdef int64_t *out = <int64_t *>address(indexes)
        with nogil:
            why = keys_find(&self.at, &batch, n, out)
        if why == MALFORMED:
            raise ValueError(f"packed keys: offsets must ascend within the {batch.size} bytes")
        return indexes

    def add(self, keys, int64_t counted, double theta):
        """Number of items taken in: up to the one that makes more than theta keys beyond `counted`.

        ValueError at a malformed key, with those before it taken in.
        """
        cdef Batch batch
        cdef int64_t n = self.batch(keys, &batch), done = 0
        cdef int why = NO_ROOM
        while why == NO_ROOM:
            with nogil:
                why = keys_add(&self.at, &batch, n, &done, counted, theta)
            if why == NO_ROOM:
                self.make_room()
        return self.applied(why, done, &batch)

    def take_over(self, Cells cells, keys, values):
        """Set the cells of these keys, where none has changed since the last backup, to what a later one holds: none has
        changed then. ValueError at a malformed key, with those before it set."""
        cdef Batch batch
        cdef int64_t n = self.batch(keys, &batch), done = 0
        cdef int why = NO_ROOM
        assert len(values) == n and values.dtype == cells.values_.dtype and cells.at.listed == 0
        cdef Cell *later = <Cell *>address(values)
        while why == NO_ROOM:
            if len(cells.values_) < self.at.room:
                cells.grow(self.at.room)
            with nogil:
                why = map_take(&self.at, &cells.at, &batch, later, n, &done)
            if why == NO_ROOM:
                self.make_room()
        self.applied(why, done, &batch)

    def update(self, Cells cells, keys, amounts, double theta, bint assign):
        """Number of items applied to the cells of their keys: up to the one that exceeds theta.

        ValueError at a malformed key, with those before it applied.
        """
        cdef Batch batch
        cdef int64_t n = self.batch(keys, &batch), done = 0
        cdef int why = NO_ROOM
        if len(amounts) != n:
            raise ValueError(f"{n} keys for {len(amounts)} values")
        assert amounts.dtype == cells.values_.dtype and self.at.count == cells.at.count
        cdef Cell *values = <Cell *>address(amounts)
        while why == NO_ROOM:
            if len(cells.values_) < self.at.room:
                cells.grow(self.at.room)
            with nogil:
                why = map_update(&self.at, &cells.at, &batch, values, n, &done, theta, assign, cells.integer, cells.kind)
            if why == NO_ROOM:
                self.make_room()
        return self.applied(why, done, &batch)

    cdef applied(self, int why, int64_t done, Batch *batch):
        if why == MALFORMED:
            raise ValueError(f"packed key {done}: offsets must ascend within the {batch.size} bytes")
        return done
