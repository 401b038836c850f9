"""Kernels that take the columns of lines apart, and read numbers; whatever is not plainly so is left to the caller.

A block of lines is a pair of bytes (uint8, without line ends) and n + 1 offsets (int64) that never go back.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memchr, memcpy

import numpy as np

cdef enum:
    WHOLE_DIGITS_MAX = 18  # that many fit into 64 bits, whatever they are
    TEXT_BYTES_MAX = 64
    PLUS = 43
    MINUS = 45
    POINT = 46
    ZERO = 48
    NINE = 57
    LETTER_E = 101  # behind it stands an exponent
    EXACT_MAX = 22  # powers of ten up to this one are exact as doubles, and so is one rounding of a whole number by them

cdef uint64_t WHOLE_MAX = 1 << 53
cdef double[EXACT_MAX + 1] POWERS
for _power in range(EXACT_MAX + 1):
    POWERS[_power] = 10.0**_power


def column(data, offsets, bytes separator, Py_ssize_t number):
    lines = _lines(data, offsets)
    if lines is None or len(separator) != 1:
        return None
    cdef const uint8_t[::1] source = lines[0]
    cdef const int64_t[::1] at = lines[1]
    cdef Py_ssize_t count = at.shape[0] - 1, i
    taken, ends = np.empty(len(lines[0]), np.uint8), np.zeros(count + 1, np.int64)
    cdef uint8_t[::1] to = taken
    cdef int64_t[::1] to_at = ends
    cdef uint8_t parts = separator[0]
    cdef const uint8_t* first
    cdef const uint8_t* last
    cdef int64_t used = 0
    if not source.shape[0]:
        return None
    with nogil:
        for i in range(count):
            first = _from(&source[0] + at[i], &source[0] + at[i + 1], parts, number)
            if first == NULL:
                break
            last = _end(first, &source[0] + at[i + 1], parts)
            memcpy(&to[0] + used, first, last - first)
            used += last - first
            to_at[i + 1] = used
        else:
            i = count
    return (taken[:used], ends) if i == count else None


cdef const uint8_t* _from(const uint8_t* first, const uint8_t* stop, uint8_t parts, Py_ssize_t number) noexcept nogil:
    """The beginning of a column; NULL where the line has none."""
    cdef Py_ssize_t i
    for i in range(number):
        first = _end(first, stop, parts)
        if first == stop:
            return NULL
        first += 1
    return first


cdef const uint8_t* _end(const uint8_t* first, const uint8_t* stop, uint8_t parts) noexcept nogil:
    cdef const void* found = memchr(first, parts, stop - first)
    return stop if found == NULL else <const uint8_t*>found


def words(data, offsets):
    lines = _lines(data, offsets)
    if lines is None:
        return None
    cdef const uint8_t[::1] source = lines[0]
    cdef const int64_t[::1] at = lines[1]
    cdef Py_ssize_t count = at.shape[0] - 1, size = source.shape[0], i, j
    taken, ends = np.empty(size, np.uint8), np.zeros(size // 2 + count + 2, np.int64)
    counts = np.zeros(count, np.int64)
    cdef uint8_t[::1] to = taken
    cdef int64_t[::1] to_at = ends, of_line = counts
    cdef int64_t used = 0, found = 0
    cdef bint within
    with nogil:
        for i in range(count):
            within = False
            for j in range(at[i], at[i + 1]):
                if _is_space(source[j]):
                    within = False
                    continue
                if not within:
                    within, found = True, found + 1
                    of_line[i] += 1
                to[used] = source[j]
                used += 1
                to_at[found] = used
    return taken[:used], ends[: found + 1], counts


cdef bint _is_space(uint8_t byte) noexcept nogil:
    """As bytes.split has it."""
    return byte == 32 or 9 <= byte <= 13


def whole_numbers(data, offsets):
    lines = _lines(data, offsets)
    if lines is None:
        return None
    cdef const uint8_t[::1] source = lines[0]
    cdef const int64_t[::1] at = lines[1]
    cdef Py_ssize_t count = at.shape[0] - 1, i
    if not source.shape[0]:
        return None
    found = np.empty(count, np.int64)
    cdef int64_t[::1] to = found
    with nogil:
        for i in range(count):
            if not _whole_number(&source[0] + at[i], &source[0] + at[i + 1], &to[i]):
                break
        else:
            i = count
    return found if i == count else None


cdef bint _whole_number(const uint8_t* first, const uint8_t* stop, int64_t* number) noexcept nogil:
    cdef bint negative = first < stop and first[0] == MINUS
    first += negative
    if not 0 < stop - first <= WHOLE_DIGITS_MAX:
        return False
    number[0] = 0
    while first < stop:
        if not ZERO <= first[0] <= NINE:
            return False
        number[0] = 10 * number[0] + first[0] - ZERO
        first += 1
    if negative:
        number[0] = -number[0]
    return True


def numbers(data, offsets):
    lines = _lines(data, offsets)
    if lines is None or not len(lines[0]):
        return None
    cdef const uint8_t[::1] source = lines[0]
    cdef const int64_t[::1] at = lines[1]
    cdef Py_ssize_t count = at.shape[0] - 1, i
    found = np.empty(count)
    cdef double[::1] to = found
    with nogil:
        for i in range(count):
            if not _number(&source[0] + at[i], &source[0] + at[i + 1], &to[i]):
                break
        else:
            i = count
    return found if i == count else None


cdef bint _number(const uint8_t* first, const uint8_t* stop, double* number) noexcept nogil:
    """A decimal number, rounded correctly; False for anything else (W. D. Clinger, How to read floating point numbers
    accurately, 1990, for the short ones)."""
    cdef const uint8_t* at = first
    cdef uint64_t digits = 0
    cdef int seen = 0, behind = 0, power = 0
    cdef bint negative = False, lowers = False, pointed = False
    if at < stop and (at[0] == MINUS or at[0] == PLUS):
        negative = at[0] == MINUS
        at += 1
    while at < stop and (ZERO <= at[0] <= NINE or (at[0] == POINT and not pointed)):
        if at[0] == POINT:
            pointed = True
        else:
            seen += 1
            if seen <= WHOLE_DIGITS_MAX:
                digits = 10 * digits + at[0] - ZERO
            behind += pointed
        at += 1
    if not seen:
        return False
    if at < stop and (at[0] | 32 == LETTER_E):
        at += 1
        if at < stop and (at[0] == MINUS or at[0] == PLUS):
            lowers = at[0] == MINUS
            at += 1
        if not 0 < stop - at <= 4:
            return False
        while at < stop and ZERO <= at[0] <= NINE:
            power = 10 * power + at[0] - ZERO
            at += 1
    if at != stop:
        return False
    power = (-power if lowers else power) - behind
    if seen > WHOLE_DIGITS_MAX or digits > WHOLE_MAX or not -EXACT_MAX <= power <= EXACT_MAX:
        return _by_the_library(first, stop, number)
    number[0] = digits * POWERS[power] if power >= 0 else digits / POWERS[-power]
    if negative:
        number[0] = -number[0]
    return True


cdef bint _by_the_library(const uint8_t* first, const uint8_t* stop, double* number) noexcept nogil:
    cdef char[TEXT_BYTES_MAX] text
    cdef char* end = NULL
    if stop - first >= TEXT_BYTES_MAX:
        return False
    memcpy(text, first, stop - first)
    text[stop - first] = 0
    number[0] = strtod(text, &end)
    return end == text + (stop - first)


def _lines(data, offsets):
    """Both arrays, where they are lines; else None."""
    if data.dtype != np.uint8 or offsets.dtype != np.int64 or data.ndim != 1 or offsets.ndim != 1:
        return None
    if not len(offsets) or offsets[0] < 0 or offsets[len(offsets) - 1] > len(data) or (np.diff(offsets) < 0).any():
        return None
    return np.ascontiguousarray(data), np.ascontiguousarray(offsets)
