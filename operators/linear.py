"""What the linear models share: a processor that sums gradients and a sink that steps against them.

Adapted from MLlib's formulations (spark.apache.org/docs/latest/mllib-linear-methods.html and
mllib-optimization.html): mini-batch gradient descent with steps of learning_rate / sqrt(epoch), L2 by shrinking the
weights. Unlike there, the intercept is not regularised.

The state, and so the feedback and the gradient, is one vector: a weight per column of an item, 0 in the label's place,
and the intercept behind them. A block goes through the kernel as it came from the network, its label column included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from operators import blockmath, options
from operators.base import Arrays, Context, Processor, Sink
from operators.metrics import Prequential
from operators.state import copy_into


class LinearGradient(Processor):
    """Results are (gradient of the summed loss, (items, loss, correct)), under the last committed weights."""

    loss: ClassVar[int]
    """One of the losses of `operators.blockmath`."""

    @property
    def tells_classes(self) -> bool:  # type: ignore[override]
        """All losses but that of regression."""
        return self.loss != blockmath.SQUARED

    def open(self, context: Context) -> None:
        """Start from weights 0; ConfigError when the items have no label or no features."""
        options.features_or_error(context)
        self._label = options.required_label(context)
        self._state = np.zeros(len(context.columns) + 1)

    def process_data(self, items: np.ndarray) -> Arrays:
        """Gradient and statistics of a block; ValueError when it has other columns than the context."""
        return blockmath.linear_result(self.loss, items, self._state, self._label)

    def process_feedback(self, feedback: Arrays) -> None:
        """Take over the sink's weights; ValueError when they are of another shape."""
        if feedback[0].shape != self._state.shape:
            raise ValueError(f"feedback of shape {feedback[0].shape}, expected {self._state.shape}")
        self._state[:] = feedback[0]


class LinearModel(Sink):
    """Averages an epoch's gradients and takes one step.

    `learning_rate` > 0: the first step's size, later ones are divided by sqrt(epoch). `l2` >= 0: weight of the
    regulariser l2 / 2 * |weights|^2. `intercept`: learn one, else it stays 0. `fading`: see metrics.Prequential.
    """

    statistics: ClassVar[tuple[str, ...]]
    """Names of what the processors' statistics average to, as far as they mean something for the loss."""

    def __init__(
        self, *, learning_rate: float = 1.0, l2: float = 0.0, intercept: bool = True, fading: float = 0.9
    ) -> None:
        self._learning_rate = options.positive("learning_rate", learning_rate)
        self._l2 = options.number("l2", l2, 0)
        self._intercept = options.switch("intercept", intercept)
        self._metrics = Prequential(self.statistics, options.number("fading", fading, 0, 1))

    def open(self, context: Context) -> None:
        """Start from weights 0, like the processors."""
        options.required_label(context)
        self._features = list(context.feature_indexes)
        self._state = np.zeros(len(context.columns) + 1)
        self._gradient = np.zeros_like(self._state)
        self._statistics = np.zeros(blockmath.STATISTICS)

    def aggregate(self, result: Arrays) -> None:
        """Add a block's gradient and statistics to the epoch's."""
        gradient, statistics = result
        self._gradient += gradient
        self._statistics += statistics

    def commit(self, epoch: int) -> Arrays:
        """Take the epoch's step, unless the epoch had no items."""
        items = self._statistics[0]
        if items > 0:
            if not self._intercept:
                self._gradient[-1] = 0.0
            self.step(self._gradient / items, epoch)
            self._metrics.update(self._statistics[: 1 + len(self.statistics)])
            self._gradient[:] = 0.0
            self._statistics[:] = 0.0
        return (self._state.copy(),)

    def step(self, gradient: np.ndarray, epoch: int) -> None:
        """Change the weights by an epoch's mean gradient, laid out like them; part of `commit`."""
        step = self._learning_rate / math.sqrt(epoch)
        self._state[:-1] *= 1.0 - step * self._l2
        self._state -= step * gradient

    def model(self) -> dict[str, np.ndarray]:
        """`coefficients`, one per feature in the order of the columns, and `intercept`, of length 1."""
        return {"coefficients": self._state[self._features], "intercept": self._state[-1:].copy()}

    def snapshot(self) -> dict[str, np.ndarray]:
        """The weights and the metrics."""
        return {"state": self._state.copy(), **self._metrics.snapshot()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Take both over; ValueError when they are of another shape."""
        copy_into(self._state, snapshot["state"])
        self._metrics.restore(snapshot)

    def metrics(self) -> dict[str, float]:
        """Averages per item over the stream, and lately."""
        return self._metrics.as_dict()


class LinearClassifier(LinearModel):
    """A linear model of two classes: an item is of the upper one when its margin is above 0, its label above 0.5."""

    statistics = ("loss", "accuracy")

    def open(self, context: Context) -> None:
        """Note the labels of the classes too."""
        super().open(context)
        self._classes = context.classes

    def model(self) -> dict[str, np.ndarray]:
        """As every linear model's, and `classes`: the labels for a margin below and above 0."""
        return {**super().model(), "classes": np.array(self._classes)}
