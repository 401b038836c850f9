"""The panes that are kept: one row each, in the order of (key, start)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NEVER, EARLY, ON_TIME, LATE, RETRACTION = range(5)
"""The last output of a pane, and the kinds of rows that are put out."""


class Rows(NamedTuple):
    """Arrays of one length. `parts` has a row for each, of the aggregate's numbers; the others are 1-D."""

    keys: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    pending: np.ndarray
    """Items since the pane was put out last."""
    fired: np.ndarray
    """The kind of its last output."""
    parts: np.ndarray
    last: np.ndarray
    """The value that was put out last."""

    @classmethod
    def new(cls, keys: np.ndarray, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray, parts: np.ndarray) -> Rows:
        """Panes of which nothing was put out."""
        return cls(keys, starts, ends, counts, np.full(len(keys), NEVER), parts, np.zeros(len(keys)))

    @classmethod
    def none(cls, width: int) -> Rows:
        """No panes, of parts of `width` numbers."""
        empty = np.empty(0, np.int64)
        return cls.new(empty, empty, empty, empty, np.empty((0, width)))

    def take(self, chosen: np.ndarray) -> Rows:
        """Some of them, by a mask or by their places."""
        return Rows(*(column[chosen] for column in self))

    def and_(self, other: Rows) -> Rows:
        """Both, in the order of (key, start); of equal ones, the first ones' come first."""
        both = Rows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))
        return both.take(np.lexsort((both.starts, both.keys)))

    @property
    def ids(self) -> np.ndarray:
        """Key and start, in two columns."""
        return np.column_stack([self.keys, self.starts])

    def without(self, ids: np.ndarray) -> Rows:
        """The panes that have none of these ids."""
        return self if not len(ids) or not len(self.keys) else self.take(~are_among(self.ids, ids))


def are_among(ids: np.ndarray, others: np.ndarray) -> np.ndarray:
    """True for each of the ids, no two alike, that is one of the others."""
    both = np.concatenate([ids, others])
    order = np.lexsort((np.arange(len(both)), both[:, 1], both[:, 0]))
    found = np.zeros(len(both), bool)
    found[order[:-1]] = (both[order[1:]] == both[order[:-1]]).all(1)
    return found[: len(ids)]
