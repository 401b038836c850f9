"""A stream of synthetic items from memory, to measure with: no file is read while the job runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np

from riprap.operators import options
from riprap.operators.base import Context, Source
from riprap.operators.options import Option

BLOCK = 1024
"""Rows that are drawn together, from a generator of their own: so a row depends on its number alone."""


class Classification(Source):
    """Two classes, normally distributed about two opposite corners of a cube. `label` comes first, then x0, x1, ...

    After make_classification of scikit-learn, which StreamLEC's Exp#4 uses. Unlike there, each class is one cluster, no
    feature is a combination of others, features are not shuffled, and any part of the stream can be made by itself.

    Each task of the stage streams an equal share. The job's seed determines the rows.
    """

    def __init__(
        self,
        *,
        items: Annotated[int, Option("The length of the whole stream", unit="items", low=1)] = 1_000_000,
        features: Annotated[int, Option("The columns besides the label", unit="columns", low=1)] = 100,
        informative: Annotated[
            int, Option("So many of them tell the classes apart, the others are noise", unit="columns", low=0)
        ] = 10,
        separation: Annotated[
            float, Option("Half a side of the cube", unit="standard deviations of a class", low=0)
        ] = 0.5,
        flip: Annotated[float, Option("The share of labels that are drawn anew", low=0, high=1)] = 0.01,
        distinct: Annotated[
            int, Option("Rows held in memory, and streamed again and again", unit="items", low=1)
        ] = 100_000,
    ) -> None:
        options.check(
            self, items=items, features=features, informative=informative, separation=separation, flip=flip,
            distinct=distinct,
        )  # fmt: skip
        self._items, self._features, self._distinct = items, features, distinct
        self._informative = min(informative, features)
        self._separation, self._flip = float(separation), float(flip)

    def open(self, context: Context) -> None:
        """Make the distinct rows: half a second for 100,000 of 100 features."""
        self._first = self._items * context.index // context.parallelism
        self.items: int = self._items * (context.index + 1) // context.parallelism - self._first
        self._rows = _distinct_rows(
            min(self._distinct, self._items),
            self._features,
            self._informative,
            self._separation,
            self._flip,
            context.seed,
        )

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        """`label`, x0, x1, ..."""
        return ("label", *(f"x{i}" for i in range(self._features))), "label"

    def read(self, start: int, stop: int) -> np.ndarray:
        """Items [start, stop): a view of the rows in memory, or a copy where they start over. ValueError outside."""
        if not 0 <= start <= stop <= self.items:
            raise ValueError(f"items [{start}, {stop}) of a stream of {self.items}")
        first, count = (self._first + start) % len(self._rows), stop - start
        if first + count <= len(self._rows):
            return self._rows[first : first + count]
        return np.take(self._rows, range(first, first + count), axis=0, mode="wrap")


@lru_cache(maxsize=1)
def _distinct_rows(
    count: int, features: int, informative: int, separation: float, flip: float, seed: int
) -> np.ndarray:
    """The rows, read-only; several sources in one process share them."""
    corner = np.zeros(features)
    corner[:informative] = separation * np.sign(_generator(seed, 0).standard_normal(informative))
    rows = np.empty((count, 1 + features))
    for number, start in enumerate(range(0, count, BLOCK), start=1):
        generator, size = _generator(seed, number), min(BLOCK, count - start)
        classes = generator.integers(0, 2, BLOCK)
        drawn = np.where(generator.random(BLOCK) < flip, generator.integers(0, 2, BLOCK), classes)
        features_of = generator.standard_normal((BLOCK, features)) + np.outer(2 * classes - 1, corner)
        rows[start : start + size, 0], rows[start : start + size, 1:] = drawn[:size], features_of[:size]
    rows.flags.writeable = False
    return rows


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))
