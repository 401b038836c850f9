"""Linear regression on a stream, with L2: minimises half the squared difference between prediction and label."""

import math

from riprap.operators.learning import blockmath
from riprap.operators.learning.linear import LinearGradient, LinearModel
from riprap.operators.learning.metrics import meanings


class Gradient(LinearGradient):
    """The processor of linear regression: gradients of the squared loss."""

    loss = blockmath.SQUARED


class Model(LinearModel):
    """The sink of linear regression: one step per epoch.

    The steps diverge when learning_rate is above 2 / (largest eigenvalue of the features' second moments).
    """

    statistics = ("loss",)
    meanings = meanings("loss")
    curvature = 1.0
    plain_rate = 0.1

    def _residual(self) -> float:
        return math.sqrt(2.0 * self._statistics[1] / self._statistics[0])
