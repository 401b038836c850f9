"""Means, deviations and bounds of the columns of fragments, of the rows that are not held back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from riprap.prep_spark.assemble import Dealing
from riprap.prep_spark.layout import chosen
from riprap.prep_spark.shards import Source, slices

if TYPE_CHECKING:
    from pyspark import SparkContext


class Moments(NamedTuple):
    """By column: how many numbers there are, their mean, the sum of squares about it, least and greatest; how many are
    missing."""

    numbers: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    least: np.ndarray
    greatest: np.ndarray
    missing: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Moments:
        """The moments of some rows, at least one."""
        there = ~np.isnan(rows)
        count = there.sum(axis=0)
        mean = np.where(there, rows, 0).sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(there, rows - mean, 0) ** 2).sum(axis=0)
        least, greatest = np.where(there, rows, np.inf).min(axis=0), np.where(there, rows, -np.inf).max(axis=0)
        return cls(count, mean, squares, least, greatest, len(rows) - count)

    @classmethod
    def nothing(cls, columns: int) -> Moments:
        """The moments of no rows."""
        none = np.zeros(columns, int)
        return cls(
            none, np.zeros(columns), np.zeros(columns), np.full(columns, np.inf), np.full(columns, -np.inf), none
        )

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """The moments of the rows of both (Chan, Golub, LeVeque: "Updating formulae", 1979, section 2)."""
        count = self.numbers + other.numbers
        weight = other.numbers / np.maximum(count, 1)
        step = other.mean - self.mean
        return Moments(
            count,
            self.mean + step * weight,
            self.squares + other.squares + step**2 * self.numbers * weight,
            np.minimum(self.least, other.least),
            np.maximum(self.greatest, other.greatest),
            self.missing + other.missing,
        )

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the numbers that there are."""
        return np.sqrt(self.squares / np.maximum(self.numbers, 1))


def measured(context: SparkContext, sources: Sequence[Source], columns: int, dealing: Dealing) -> Moments:
    """The moments of the rows to train on."""
    firsts = [0, *accumulate(source.rows for source in sources)]
    work = partial(_of_fragment, columns=columns, dealing=dealing)
    tasks = list(zip(firsts, sources))
    return sum(context.parallelize(tasks, len(tasks)).map(work).collect(), Moments.nothing(columns))


def _of_fragment(task: tuple[int, Source], columns: int, dealing: Dealing) -> Moments:
    """Runs in Spark's workers."""
    first, source = task
    found = Moments.nothing(columns)
    part = "train" if dealing.holdout else "all"
    for start, rows in slices(0, source.rows, [source], columns):
        mask = chosen(part, first + start, first + start + len(rows), dealing.holdout, dealing.seed)
        rows = rows if mask is None else rows[mask]
        if len(rows):
            found = found + Moments.of(rows)
    return found
