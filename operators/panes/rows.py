"""Rows of keys and times with what their items come to: the arrays that pane states are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

AGGREGATES = ("count", "sum", "min", "max", "mean")
COUNT, SUM, MIN, MAX = range(4)
"""The columns of `Rows.sums`."""


class Rows(NamedTuple):
    """Stretches of event time of keys: `keys`, `starts` and `ends` (int64, (n,)), and `sums` (float64, (n, 4)): the
    count, sum, least and greatest value of the items in each."""

    keys: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    sums: np.ndarray

    def at(self, chosen: np.ndarray) -> Rows:
        """The rows of a mask, or of places."""
        return Rows(*(column[chosen] for column in self))

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.keys)


def rows_of(keys: np.ndarray, starts: np.ndarray, ends: np.ndarray, values: np.ndarray) -> Rows:
    """A row for each item."""
    values = np.asarray(values, np.float64)
    return Rows(keys, starts, ends, np.column_stack([np.ones(len(keys)), values, values, values]))


def nothing() -> Rows:
    """No rows."""
    none = np.empty(0, np.int64)
    return Rows(none, none, none, np.empty((0, 4)))


def joined(parts: Sequence[Rows]) -> Rows:
    """One behind the other."""
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else nothing()


def ordered(rows: Rows) -> Rows:
    """By key and start."""
    if rows.size and rows.starts[0] == rows.starts[-1] and (rows.starts == rows.starts[0]).all():
        return rows.at(np.argsort(rows.keys, kind="stable"))
    return rows.at(np.lexsort((rows.starts, rows.keys)))


def folded(rows: Rows, is_first: np.ndarray) -> Rows:
    """Neighbours as one row: each that is first begins one. The ends are the last of what is folded."""
    if not rows.size:
        return rows
    begins = np.flatnonzero(is_first)
    sums = np.empty((len(begins), 4))
    sums[:, :MIN] = np.add.reduceat(rows.sums[:, :MIN], begins)
    sums[:, MIN] = np.minimum.reduceat(rows.sums[:, MIN], begins)
    sums[:, MAX] = np.maximum.reduceat(rows.sums[:, MAX], begins)
    return Rows(rows.keys[begins], rows.starts[begins], np.maximum.reduceat(rows.ends, begins), sums)


def added(rows: Rows) -> Rows:
    """Rows of one key and start as one."""
    rows = ordered(rows)
    return folded(rows, _changes(rows.keys) | _changes(rows.starts))


def merged(rows: Rows) -> Rows:
    """Rows of one key that overlap as one, as sessions do."""
    rows = ordered(rows)
    while True:  # a long one may hold several: those come in turn
        is_first = _changes(rows.keys)
        is_first[1:] |= rows.starts[1:] >= rows.ends[:-1]
        if is_first.all():
            return rows
        rows = folded(rows, is_first)


def values_of(aggregate: str, sums: np.ndarray) -> np.ndarray:
    """What an aggregate comes to in each row (float64)."""
    if aggregate == "mean":
        return np.asarray(sums[:, SUM] / np.maximum(sums[:, COUNT], 1.0))
    return sums[:, AGGREGATES.index(aggregate)].copy()


def _changes(column: np.ndarray) -> np.ndarray:
    """Where a value differs from the one before; at the first."""
    changes = np.ones(len(column), bool)
    changes[1:] = column[1:] != column[:-1]
    return changes
