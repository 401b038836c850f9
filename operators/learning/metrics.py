"""Prequential (test-then-train) metrics: each item is judged by the model before that model learns from it.

Beside the sums over the whole stream there are fading ones, which forget old epochs and so show where the model stands
now. Gama, Sebastiao, Rodrigues: On evaluating stream learning algorithms, Machine Learning 90 (2013), 3.1-3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from riprap.operators.learning.state import copy_into
from riprap.operators.options import Option

Fading = Annotated[
    float,
    Option("What an epoch weighs in the metrics `recent_...` is multiplied by with each later epoch", low=0, high=1),
]
MEANINGS = {
    "loss": "mean loss of an item, judged before the model learns from it",
    "accuracy": "share of the items whose class was predicted correctly, before the model learns from them",
    "mse": "mean squared difference between prediction and label",
    "inertia": "mean squared distance of an item from the nearest centre, before the centres follow it",
}
"""The meanings of the averages of `Prequential`."""


def meanings(*names: str) -> dict[str, str]:
    """The meanings of the metrics `NAME` and `recent_NAME` of these averages."""
    recent = {f"recent_{name}": f"the same as {name}, of late: old epochs fade" for name in names}
    return {name: MEANINGS[name] for name in names} | recent


class Prequential:
    """Cumulative and fading averages of additive statistics, the first of which counts items.

    `names` are those of the statistics behind the count: `update` takes (items, *sums in that order) per epoch.
    `fading`, 0 to 1, is what an epoch's weight is multiplied by with each later epoch; 0 keeps the last only.
    """

    def __init__(self, names: tuple[str, ...], fading: float) -> None:
        self._names = names
        self._fading = fading
        self._total = np.zeros(1 + len(names))
        self._recent = np.zeros(1 + len(names))

    def update(self, statistics: np.ndarray) -> None:
        """Take in the statistics of one epoch; an epoch without items changes nothing."""
        if statistics[0] > 0:
            self._total += statistics
            self._recent *= self._fading
            self._recent += statistics

    def snapshot(self) -> dict[str, np.ndarray]:
        """The sums, as a sink puts them into its own snapshot."""
        return {"metrics_total": self._total.copy(), "metrics_recent": self._recent.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from the sums of a snapshot; its other content is left alone. ValueError when they do not fit."""
        copy_into(self._total, snapshot["metrics_total"])
        copy_into(self._recent, snapshot["metrics_recent"])

    @property
    def items(self) -> int:
        """Items judged so far."""
        return int(self._total[0])

    def as_dict(self) -> dict[str, float]:
        """`NAME` over the whole stream and `recent_NAME`, averages per item; empty before the first item."""
        if not self.items:
            return {}
        averages = dict(zip(self._names, (self._total[1:] / self._total[0]).tolist()))
        recent = zip(self._names, (self._recent[1:] / self._recent[0]).tolist())
        return averages | {f"recent_{name}": value for name, value in recent}
