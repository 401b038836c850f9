"""Keys by group: a stable hash of each, so that a key goes to the same task today and in a savepoint's next job.

The groups, GROUPS of them, are dealt out to the tasks of a stage in contiguous ranges, so that a stage of another number
of tasks takes over whole ranges (Flink's key groups; the routing state of Castro Fernandez et al., 2013). The hash
depends on the key alone and never changes: savepoints hold what it dealt out.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np

GROUPS = 128
"""The groups that keys are parted into, and the most tasks that a stage which gets items by key can have."""

cdef uint64_t GROUP_BITS = 7


cdef inline uint64_t mixed(uint64_t word) noexcept nogil:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    word = (word ^ (word >> 30)) * <uint64_t>0xbf58476d1ce4e5b9ULL
    word = (word ^ (word >> 27)) * <uint64_t>0x94d049bb133111ebULL
    return word ^ (word >> 31)


cdef inline uint64_t hashed(const uint8_t *at, int64_t length) noexcept nogil:
    """The hash of a byte string: its 8-byte words, little-endian, the last filled with zeros, mixed in one by one."""
    cdef uint64_t state = <uint64_t>length, word
    while length >= 8:
        memcpy(&word, at, 8)
        state = mixed(state ^ word) + <uint64_t>0x9e3779b97f4a7c15ULL
        at += 8
        length -= 8
    word = 0
    memcpy(&word, at, length)
    return mixed(state ^ word)


def groups_of(keys):
    """The group of each key (uint8): of int64 keys, or of byte strings as a pair of bytes (uint8) and n + 1 offsets.

    ValueError where offsets go back, or beyond the bytes.
    """
    if isinstance(keys, tuple):
        return _of_strings(keys[0], keys[1])
    return _of_integers(keys)


cdef _of_integers(keys):
    cdef const int64_t[::1] given = np.ascontiguousarray(keys).view(np.int64)
    cdef Py_ssize_t i, n = given.shape[0]
    groups = np.empty(n, np.uint8)
    cdef uint8_t[::1] to = groups
    with nogil:
        for i in range(n):
            to[i] = <uint8_t>(mixed(<uint64_t>given[i]) >> (64 - GROUP_BITS))
    return groups


cdef _of_strings(data, offsets):
    cdef const uint8_t[::1] bytes_ = np.ascontiguousarray(data)
    cdef const int64_t[::1] ends = np.ascontiguousarray(offsets)
    cdef Py_ssize_t i, n = max(ends.shape[0] - 1, 0)
    cdef const uint8_t *at = &bytes_[0] if bytes_.shape[0] else NULL
    cdef bint sound = True
    groups = np.empty(n, np.uint8)
    cdef uint8_t[::1] to = groups
    with nogil:
        for i in range(n):
            if ends[i] < 0 or ends[i] > ends[i + 1] or ends[i + 1] > bytes_.shape[0]:
                sound = False
                break
            to[i] = <uint8_t>(hashed(at + ends[i], ends[i + 1] - ends[i]) >> (64 - GROUP_BITS))
    if not sound:
        raise ValueError(f"the offsets of keys go back at {i}, or beyond their {bytes_.shape[0]} bytes")
    return groups


def places_of_integers(keys, int64_t first, int64_t stop):
    """The places of the int64 keys whose group is from `first` up to `stop`."""
    cdef const int64_t[::1] given = np.ascontiguousarray(keys).view(np.int64)
    cdef Py_ssize_t i, n = given.shape[0], count = 0
    places = np.empty(n + 1, np.int64)
    cdef int64_t[::1] to = places
    cdef int64_t group
    with nogil:
        for i in range(n):
            group = <int64_t>(mixed(<uint64_t>given[i]) >> (64 - GROUP_BITS))
            to[count] = i
            count += first <= group < stop
    return places[:count].copy()


def dealt(const uint8_t[::1] groups, int64_t tasks):
    """Places of the keys in the order of their tasks, those of a task in their own order; and each task's bounds in it.

    (int64 (n,), int64 (tasks + 1,)). ValueError for more tasks than groups.
    """
    if not 0 < tasks <= GROUPS:
        raise ValueError(f"{tasks} tasks: keys are dealt out to 1 to {GROUPS}")
    cdef Py_ssize_t i, n = groups.shape[0]
    order, bounds = np.empty(n, np.int64), np.zeros(tasks + 1, np.int64)
    cdef int64_t[::1] to = order, ends = bounds
    cdef int64_t next_[128]
    cdef int64_t task
    with nogil:
        for i in range(n):
            ends[1 + (groups[i] * tasks >> GROUP_BITS)] += 1
        for i in range(tasks):
            ends[i + 1] += ends[i]
            next_[i] = ends[i]
        for i in range(n):
            task = groups[i] * tasks >> GROUP_BITS
            to[next_[task]] = i
            next_[task] += 1
    return order, bounds


def taken(data, offsets, const int64_t[::1] chosen):
    """The byte strings of these places, one behind the other: (bytes, offsets). The places are trusted."""
    cdef const uint8_t[::1] bytes_ = np.ascontiguousarray(data)
    cdef const int64_t[::1] ends = np.ascontiguousarray(offsets)
    cdef Py_ssize_t i, n = chosen.shape[0]
    to_offsets = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] bounds = to_offsets
    for i in range(n):
        bounds[i + 1] = bounds[i] + ends[chosen[i] + 1] - ends[chosen[i]]
    out = np.empty(bounds[n], np.uint8)
    cdef uint8_t[::1] to = out
    if bounds[n]:
        with nogil:
            for i in range(n):
                memcpy(&to[0] + bounds[i], &bytes_[0] + ends[chosen[i]], bounds[i + 1] - bounds[i])
    return out, to_offsets
