"""Which lines of a block match a regular expression, found by searches over the whole block."""

from __future__ import annotations

import re
from bisect import bisect_right

import numpy as np

from operators.dataflow.text import take_lines

_BY_LINE = re.compile(rb"\\[AZ]|[*+?}]\+|\(\?(?!:|P|\(|[aiLmsx]+[:)])")
"""What may keep a line's own match from being one of the whole text: \\A, \\Z, what looks around, what gives nothing
back, and flags that are switched off. Such patterns are tried line by line, and some others that look like them."""

_EDGES = re.compile(rb"[\^$]|\\[bB]")
"""What tells where a line begins or ends."""


class LinePattern:
    """A pattern of Python's `re` over bytes. re.error when it is none.

    A match in a line is also one in the text in which the lines stand one after the other (Invariant), as a search that
    backtracks tries every way. So each search over the text leads to the next line that may match; whether it does is
    asked of the line alone where the match leaves the line or depends on its ends.
    """

    def __init__(self, pattern: bytes) -> None:
        self._of_line = re.compile(pattern)
        self._of_text = None if _BY_LINE.search(pattern) else re.compile(pattern, re.MULTILINE)
        self._with_ends = bool(_EDGES.search(pattern) or self._of_line.search(b""))

    def matching(self, data: np.ndarray, offsets: np.ndarray, first: int) -> np.ndarray:
        """Numbers of the lines from `first` on that match: int64, ascending. ValueError when these are no lines."""
        take_lines(data, offsets, np.empty(0, np.int64))  # only to have them checked
        if self._of_text is None:
            text, starts, search = data.tobytes(), offsets.tolist(), self._of_line.search
            lines = range(first, len(starts) - 1)
            return np.array([line for line in lines if search(text[starts[line] : starts[line + 1]])], np.int64)
        if self._with_ends:
            begins = offsets - offsets[0]
            data = np.insert(data[offsets[0] : offsets[-1]], begins[1:], ord("\n"))
            offsets = begins + np.arange(len(begins))
        return np.array(self._found(self._of_text, data.tobytes(), offsets.tolist(), first), np.int64)

    def _found(self, pattern: re.Pattern[bytes], text: bytes, starts: list[int], line: int) -> list[int]:
        numbers, ends = [], int(self._with_ends)
        while line < len(starts) - 1 and (match := pattern.search(text, starts[line], starts[-1])):
            line = bisect_right(starts, match.start(), line, len(starts) - 1) - 1
            stop = starts[line + 1] - ends
            inside = not ends and match.end() <= stop
            if inside or self._of_line.search(text[starts[line] : stop]):
                numbers.append(line)
            line += 1
        return numbers
