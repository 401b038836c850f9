"""Parses lines that lie one behind the other in memory, delimited cells or index:value pairs, into float64 numbers.

Line i is text[offsets[i]:offsets[i + 1]], with or without its end. `reasons` has one place a line and gets a `formats.Reason`
each, `places` where a fault is: the column of cells, from 0, or the character of pairs, from 0.
"""

from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcpy

from riprap.prep_spark.rows cimport number

# The values of formats.Reason that these parsers can find.
cdef enum:
    NONE = 0
    BLANK = 1
    COLUMNS = 2
    NUMBER = 3
    CELL = 7
    QUOTE = 8
    PAIR = 9
    INDEX = 10
    DUPLICATE = 11

cdef int INDEX_DIGITS_MAX = 9


cdef class Line:
    """A copy of one line with a NUL behind it, which the reading of numbers needs."""

    cdef bytearray room
    cdef char *start
    cdef char *stop

    def __init__(self):
        self.room = bytearray(1024)

    cdef void take(self, const int32_t[::1] offsets, const uint8_t[::1] text, Py_ssize_t line):
        cdef Py_ssize_t size = offsets[line + 1] - offsets[line]
        if size and text[offsets[line] + size - 1] == c"\n":
            size -= 1
        if size and text[offsets[line] + size - 1] == c"\r":
            size -= 1
        if size >= len(self.room):
            self.room = bytearray(2 * size)
        self.start = self.room
        self.stop = self.start + size
        if size:
            memcpy(self.start, &text[offsets[line]], size)
        self.stop[0] = 0

    cdef bint blank(self):
        cdef const char *p = self.start
        while p[0] == c" " or p[0] == c"\t":
            p += 1
        return p == self.stop


cdef const char *quoted(const char *p, const char *stop, bint *doubled) noexcept:
    """The quote that closes the cell whose text starts at `p`; NULL when there is none."""
    doubled[0] = False
    while p < stop:
        if p[0] == c'"':
            if p + 1 == stop or p[1] != c'"':
                return p
            doubled[0] = True
            p += 1
        p += 1
    return NULL


cdef int cell_value(const char *begin, const char *end, bint doubled, table, frozenset missing, double *value):
    """The number that the text of one cell stands for; a reason when it stands for none."""
    cdef const char *stop
    cdef bytes cell = begin[:end - begin]
    if doubled:
        cell = cell.replace(b'""', b'"')
    if cell in missing:
        value[0] = NAN
        return NONE
    if table is None:
        while begin[0] == c" ":
            begin += 1
        stop = number(begin, value)
        while stop != NULL and stop < end and stop[0] == c" ":
            stop += 1
        return NONE if stop == end else NUMBER
    try:
        value[0] = table[cell]
    except ValueError:
        return CELL
    return NONE


cdef bint is_number(bytes cell):
    """True for text that a cell of a number may be, but for NaN."""
    cdef double value = NAN
    cdef const char *start = cell
    return number(start, &value) == start + len(cell) and value == value


cdef int cells_of(
    Line line, char mark, const int32_t[::1] slots, list tables, frozenset missing, bint numbers_only, double *row,
    int32_t *place
):
    """The cells of one line into `row`; the reason why they give none, with its column in `place`.

    `numbers_only`: no number stands for a missing value.
    """
    cdef const char *p = line.start
    cdef const char *stop = line.stop
    cdef const char *begin
    cdef const char *end
    cdef Py_ssize_t columns = slots.shape[0], column = 0
    cdef int fault = NONE, found
    cdef bint spaces = mark != c" ", doubled
    cdef double value = 0
    while True:
        while spaces and p[0] == c" ":
            p += 1
        doubled = False
        end = NULL
        begin = p
        if p[0] == c'"':
            begin = p + 1
            end = quoted(begin, stop, &doubled)
            p = end + 1
            while end != NULL and spaces and p[0] == c" ":
                p += 1
            if end == NULL or (p != stop and p[0] != mark):
                place[0] = <int32_t>column
                return QUOTE
        elif (numbers_only and p[0] != mark and p != stop and fault == NONE and column < columns
              and slots[column] >= 0 and tables[column] is None):
            p = number(begin, &value)  # most cells are numbers, and need no copy
            while p != NULL and spaces and p[0] == c" ":
                p += 1
            if p != NULL and (p == stop or p[0] == mark) and value == value:
                row[slots[column]] = value
                column += 1
                if p == stop:
                    break
                p += 1
                continue
        if end == NULL:
            p = <const char *>memchr(begin, mark, stop - begin)
            p = stop if p == NULL else p
            end = p
            while spaces and end > begin and (end - 1)[0] == c" ":
                end -= 1
        if fault == NONE and column < columns and slots[column] >= 0:
            found = cell_value(begin, end, doubled, tables[column], missing, &value)
            row[slots[column]] = value
            if found != NONE:
                fault = found
                place[0] = <int32_t>column
        column += 1
        if p == stop:
            break
        p += 1
    if column != columns:
        place[0] = <int32_t>column
        return COLUMNS
    return fault


def parse_cells(
    const int32_t[::1] offsets, const uint8_t[::1] text, str delimiter, const int32_t[::1] slots, list tables,
    frozenset missing, double[:, ::1] rows, uint8_t[::1] reasons, int32_t[::1] places
):
    """Parse lines of cells; returns how many rows were written, packed, to the front of `rows`.

    The cell of file column c goes to rows[:, slots[c]], or nowhere (-1); it is a number, or what tables[c] makes of its
    bytes. Cells in `missing` are NaN. A line with the wrong number of columns says so (and `places` how many it has),
    whatever else is wrong with it.
    """
    cdef Line line = Line()
    cdef char mark = <char>ord(delimiter)
    cdef Py_ssize_t number_of_lines = reasons.shape[0], i, kept = 0
    cdef bint numbers_only = not any([is_number(cell) for cell in missing])
    for i in range(number_of_lines):
        line.take(offsets, text, i)
        places[i] = 0
        if line.start == line.stop or (mark != c"\t" and line.blank()):
            reasons[i] = BLANK
            continue
        reasons[i] = cells_of(line, mark, slots, tables, missing, numbers_only, &rows[kept, 0], &places[i])
        kept += reasons[i] == NONE
    return kept


cdef const char *index_of(const char *p, int64_t *index) noexcept:
    """Read a whole number in front of a colon; returns what is behind the colon, NULL when there is none."""
    cdef int digits = 0
    index[0] = 0
    while c"0" <= p[0] <= c"9" and digits < INDEX_DIGITS_MAX:
        index[0] = index[0] * 10 + (p[0] - c"0")
        digits += 1
        p += 1
    return p + 1 if digits and p[0] == c":" else NULL


cdef bint is_among(int64_t index, const int64_t *others, Py_ssize_t count) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if others[i] == index:
            return True
    return False


cdef inline const char *past_space(const char *p) noexcept:
    while p[0] == c" " or p[0] == c"\t":
        p += 1
    return p


cdef inline bint at_end(const char *p, const char *stop) noexcept:
    return p == stop or p[0] == c" " or p[0] == c"\t"


cdef int pairs_of(
    Line line, int64_t first_index, double *label, int64_t[::1] indexes, double[::1] values, Py_ssize_t *count,
    int32_t *place
):
    """The label and the pairs of one line, appended at `count`; the reason why there are none."""
    cdef const char *start = past_space(line.start)
    cdef const char *p = number(start, label)
    cdef const char *stop = line.stop
    cdef Py_ssize_t begun = count[0]
    cdef int64_t highest = -1
    place[0] = <int32_t>(start - line.start)
    if p == NULL or not at_end(p, stop):
        return NUMBER
    while True:
        p = past_space(p)
        if p == stop:
            return NONE
        place[0] = <int32_t>(p - line.start)
        if p[0] == c"q" and p[1] == c"i" and p[2] == c"d" and p[3] == c":":  # the query of a ranking
            while not at_end(p, stop):
                p += 1
            continue
        p = index_of(p, &indexes[count[0]])
        if p == NULL or at_end(p, stop):
            return PAIR
        p = number(p, &values[count[0]])
        if p == NULL or not at_end(p, stop):
            return PAIR
        if indexes[count[0]] < first_index:
            return INDEX
        if indexes[count[0]] <= highest:
            if is_among(indexes[count[0]], &indexes[begun], count[0] - begun):
                return DUPLICATE
        else:
            highest = indexes[count[0]]
        count[0] += 1


def parse_pairs(
    const int32_t[::1] offsets, const uint8_t[::1] text, int64_t first_index, double[::1] labels, int64_t[::1] bounds,
    int64_t[::1] indexes, double[::1] values, uint8_t[::1] reasons, int32_t[::1] places
):
    """Parse lines of libsvm: a label, then index:value pairs in any order; `#` begins a comment, qid is skipped.

    Returns how many lines gave a row. Row i has labels[i], and indexes and values from bounds[i] to bounds[i + 1];
    those two must have room for as many pairs as the text has colons, and one more.
    """
    cdef Line line = Line()
    cdef Py_ssize_t number_of_lines = reasons.shape[0], i, kept = 0, count = 0
    cdef char *comment
    bounds[0] = 0
    for i in range(number_of_lines):
        line.take(offsets, text, i)
        comment = <char *>memchr(line.start, c"#", line.stop - line.start)
        if comment != NULL:
            line.stop = comment
            comment[0] = 0
        places[i] = 0
        if line.blank():
            reasons[i] = BLANK
            continue
        count = bounds[kept]
        reasons[i] = pairs_of(line, first_index, &labels[kept], indexes, values, &count, &places[i])
        if reasons[i] == NONE:
            kept += 1
            bounds[kept] = count
    return kept
