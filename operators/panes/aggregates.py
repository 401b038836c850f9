"""Sums of the items of a pane: the numbers kept of them, the joining of two parts, and the resulting value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np


class Aggregate(Protocol):
    """One kind of sum. All arrays are float64 and 1-D; a part is a number for each of `joins`."""

    @property
    def joins(self) -> Sequence[np.ufunc]:
        """The functions that join two parts, number by number: np.add, np.minimum or np.maximum."""

    def lift(self, values: np.ndarray) -> Sequence[np.ndarray | None]:
        """The numbers of single items; None stands for ones."""

    def result(self, parts: np.ndarray) -> np.ndarray:
        """The values of parts, one in each row."""


class Count:
    """The number of items."""

    joins = (np.add,)

    def lift(self, values: np.ndarray) -> Sequence[np.ndarray | None]:
        return (None,)

    def result(self, parts: np.ndarray) -> np.ndarray:
        return parts[:, 0]


class Folded:
    """A sum, least or greatest value, by its ufunc."""

    def __init__(self, join: np.ufunc) -> None:
        self.joins = (join,)

    def lift(self, values: np.ndarray) -> Sequence[np.ndarray | None]:
        return (values,)

    def result(self, parts: np.ndarray) -> np.ndarray:
        return parts[:, 0]


class Mean:
    """The mean value."""

    joins = (np.add, np.add)

    def lift(self, values: np.ndarray) -> Sequence[np.ndarray | None]:
        return None, values

    def result(self, parts: np.ndarray) -> np.ndarray:
        return parts[:, 1] / parts[:, 0]


AGGREGATES: Mapping[str, Aggregate] = {
    "count": Count(),
    "sum": Folded(np.add),
    "min": Folded(np.minimum),
    "max": Folded(np.maximum),
    "mean": Mean(),
}
"""By the name that a topology gives."""

NOTHING: dict[np.ufunc, float] = {np.add: 0.0, np.minimum: np.inf, np.maximum: -np.inf}
"""The number that changes nothing when it is joined."""


def nothing(aggregate: Aggregate) -> np.ndarray:
    """The part of no item."""
    return np.array([NOTHING[join] for join in aggregate.joins])


def joined_parts(aggregate: Aggregate, parts: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Rows of parts joined, from each of `firsts` up to the next."""
    if not len(firsts):
        return np.empty((0, len(aggregate.joins)))
    return np.column_stack([_joined(join, parts[:, i], firsts) for i, join in enumerate(aggregate.joins)])


def _joined(join: np.ufunc, numbers: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Numbers are added one after the other, as in a table (grouping.py): a sum is rounded alike, whichever is used."""
    if join is not np.add:
        return np.asarray(join.reduceat(numbers, firsts))
    runs = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(numbers)))
    return np.bincount(runs, numbers)
