"""The base of the linear models: a processor that sums gradients and a sink that steps against them.

Adapted from MLlib's formulations (spark.apache.org/docs/latest/mllib-linear-methods.html and
mllib-optimization.html): mini-batch gradient descent with steps of learning_rate / sqrt(epoch), L2 by shrinking the
weights. Unlike there, the intercept is not regularised. Without a learning rate the steps are as long as the items
allow (operators/learning/curvature.py).

The state, and so the feedback and the gradient, is one vector: a weight per column of an item, 0 in the label's place,
and the intercept behind them. A block goes through the kernel as it came from the network, its label column included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.operators import options
from riprap.operators.base import Arrays, Context, Processor, Sink
from riprap.operators.learning import blockmath, curvature
from riprap.operators.learning.metrics import Fading, Prequential, meanings
from riprap.operators.learning.model_tables import coefficients_table
from riprap.operators.learning.state import copy_into
from riprap.operators.options import Option
from riprap.operators.tables import Schema, Table

Rate = Annotated[
    float | None,
    Option(
        "The size of the first step; later ones are divided by sqrt(epoch). Null: found from a sample of the items",
        low=0,
        above=True,
    ),
]
L2 = Annotated[float, Option("The weight of the regulariser l2 / 2 * |weights|^2; the intercept is left out", low=0)]
Intercept = Annotated[bool, Option("Learn an intercept; else it stays 0")]


class LinearGradient(Processor):
    """Results are (gradient of the summed loss, (items, loss, correct)), under the last committed weights."""

    loss: ClassVar[int]
    """One of the losses of `riprap.operators.learning.blockmath`."""

    @property
    def tells_classes(self) -> bool:  # type: ignore[override]
        """True for all losses except that of regression."""
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
    """Averages an epoch's gradients and takes one step."""

    statistics: ClassVar[tuple[str, ...]]
    """Names of the averages of the processors' statistics, as far as they mean something for the loss."""
    curvature: ClassVar[float]
    """The largest second derivative of the loss of an item, by its margin or prediction."""
    plain_rate: ClassVar[float] = 1.0
    """The learning rate where neither an option nor a sample of the items tells one."""

    def __init__(
        self, *, learning_rate: Rate = None, l2: L2 = 0.0, intercept: Intercept = True, fading: Fading = 0.9
    ) -> None:
        options.check(self, learning_rate=learning_rate, l2=l2, intercept=intercept, fading=fading)
        self._learning_rate = learning_rate
        self._l2 = float(l2)
        self._intercept = intercept
        self._metrics = Prequential(self.statistics, fading)

    @property
    def wants_moments(self) -> bool:  # type: ignore[override]
        """True when no learning rate is given."""
        return self._learning_rate is None

    def open(self, context: Context) -> None:
        """Start from weights 0, like the processors."""
        options.required_label(context)
        self._features = list(context.feature_indexes)
        self._prepare_steps(context)
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
        if self._learning_rate is None and self._inverse is not None:
            self._whole_step(gradient, epoch)
            return
        step = (self._learning_rate or self.plain_rate) / math.sqrt(epoch)
        self._state[:-1] *= 1.0 - step * self._l2
        self._state -= step * gradient

    def _prepare_steps(self, context: Context) -> None:
        """Invert the largest curvature of the loss by the weights that learn, where the items are known by a sample."""
        self._inverse = None
        if context.moments is None:
            return
        places = [*self._features, -1]
        kept = len(places) if self._intercept else len(places) - 1
        self._learning, moments = places[:kept], context.moments[(slice(kept),) * context.moments.ndim]
        roots = np.sqrt(moments if moments.ndim == 1 else moments.diagonal())
        self._roots = np.where(np.isinf(roots), 0.0, roots)  # a feature that is the same in all rows: its weight stays
        self._inverse = curvature.inverse(moments, self._l2, self.curvature, self._intercept)

    def _whole_step(self, gradient: np.ndarray, epoch: int) -> None:
        """A step by the inverse. No mean gradient exceeds the residual times a feature's root mean square (Cauchy and
        Schwarz): one that does met items that the sample lacked, and is cut."""
        assert self._inverse is not None
        items, bound = self._statistics[0], self._residual() * self._roots
        along = np.clip(gradient[self._learning], -bound, bound)
        regularised = len(self._features)
        along[:regularised] += self._l2 * self._state[self._features]
        size = curvature.step_size(items, len(self._learning), epoch)
        self._state[self._learning] -= size * curvature.times(self._inverse, along)

    def _residual(self) -> float:
        """A bound of the root mean square of the loss's derivatives by the margin, over the epoch's items."""
        return 1.0

    def model(self) -> dict[str, np.ndarray]:
        """`coefficients`, one per feature in the order of the columns, and `intercept`, of length 1."""
        return {"coefficients": self._state[self._features], "intercept": self._state[-1:].copy()}

    @classmethod
    def tables(cls, results: Sequence[Mapping[str, np.ndarray]], schema: Schema) -> dict[str, Table]:
        """`model`: the coefficient of each column, and the intercept."""
        return {"model": coefficients_table(results, schema)}

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
    meanings = meanings("loss", "accuracy")
    curvature = 0.25

    def open(self, context: Context) -> None:
        """Note the labels of the classes too."""
        super().open(context)
        self._classes = context.classes

    def model(self) -> dict[str, np.ndarray]:
        """As every linear model's, and `classes`: the labels for a margin below and above 0."""
        return {**super().model(), "classes": np.array(self._classes)}
