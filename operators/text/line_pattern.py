"""The lines of a block that match a regular expression, found by searches over the whole block."""

from __future__ import annotations

import re
from bisect import bisect_right

import numpy as np

from riprap.operators.text.text import take_lines

_BY_LINE = re.compile(rb"\^|\\[AZWD]|[*+?}]\+|\(\?(?!:|P|\(|[aiLmx]+[:)])")
"""Constructs that may keep a line's own match from being one of the whole text: \\A, \\Z, look-around, possessive
repeats, and flags that are switched off. And slow ones: ^, and those that run on from line to line."""

_WITHIN_LINES = re.compile(rb"[$.\[\\]")
"""Constructs that see the end of a line, or may run on to the end of the text unless a line's end stops them."""

_NESTED = re.compile(rb"[(\[\\]")
ALTERNATIVES_MAX = 8


class LinePattern:
    """A pattern of Python's `re` over bytes. re.error when it is none.

    A match in a line is also one in the text in which the lines stand one after the other (Invariant), as a search that
    backtracks tries every way. So each search over the text leads to the next line that may match; whether it does is
    asked of the line alone where the match leaves the line or depends on its end. Alternatives are searched one after
    the other: `re` finds what begins with certain bytes much faster.
    """

    def __init__(self, pattern: bytes) -> None:
        self._of_line = re.compile(pattern)
        self._by_line = bool(_BY_LINE.search(pattern))
        self._with_ends = bool(_WITHIN_LINES.search(pattern) or self._of_line.search(b""))
        parts = [] if _NESTED.search(pattern) else pattern.split(b"|")
        self._parts = [re.compile(part, re.MULTILINE) for part in parts[:ALTERNATIVES_MAX]]
        if len(parts) != len(self._parts) or not parts:
            self._parts = [re.compile(pattern, re.MULTILINE)]

    def matching(self, data: np.ndarray, offsets: np.ndarray, first: int) -> np.ndarray:
        """Numbers of the lines from `first` on that match: int64, ascending. ValueError when these are no lines."""
        take_lines(data, offsets, np.empty(0, np.int64))  # only to have them checked
        if self._by_line:
            text, starts, search = data.tobytes(), offsets.tolist(), self._of_line.search
            lines = range(first, len(starts) - 1)
            return np.array([line for line in lines if search(text[starts[line] : starts[line + 1]])], np.int64)
        if self._with_ends:
            begins = offsets - offsets[0]
            data = np.insert(data[offsets[0] : offsets[-1]], begins[1:], ord("\n"))
            offsets = begins + np.arange(len(begins))
        text, starts = data.tobytes(), offsets.tolist()
        found = [self._found(part, text, starts, first) for part in self._parts]
        return np.array(sorted(set().union(*found)), np.int64)

    def _found(self, part: re.Pattern[bytes], text: bytes, starts: list[int], line: int) -> list[int]:
        """The lines from `line` on in which there is a match of a part of the pattern."""
        numbers, end = [], int(self._with_ends)
        while line < len(starts) - 1 and (match := part.search(text, starts[line], starts[-1])):
            line = bisect_right(starts, match.start(), line, len(starts) - 1) - 1
            stop = starts[line + 1] - end
            inside = not end and match.end() <= stop
            if inside or self._of_line.search(text[starts[line] : stop]):
                numbers.append(line)
            line += 1
        return numbers
