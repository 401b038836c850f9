"""Kernels that take the columns of lines apart, and read numbers; whatever is not plainly so is left to the caller.

A block of lines is a pair of bytes (uint8, without line ends) and n + 1 offsets (int64) that never go back.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memchr, memcpy

import numpy as np

from riprap.operators.text.text cimport HeldLines

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


ctypedef bint (*Reader)(const uint8_t* first, const uint8_t* stop, void* number) noexcept nogil


def column(data, offsets, bytes separator, Py_ssize_t number):
    cdef HeldLines lines = _lines(data, offsets)
    if lines is None or not lines.own.size or len(separator) != 1:
        return None
    cdef const uint8_t* source = lines.own.bytes
    cdef const int64_t* at = lines.own.offsets
    cdef Py_ssize_t count = lines.own.count, i
    taken, ends = np.empty(lines.own.size, np.uint8), np.zeros(count + 1, np.int64)
    cdef uint8_t[::1] to = taken
    cdef int64_t[::1] to_at = ends
    cdef uint8_t parts = separator[0]
    cdef const uint8_t* first
    cdef const uint8_t* last
    cdef int64_t used = 0
    with nogil:
        for i in range(count):
            first = _from(source + at[i], source + at[i + 1], parts, number)
            if first == NULL:
                break
            last = _end(first, source + at[i + 1], parts)
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
    cdef HeldLines lines = _lines(data, offsets)
    if lines is None:
        return None
    cdef const uint8_t* source = lines.own.bytes
    cdef const int64_t* at = lines.own.offsets
    cdef Py_ssize_t count = lines.own.count, size = lines.own.size, i, j
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
    return _read(data, offsets, np.int64, _whole_number)


def numbers(data, offsets):
    return _read(data, offsets, np.float64, _number)


cdef object _read(data, offsets, kind, Reader read):
    """A number of 8 bytes from each line; None where one has none."""
    cdef HeldLines lines = _lines(data, offsets)
    if lines is None or not lines.own.size:
        return None
    cdef const uint8_t* source = lines.own.bytes
    cdef const int64_t* at = lines.own.offsets
    cdef Py_ssize_t count = lines.own.count, i
    found = np.empty(count, kind)
    cdef int64_t[::1] to = found.view(np.int64)
    with nogil:
        for i in range(count):
            if not read(source + at[i], source + at[i + 1], &to[i]):
                break
        else:
            i = count
    return found if i == count else None


cdef bint _whole_number(const uint8_t* first, const uint8_t* stop, void* number) noexcept nogil:
    cdef int64_t value = 0
    cdef bint negative = first < stop and first[0] == MINUS
    first += negative
    if not 0 < stop - first <= WHOLE_DIGITS_MAX:
        return False
    while first < stop:
        if not ZERO <= first[0] <= NINE:
            return False
        value = 10 * value + first[0] - ZERO
        first += 1
    (<int64_t*>number)[0] = -value if negative else value
    return True


cdef bint _number(const uint8_t* first, const uint8_t* stop, void* number) noexcept nogil:
    """A decimal number, rounded correctly; False for anything else (W. D. Clinger, How to read floating point numbers
    accurately, 1990, for the short ones)."""
    cdef const uint8_t* at = first
    cdef double value
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
        return _by_the_library(first, stop, <double*>number)
    value = digits * POWERS[power] if power >= 0 else digits / POWERS[-power]
    (<double*>number)[0] = -value if negative else value
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


cdef HeldLines _lines(data, offsets):
    """None where they are no lines."""
    try:
        return HeldLines(data, offsets)
    except ValueError:
        return None
