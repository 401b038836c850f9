"""k-means by Lloyd's method: all rows are assigned in each superstep, then the centres move."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.finite import check_rows
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import NO_MESSAGES, NOTHING, Iteration, Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class Lloyd(Iteration):
    """The centres of all rows so far. The loop ends when they stay where they are.

    Each window begins from the last one's centres, the first with rows from those of the first task that has any,
    evenly spaced in their order. A centre without rows stays.
    """

    agrees = ("centres",)

    def __init__(
        self,
        features: Annotated[int, Option("The columns of a row", unit="columns", low=1)] = 1,
        k: Annotated[int, Option("How many centres", unit="centres", low=1)] = 2,
        tolerance: Annotated[float, Option("The loop ends once no coordinate moves by more", low=0)] = 0.0,
        supersteps: Supersteps = 300,
    ) -> None:
        check(self, features=features, k=k, tolerance=tolerance, supersteps=supersteps)
        super().__init__(supersteps)
        self._k, self._tolerance = k, tolerance
        self.state = LoopState(features, centres=np.full((k, features), np.nan))

    def begin(self) -> None:
        """DataError for numbers that are not finite."""
        check_rows(self.state.rows)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: of each centre the sum of its rows and their number; of superstep 0 the centres to begin from."""
        rows, arrays = self.state.rows, self.state.arrays
        if number == 0:
            return Spoken(NO_MESSAGES, self._first().ravel())
        arrays["centres"] = centres = self._moved(totals)
        nearest = _nearest(rows, centres)
        sums = np.zeros((self._k, rows.shape[1] + 1))
        np.add.at(sums, nearest, np.column_stack([rows, np.ones(len(rows))]))
        return Spoken(NO_MESSAGES, sums.ravel())

    def _first(self) -> np.ndarray:
        """Centres to begin from, and a 1 behind each; zeros where this task knows none."""
        rows, centres = self.state.rows, self.state.arrays["centres"]
        if np.isnan(centres).any():
            if not len(rows):
                return np.zeros((self._k, centres.shape[1] + 1))
            centres = rows[np.linspace(0, len(rows) - 1, self._k).astype(int)]
        return np.column_stack([centres, np.ones(self._k)])

    def combine(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Of superstep 0 the first centres that a task knows; sums add up."""
        if self.state.superstep == 0:
            return one if one[-1] else other
        return super().combine(one, other)

    def _moved(self, totals: np.ndarray) -> np.ndarray:
        table = totals.reshape(self._k, -1)
        counts = table[:, -1:]
        if self.state.superstep == 1:
            return table[:, :-1]
        return np.where(counts > 0, table[:, :-1] / np.maximum(counts, 1), self.state.arrays["centres"])

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        if self.state.superstep <= 1:
            return bool(totals[-1] == 0)  # nobody has rows yet
        moved = np.abs(self._moved(totals) - self.state.arrays["centres"])
        return bool(moved.max() <= self._tolerance)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """Task 0 speaks for all: the coordinates, centre by centre."""
        if self._me:
            return np.zeros(0, np.int64), NOTHING
        centres = self.results()["centres"]
        return np.arange(centres.size), centres.ravel()

    def results(self) -> dict[str, np.ndarray]:
        """The `centres`; none before there are rows."""
        centres = self.state.arrays["centres"]
        return {"centres": centres[:0] if np.isnan(centres).all() else centres}


def _nearest(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The centre that each row is nearest to, the first of equal ones; in memory for a few copies of the rows."""
    nearest, least = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    for place, centre in enumerate(centres):
        distances = ((rows - centre) ** 2).sum(axis=1)
        closer = distances < least
        nearest[closer], least[closer] = place, distances[closer]
    return nearest
