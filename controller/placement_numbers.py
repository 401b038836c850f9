"""Numbers of tasks that satisfy a spread over labels that cross each other: racks and power lines, say.

Dealt one by one, tasks fit the even numbers of each label for as long as the hosts allow it, and may end where no host
fits both. So the numbers are searched for together: host by host, those near an even share first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

STEPS_MAX = 5000
"""Numbers that are tried: a few milliseconds, as a job that waits for hosts is looked at again and again."""

Cell = tuple[str, ...]
"""The values of hosts that differ in no label of a spread."""


def spread_numbers(cells: Sequence[Cell], count: int, skew: int) -> dict[Cell, int] | None:
    """By cell so many of `count` tasks that in no label the numbers of two values differ by more than `skew`; None
    where that cannot be, or is not found in time."""
    return _NumbersSearch(cells, count, skew).found()


class _NumbersSearch:
    def __init__(self, cells: Sequence[Cell], count: int, skew: int) -> None:
        self._cells, self._count, self._skew, self._steps = cells, count, skew, 0
        self._values = [sorted({cell[label] for cell in cells}) for label in range(len(cells[0]))]
        self._most = [(count + skew * (len(values) - 1)) // len(values) for values in self._values]
        """By label, the most tasks of one value: more of them lack elsewhere."""
        self._totals: Counter[tuple[int, str]] = Counter()
        self._numbers: dict[Cell, int] = {}

    def found(self) -> dict[Cell, int] | None:
        return dict(self._numbers) if self._fill(0, self._count) else None

    def _fill(self, at: int, left: int) -> bool:
        """Give `left` tasks to the cells from that place on; False when no numbers fit, or the steps are used up."""
        if at == len(self._cells):
            return left == 0 and self._fits()
        cell = self._cells[at]
        room = min(self._most[label] - self._totals[label, value] for label, value in enumerate(cell))
        even = left / (len(self._cells) - at)
        for number in sorted(range(min(left, room) + 1), key=lambda number: abs(number - even)):
            self._steps += 1
            if self._steps > STEPS_MAX:
                return False
            self._give(cell, number)
            if self._fill(at + 1, left - number):
                return True
            self._give(cell, -number)
        return False

    def _give(self, cell: Cell, number: int) -> None:
        self._numbers[cell] = number
        for label, value in enumerate(cell):
            self._totals[label, value] += number

    def _fits(self) -> bool:
        for label, values in enumerate(self._values):
            totals = [self._totals[label, value] for value in values]
            if max(totals) - min(totals) > self._skew:
                return False
        return True
