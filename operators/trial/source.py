"""The laws of a source: rows of float64, the same bytes each time, however it is asked for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.operators import returns
from riprap.operators.base import Source
from riprap.operators.trial.arrays import first_difference, not_finite
from riprap.operators.trial.law import Law, breach

PIECES = (1, 7, 64)
"""Items that are read at a time where a whole is read in pieces."""
IN_PIECES_MAX = 500
"""Items that are read in the smallest pieces; one at a time is slow."""


@dataclass
class SourceCase:
    """Makes the source, opened; with the number of items tried, and True when NaN and infinity may be among them."""

    make: Callable[[], Source]
    items: int
    keeps_bad_rows: bool = False

    @cached_property
    def source(self) -> Source:
        """The one that most laws are tried on."""
        return self.make()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of an item's columns."""
        return returns.schema(self.source)[0]

    @cached_property
    def count(self) -> int:
        """Number of items tried: all that it has, or at most as many as are spoken of."""
        length = returns.stream_length(self.source)
        return self.items if length is None else min(self.items, length)

    def read(self, start: int, stop: int, source: Source | None = None) -> np.ndarray:
        """The rows that a source returns; WrongReturn for ones that no job could go on with."""
        source = source or self.source
        return returns.items(source, start, stop, source.read(start, stop), len(self.columns))

    @cached_property
    def whole(self) -> np.ndarray:
        """A copy of all that is tried."""
        return np.array(self.read(0, self.count))


def names_its_columns(case: SourceCase) -> None:
    if not case.columns or returns.stream_length(case.source) == 0:
        found = f"set `items` to {case.source.items}"
        raise breach(case.source, "open", found, "the number of items of this task's stream, above 0")


def reads_rows(case: SourceCase) -> None:
    assert len(case.whole) == case.count


def reads_finite_numbers(case: SourceCase) -> None:
    if not case.keeps_bad_rows and (found := not_finite([case.whole])):
        expected = "finite numbers, which a model needs"
        raise breach(case.source, "read", f"returned rows of which {found}", expected, "Drop or repair such rows.")


def reads_the_same_again(case: SourceCase) -> None:
    _compare(case, case.read(0, case.count), 0, "the second time")


def reads_the_same_in_another_incarnation(case: SourceCase) -> None:
    again = case.make()
    if returns.stream_length(again) != returns.stream_length(case.source) or returns.schema(again)[0] != case.columns:
        expected = "the same in each incarnation of a worker"
        raise breach(again, "open", "set other items or columns the second time", expected)
    _compare(case, case.read(0, case.count, again), 0, "from a second source, as after a failure")


def reads_the_same_in_pieces(case: SourceCase) -> None:
    for size in PIECES:
        count = min(case.count, IN_PIECES_MAX * size)
        for start in range(case.count - count, case.count, size):
            stop = min(start + size, case.count)
            _compare(case, case.read(start, stop), start, "in pieces")


def reads_its_end(case: SourceCase) -> None:
    length = returns.stream_length(case.source)
    length = case.count if length is None else length
    first = np.array(case.read(max(length - PIECES[1], 0), length))
    if first_difference([case.read(max(length - PIECES[1], 0), length)], [first]):
        raise breach(
            case.source, "read", "returned other bytes of the last items the second time", "the same each time"
        )


def leaves_what_it_returned(case: SourceCase) -> None:
    half = case.count // 2
    first = case.read(0, half)
    kept = np.array(first)
    case.read(half, case.count)
    if first_difference([first], [kept]):
        expected = "rows that stay as they are: links send them later"
        remedy = "Return a new array, or a view of what does not change, each time."
        raise breach(case.source, "read", "changed the rows that it had returned before", expected, remedy)


def _compare(case: SourceCase, found: np.ndarray, start: int, how: str) -> None:
    if where := first_difference([found], [case.whole[start : start + len(found)]]):
        where = where.removeprefix("array 0")
        raise breach(
            case.source,
            "read",
            f"returned other rows {how}: of the rows from item {start:,}, {where.strip()}",
            "the same bytes each time: lost blocks are read again",
            "Let items depend on their position alone; draw random ones from a generator seeded by it.",
        )


LAWS: tuple[Law[SourceCase], ...] = (
    Law("schema names the columns, open sets items", names_its_columns, essential=True),
    Law("read returns float64 rows, as many as asked for", reads_rows, essential=True),
    Law("read returns finite numbers", reads_finite_numbers),
    Law("read returns the same bytes again", reads_the_same_again, essential=True),
    Law("a second source reads the same bytes", reads_the_same_in_another_incarnation),
    Law("in pieces it reads the same bytes", reads_the_same_in_pieces),
    Law("the last items can be read", reads_its_end),
    Law("rows that were read stay as they are", leaves_what_it_returned),
)
