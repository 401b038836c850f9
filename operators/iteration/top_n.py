"""Approximate top-N: the keys with the greatest sums over all tasks, found while tasks tell each other few.

All tell their greatest parts first, as in threshold algorithms (Fagin, Lotem, Naor, 2001; Cao and Wang, 2004: TPUT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.iteration.exact import check_exact
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import NOTHING, Iteration, Messages, Spoken, Supersteps
from riprap.operators.options import Option, check
from riprap.operators.tables import Arrays, Schema, Table


class OwnSums(NamedTuple):
    """The sums of this task's rows by key, the greatest first, and of equal ones the least key first."""

    keys: np.ndarray
    sums: np.ndarray


def _top(count: int, keys: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The keys with the greatest sums, then these: 2 * count numbers. NaN and 0 where there is no key."""
    order = np.lexsort((keys, -sums))[:count]
    table = np.zeros((2, count))
    table[0] = np.nan
    table[:, : len(order)] = keys[order], sums[order]
    return table.ravel()


def _sums(top: np.ndarray) -> np.ndarray:
    return top[len(top) // 2 :]


class TopN(Iteration):
    """The n keys with the greatest sums of all rows so far, which may be dealt over the tasks in any way.

    A superstep tells each key's task of the greatest parts that have not been told yet: n of a task, then twice as
    many each time. What is told of a key is its sum but for at most the `missing`: all tasks' greatest untold parts.
    The loop ends once no key that is left out can have more than (1 + error) times the sum of one that is not.
    """

    def __init__(
        self,
        n: Annotated[int, Option("How many keys", unit="keys", low=1)] = 10,
        columns: Annotated[int, Option("The columns of a row", unit="columns", low=1)] = 2,
        key: Annotated[int, Option("Where keys stand, whole numbers; the first column is 0", unit="column", low=0)] = 0,
        count: Annotated[int, Option("Where what is summed stands; -1: each row counts 1", unit="column", low=-1)] = 1,
        error: Annotated[float, Option("Of a sum: by how much a key may be that is left out, too", low=0)] = 0.01,
        supersteps: Supersteps = 100,
    ) -> None:
        check(self, n=n, columns=columns, key=key, count=count, error=error, supersteps=supersteps)
        if max(key, count) >= columns:
            raise ConfigError(f"there is no column {max(key, count)} in rows of {columns}", "Count columns from 0.")
        super().__init__(supersteps)
        self._n, self._key, self._count, self._error = n, key, count, error
        self.state = LoopState(
            columns, keys=np.zeros(0, np.int64), sums=NOTHING, top=_top(n + 1, NOTHING, NOTHING), missing=np.zeros(1)
        )
        self._parts: tuple[int, OwnSums] | None = None

    @property
    def parts(self) -> OwnSums:
        """Made of the rows anew in each window, and in a new incarnation."""
        if self._parts is None or self._parts[0] != self.state.epoch:
            self._parts = self.state.epoch, self._summed()
        return self._parts[1]

    def _summed(self) -> OwnSums:
        rows = self.state.rows
        counts = rows[:, self._count] if self._count >= 0 else np.ones(len(rows))
        whole = rows[:, self._key] % 1 == 0
        if not whole.all() or not (counts >= 0).all():
            raise DataError(
                "the rows are none of a top-N: a key that is no whole number, or a count below 0",
                "Set the options key and count to the columns of them.",
            )
        check_exact(rows[:, self._key], "the key")
        keys, places = np.unique(rows[:, self._key].astype(np.int64), return_inverse=True)
        sums = np.bincount(places, counts, len(keys))
        order = np.lexsort((keys, -sums))
        return OwnSums(keys[order], sums[order])

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: all tasks' greatest untold parts before this superstep, and the top n + 1 of the parts told."""
        arrays, parts = self.state.arrays, self.parts
        if number == 0:
            arrays |= {"keys": np.zeros(0, np.int64), "sums": NOTHING}
        keys, places = np.unique(np.concatenate([arrays["keys"], messages.keys]), return_inverse=True)
        sums = np.bincount(places, np.concatenate([arrays["sums"], messages.values]), len(keys))
        arrays |= {"keys": keys, "sums": sums}
        first, last = self._n * (2**number - 1), self._n * (2 ** (number + 1) - 1)
        untold = parts.sums[first] if first < len(parts.sums) else 0.0
        told = Messages(parts.keys[first:last], parts.sums[first:last])
        return Spoken(told, np.append(untold, _top(self._n + 1, keys, sums)))

    def combine(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Untold parts add up, and of both tops the top is taken; no key is in both, for it has one task."""
        keys, sums = np.concatenate([one[1:].reshape(2, -1), other[1:].reshape(2, -1)], axis=1)
        there = ~np.isnan(keys)
        return np.append(one[0] + other[0], _top(self._n + 1, keys[there], sums[there]))

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        """True when the loop ends. Keeps the top n, too, which are the same in all tasks."""
        missing, sums = totals[0], _sums(totals[1:])
        self.state.arrays |= {"top": totals[1:], "missing": totals[:1]}
        return bool(sums[-1] + missing <= (1 + self._error) * sums[-2])

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and the told parts of their sums, the greatest first; task 0 speaks for all."""
        found = self.results()
        chosen = slice(0, 0) if self._me else slice(None)
        return found["keys"][chosen], found["sums"][chosen]

    def results(self) -> dict[str, np.ndarray]:
        keys, sums = self.state.arrays["top"].reshape(2, -1)[:, :-1]
        there = ~np.isnan(keys)
        return {
            "keys": keys[there].astype(np.int64), "sums": sums[there], "missing": self.state.arrays["missing"]
        }  # fmt: skip

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`top`: keys and the least and the most that their sums can be."""
        one = results[0]
        columns = {"key": one["keys"], "least": one["sums"], "most": one["sums"] + one["missing"]}
        return {"top": Table(columns)}
