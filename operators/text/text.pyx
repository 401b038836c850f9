"""Kernels over blocks of lines: counts of words, lines with a substring, copies and checksums of lines.

A block of lines is a pair of bytes (uint8, without line ends) and n + 1 offsets (int64) that never go back.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

import numpy as np

cdef extern from "text.h" nogil:
    bint lines_are_sound(text_lines lines)
    uint64_t hash_bytes(const uint8_t *bytes, size_t length, uint64_t seed)
    size_t measure_lines(text_lines lines, const int64_t *numbers, size_t count, int64_t *ends)
    void copy_lines(text_lines lines, const int64_t *numbers, size_t count, const int64_t *ends, uint8_t *to)
    size_t find_lines(text_lines lines, size_t first, const uint8_t *needle, size_t length, int64_t *found)

cdef extern from "words.h" nogil:
    ctypedef struct word_table:
        void *entries
        void *hashes
        void *slots
        void *arena
        void *lowered
        size_t count
        uint64_t seed
        bint ascii
    void fill_word_characters()
    int count_words(word_table *table, text_lines lines, size_t first)
    void words_clear(word_table *table)
    size_t words_bytes(const word_table *table)
    void words_take(const word_table *table, uint8_t *bytes, int64_t *offsets, int64_t *counts)

cdef uint8_t NOTHING[1]
fill_word_characters()


cdef class HeldLines:
    """A block's lines, held for the length of a call. ValueError when they are none."""

    def __cinit__(self, data, offsets):
        self.bytes, self.offsets = data, offsets
        if not self.offsets.shape[0]:
            raise ValueError("lines without offsets")
        self.own.bytes = &self.bytes[0] if self.bytes.shape[0] else NOTHING
        self.own.offsets = &self.offsets[0]
        self.own.size, self.own.count = self.bytes.shape[0], self.offsets.shape[0] - 1
        with nogil:
            sound = lines_are_sound(self.own)
        if not sound:
            raise ValueError(f"offsets of lines go back, or beyond the {self.own.size} bytes")


cdef class WordTable:
    """Counts the words of one block at a time, for one thread.

    Words are the longest runs of letters, marks and numbers of Unicode within a line of UTF-8, `ascii`: of A-Z and a-z;
    in lower case, character by character.
    """

    cdef word_table own

    def __cinit__(self, uint64_t seed=0, bint ascii=False):
        self.own.seed = seed
        self.own.ascii = ascii

    def __dealloc__(self):
        free(self.own.entries)
        free(self.own.hashes)
        free(self.own.slots)
        free(self.own.arena)
        free(self.own.lowered)

    def split(self, data, offsets, size_t first):
        """The words of lines [first, n) as (bytes, offsets, counts): each once, in the order of its first occurrence."""
        cdef HeldLines lines = HeldLines(data, offsets)
        if lines.own.size >= 2**31:
            raise ValueError("blocks of 2 GB and more")
        words_clear(&self.own)
        with nogil:
            failed = count_words(&self.own, lines.own, first)
        if failed:
            raise MemoryError
        cdef size_t words = self.own.count, length = words_bytes(&self.own)
        found, bounds, counts = np.empty(length, np.uint8), np.empty(words + 1, np.int64), np.empty(words, np.int64)
        cdef uint8_t[::1] to = found
        cdef int64_t[::1] to_bounds = bounds, to_counts = counts
        with nogil:
            words_take(&self.own, &to[0] if length else NULL, &to_bounds[0], &to_counts[0] if words else NULL)
        return found, bounds, counts


def matching_lines(data, offsets, const uint8_t[::1] needle, size_t first=0):
    """Numbers of the lines [first, n) that contain the needle (not empty): int64, ascending."""
    cdef HeldLines lines = HeldLines(data, offsets)
    if not needle.shape[0] or first > lines.own.count:
        raise ValueError("an empty needle, or a first line behind the last")
    cdef size_t count
    found = np.empty(lines.own.count - first + 1, np.int64)
    cdef int64_t[::1] to = found
    with nogil:
        count = find_lines(lines.own, first, &needle[0], needle.shape[0], &to[0])
    return found[:count].copy()


def take_lines(data, offsets, const int64_t[::1] numbers):
    """The lines of these numbers as a block of their own."""
    cdef HeldLines lines = HeldLines(data, offsets)
    cdef size_t n = numbers.shape[0], missing
    to_offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] ends = to_offsets
    cdef const int64_t *chosen = &numbers[0] if n else NULL
    with nogil:
        missing = measure_lines(lines.own, chosen, n, &ends[0])
    if missing < n:
        raise ValueError(f"no line {numbers[missing]} among {lines.own.count}")
    out = np.empty(ends[n], np.uint8)
    cdef uint8_t[::1] to = out
    if ends[n]:
        with nogil:
            copy_lines(lines.own, chosen, n, &ends[0], &to[0])
    return out, to_offsets


def checksum(data, offsets, uint64_t seed=0):
    """The sum of the lines' 64-bit hashes, modulo 2^64: the same for the same lines in any order."""
    cdef HeldLines lines = HeldLines(data, offsets)
    cdef uint64_t total = 0
    cdef size_t i
    with nogil:
        for i in range(lines.own.count):
            total += hash_bytes(lines.own.bytes + lines.own.offsets[i],
                                lines.own.offsets[i + 1] - lines.own.offsets[i], seed)
    return total
