"""All that a function of a loop over keys sees in one superstep, and the sums and minima that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from riprap.operators.iteration.supersteps import Messages


def read_only(array: np.ndarray) -> np.ndarray:
    """The same numbers, for somebody who must not change them."""
    view = array.view()
    view.flags.writeable = False
    return view


class RowsByKey(NamedTuple):
    """Sorted rows, and their first column in one piece: the key of each."""

    rows: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> RowsByKey:
        """Of rows in the order of their first column."""
        return cls(rows, rows[:, 0].copy())

    def of_keys(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of these keys, key by key, and for each row the place of its key among them."""
        begins, ends = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, "right")
        counts = ends - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return self.rows[shifts + np.arange(len(shifts))], np.repeat(np.arange(len(keys)), counts)


@dataclass(frozen=True)
class KeyedStep:
    """One superstep of one task. Arrays must not be changed.

    In a delta iteration only keys that have messages are here.
    """

    number: int
    """Counted from 0, in which nobody has heard anything yet."""
    keys: np.ndarray
    """This task's keys (int64), ascending."""
    values: np.ndarray
    """The value of each key, or a row of values (float64)."""
    messages: Messages
    """The keys and values of the messages that the last superstep sent to these keys, in the order of their senders."""
    heard: np.ndarray
    """For each message the place of its key among `keys`."""
    total: np.ndarray
    """The parts that all tasks' last steps returned, combined; empty where there was none."""
    rows_by_key: RowsByKey

    @property
    def rows(self) -> np.ndarray:
        """All input rows of this task so far, sorted; a row's first column is its key."""
        return self.rows_by_key.rows

    def rows_of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the chosen keys (bool, one for each key), and for each row the place of its key among `keys`."""
        places = np.flatnonzero(chosen)
        rows, of_chosen = self.rows_by_key.of_keys(self.keys[places])
        return rows, places[of_chosen]

    def sums(self) -> np.ndarray:
        """The sum of each key's messages; 0 where there is none."""
        return self._folded(np.add, 0.0)

    def least(self) -> np.ndarray:
        """The least of each key's messages; infinite where there is none."""
        return self._folded(np.minimum, np.inf)

    def most(self) -> np.ndarray:
        """The greatest of each key's messages; -infinite where there is none."""
        return self._folded(np.maximum, -np.inf)

    def _folded(self, fold: np.ufunc, nothing: float) -> np.ndarray:
        folded = np.full((len(self.keys), *self.messages.values.shape[1:]), nothing)
        fold.at(folded, self.heard, self.messages.values)
        return folded
