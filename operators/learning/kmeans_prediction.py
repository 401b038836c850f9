"""Assignment of items to the nearest of given centres, of which only the inner products are linear.

|x - c|^2 = |x|^2 - 2 x.c + |c|^2. Over the centres |x|^2 is the same, so that the nearest centre has the largest
x.c - |c|^2 / 2: x.c is linear in x, the constant and the choice of the largest come after. So has it, with m the mean
of the centres, x.(c - m) - (c - m).(c + m) / 2: where centres are close together and far from 0, the first form is a
difference of large numbers. The distance itself needs |x|^2, which no linear part tells; so the sink cannot decode the
inertia, and does not report it.
"""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.base import Context
from riprap.operators.learning.prediction import Prediction
from riprap.operators.learning.trained import Trained, trained


class NearestCentre(Prediction):
    """Predicts the index of the nearest centre of k-means, the lowest in a tie. A label is no part of that.

    The model is what operators/learning/kmeans.py left, or any with `centres` (k, features).
    """

    def __init__(self, *, model: Trained) -> None:
        self._given = model

    def linear_weights(self, context: Context) -> np.ndarray:
        """A column per centre."""
        centres = trained(self._given, "centres")["centres"]
        if centres.ndim != 2 or not len(centres):
            raise ConfigError(f"centres of shape {centres.shape}", "Give a matrix with a centre a row.")
        mean = centres.mean(axis=0)
        self._offsets = -0.5 * ((centres - mean) * (centres + mean)).sum(axis=1)
        return (centres - mean).T

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One column: the index as a float."""
        nearest = (linear + self._offsets).argmax(axis=1).astype(np.float64)[:, np.newaxis]
        return nearest, nearest
