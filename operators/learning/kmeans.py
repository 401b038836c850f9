"""Streaming k-means: centres that follow the stream, older items counting less.

Adapted from MLlib's streaming k-means (spark.apache.org/docs/latest/mllib-clustering.html#streaming-k-means): with n
the weight of a centre c so far, m the items of this epoch nearest to it and x their mean,
c <- (c n a + x m) / (n a + m), n <- n a + m, where a is the decay. A dying centre takes half of the largest cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import options
from riprap.operators.base import Arrays, Context, Processor, Sink
from riprap.operators.learning import blockmath
from riprap.operators.learning.metrics import Fading, Prequential, meanings
from riprap.operators.learning.model_tables import centres_table
from riprap.operators.learning.state import copy_into
from riprap.operators.options import Option
from riprap.operators.tables import Schema, Table

DYING = 1e-8  # of the largest cluster's weight
APART = 1e-4  # relative distance of the two halves of a split centre; at MLlib's 1e-14 rounding would assign the items


class Assignment(Processor):
    """The processor of k-means: assigns items to the nearest of `k` centres.

    Results are (sums (k, columns) and counts (k,) of the items nearest to each centre, (items, inertia)).

    The job's seed determines the initial centres. Features are to be centred and of like scales: the nearest centre is
    found by inner products, which rounding falsifies where features are 10^7 times as far from 0 as they spread.
    """

    def __init__(
        self,
        *,
        k: Annotated[int, Option("How many clusters there are", unit="centres", low=1)] = 10,
        spread: Annotated[
            float,
            Option("The standard deviation of the initial centres, in units of the features", low=0, above=True),
        ] = 1.0,
    ) -> None:
        options.check(self, k=k, spread=spread)
        self._k, self._spread = k, float(spread)

    def open(self, context: Context) -> None:
        """Start from the initial centres."""
        options.features_or_error(context)
        self._centres = self.initial_centres(context)
        self._mask = np.zeros(len(context.columns))
        self._mask[list(context.feature_indexes)] = 1.0

    def initial_centres(self, context: Context) -> np.ndarray:
        """Centres (k, columns) to start from, normally distributed, 0 in the label's column."""
        centres = np.zeros((self._k, len(context.columns)))
        normal = np.random.default_rng(context.seed).standard_normal((self._k, context.features))
        centres[:, list(context.feature_indexes)] = self._spread * normal
        return centres

    def process_data(self, items: np.ndarray) -> Arrays:
        """Assign a block's items; the lowest index wins a tie. ValueError when its columns are not the context's."""
        sums, counts, inertia = blockmath.kmeans_result(items, self._centres, self._mask)
        return sums, counts, np.array([float(len(items)), inertia])

    def process_feedback(self, feedback: Arrays) -> None:
        """Take over the sink's centres; ValueError when they are of another shape."""
        if feedback[0].shape != self._centres.shape:
            raise ValueError(f"feedback of shape {feedback[0].shape}, expected {self._centres.shape}: is k the same?")
        self._centres[:] = feedback[0]


class Model(Sink):
    """The sink of k-means: moves the centres at the end of each epoch; its processor says their number."""

    meanings = meanings("inertia")

    def __init__(
        self,
        *,
        decay: Annotated[
            float,
            Option(
                "What a centre's past weighs after one more epoch: 1 never forgets, 0 knows the last only",
                low=0,
                high=1,
            ),
        ] = 1.0,
        fading: Fading = 0.9,
    ) -> None:
        options.check(self, decay=decay, fading=fading)
        self._decay = float(decay)
        self._metrics = Prequential(("inertia",), fading)

    def open(self, context: Context) -> None:
        """Start from the processors' initial centres; ConfigError when the processors do not assign to centres."""
        if not isinstance(self.processor, Assignment):
            raise ConfigError(
                f"the k-means Model needs its Assignment upstream, not {type(self.processor).__name__}",
                "Correct the operator of the stage before the sink.",
            )
        self._features = list(context.feature_indexes)
        self._centres = self.processor.initial_centres(context)
        self._sums = np.zeros_like(self._centres)
        self._weights = np.zeros(len(self._centres))
        self._counts = np.zeros(len(self._centres))
        self._statistics = np.zeros(2)

    def aggregate(self, result: Arrays) -> None:
        """Add a block's sums, counts and statistics to the epoch's."""
        sums, counts, statistics = result
        self._sums += sums
        self._counts += counts
        self._statistics += statistics

    def commit(self, epoch: int) -> Arrays:
        """Move each centre towards the mean of its items of the epoch, unless the epoch had none at all."""
        if self._statistics[0] > 0:
            hit = self._counts > 0
            self._weights *= self._decay
            self._weights += self._counts
            share = (self._counts[hit] / self._weights[hit])[:, np.newaxis]
            means = self._sums[hit] / self._counts[hit, np.newaxis]
            self._centres[hit] = self._centres[hit] * (1.0 - share) + means * share
            self._split_for_dying()
            self._metrics.update(self._statistics)
            for array in (self._sums, self._counts, self._statistics):
                array[:] = 0.0
        return (self._centres.copy(),)

    def _split_for_dying(self) -> None:
        largest, smallest = int(self._weights.argmax()), int(self._weights.argmin())
        if self._weights[smallest] >= DYING * self._weights[largest]:
            return
        self._weights[[largest, smallest]] = (self._weights[largest] + self._weights[smallest]) / 2
        apart = np.zeros_like(self._centres[largest])
        apart[self._features] = APART * np.maximum(np.abs(self._centres[largest, self._features]), 1.0)
        self._centres[smallest] = self._centres[largest] - apart
        self._centres[largest] += apart

    def model(self) -> dict[str, np.ndarray]:
        """`centres` (k, features) and `weights` (k,): the decayed number of items of each."""
        return {"centres": self._centres[:, self._features], "weights": self._weights.copy()}

    @classmethod
    def tables(cls, results: Sequence[Mapping[str, np.ndarray]], schema: Schema) -> dict[str, Table]:
        """`model`: a centre a row, the heaviest first, with its weight."""
        return {"model": centres_table(results, schema)}

    def snapshot(self) -> dict[str, np.ndarray]:
        """Centres, their weights, and the metrics."""
        return {"centres": self._centres.copy(), "weights": self._weights.copy(), **self._metrics.snapshot()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Take all of that over; ValueError when it is of another shape."""
        copy_into(self._centres, snapshot["centres"])
        copy_into(self._weights, snapshot["weights"])
        self._metrics.restore(snapshot)

    def metrics(self) -> dict[str, float]:
        """Mean squared distance of the items from their centres, over the stream and lately."""
        return self._metrics.as_dict()
