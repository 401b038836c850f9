"""A network with a fixed random hidden layer, whose output layer is trained: it learns what no linear model can.

Rahimi and Recht: Random Features for Large-Scale Kernel Machines, NIPS 2007; the same with other activations is the
extreme learning machine of Huang, Zhu and Siew, Neurocomputing 70 (2006). The output layer is logistic regression.

Its training can run under hybrid coded computation, for what a processor needs of an item is linear in it: the item
times the fixed hidden weights, and the label. The output layer's gradient follows from these, at the sink as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import options
from riprap.operators.base import Arrays, Context
from riprap.operators.learning import blockmath, logistic_regression
from riprap.operators.learning.hidden_layer import ACTIVATIONS, HiddenLayer
from riprap.operators.learning.linear import L2, Intercept
from riprap.operators.learning.metrics import Fading
from riprap.operators.learning.model_tables import network_tables
from riprap.operators.learning.prediction import on_columns
from riprap.operators.learning.state import copy_into
from riprap.operators.options import Option
from riprap.operators.tables import Schema, Table

Rate = Annotated[
    float,
    Option("The size of a weight's first step; later ones are divided by its gradients' norm", low=0, above=True),
]


class Gradient(logistic_regression.Gradient):
    """The processor of a network with a random hidden layer: gradients of its output layer.

    The hidden layer is drawn from the job's seed.
    """

    def __init__(
        self,
        *,
        hidden: Annotated[int, Option("The units of the hidden layer", unit="units", low=1)] = 64,
        activation: Annotated[str, Option("What follows a unit's inner product", choices=tuple(ACTIVATIONS))] = "relu",
        scale: Annotated[
            float,
            Option("The standard deviation of a unit's input, where items are standardised", low=0, above=True),
        ] = 2.0,
    ) -> None:
        options.check(self, hidden=hidden, activation=activation, scale=scale)
        self._hidden, self._activation, self._scale = hidden, activation, float(scale)

    def open(self, context: Context) -> None:
        """Draw the hidden layer, start from output weights 0. ConfigError when items have no label or no features."""
        options.features_or_error(context)
        self.layer = self._draw(context)
        self._map = on_columns(self.layer.weights, context, label=True)
        self._classes = context.classes
        super().open(self.hidden_context)

    @property
    def hidden_context(self) -> Context:
        """The context of the output layer: a column per hidden unit, and the label last."""
        columns = (*(f"hidden{unit}" for unit in range(self._hidden)), "label")
        return Context(columns, "label", classes=self._classes)

    def _draw(self, context: Context) -> HiddenLayer:
        generator = np.random.default_rng(context.seed)
        weights = generator.standard_normal((context.features, self._hidden)) * self._scale / np.sqrt(context.features)
        return HiddenLayer(weights, generator.standard_normal(self._hidden) * self._scale, self._activation)

    def process_data(self, items: np.ndarray) -> Arrays:
        """Gradient and statistics of a block; ValueError when it has other columns than the context."""
        return self.process_nonlinear(self.process_linear(items), items)

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        """(rows, hidden + 1): the items times the hidden weights, and the label."""
        return blockmath.linear_map(items, self._map)

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        """The same from the linear part.

        Outputs are divided by sqrt(hidden), so that good learning rates do not depend on how many there are.
        """
        outputs = np.empty((len(linear), self._hidden + 1))
        outputs[:, :-1] = self.layer.activate(linear[:, :-1]) / np.sqrt(self._hidden)
        outputs[:, -1] = linear[:, -1]
        return super().process_data(outputs)


class Model(logistic_regression.Model):
    """The sink of such a network: a step of its output layer per epoch, of a size of its own for each weight.

    Hidden outputs are of very different sizes and depend on one another, so that one size for all learns slowly. It is
    learning_rate / sqrt(the sum of the weight's squared gradients so far): Duchi, Hazan and Singer, Adaptive
    Subgradient Methods, JMLR 12 (2011).
    """

    def __init__(
        self, *, learning_rate: Rate = 0.3, l2: L2 = 0.0, intercept: Intercept = True, fading: Fading = 0.9
    ) -> None:
        super().__init__(learning_rate=learning_rate, l2=l2, intercept=intercept, fading=fading)
        self._rate = float(learning_rate)

    def open(self, context: Context) -> None:
        """Start from output weights 0; ConfigError when the processors have no hidden layer."""
        if not isinstance(self.processor, Gradient):
            raise ConfigError(
                f"this Model needs random_features:Gradient upstream, not {type(self.processor).__name__}",
                "Correct the operator of the stage before the sink.",
            )
        self._layer = self.processor.layer
        super().open(self.processor.hidden_context)
        self._squares = np.zeros_like(self._state)

    def step(self, gradient: np.ndarray, epoch: int) -> None:
        """Change the weights by an epoch's mean gradient; a weight that never had one stays."""
        self._squares += np.square(gradient)
        sizes = self._rate / np.sqrt(np.where(self._squares > 0.0, self._squares, 1.0))
        self._state[:-1] *= 1.0 - sizes[:-1] * self._l2
        self._state -= sizes * gradient

    def snapshot(self) -> dict[str, np.ndarray]:
        """The output layer's weights, the sums of squared gradients, and the metrics."""
        return {**super().snapshot(), "squares": self._squares.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Take all of that over; ValueError when it is of another shape."""
        super().restore(snapshot)
        copy_into(self._squares, snapshot["squares"])

    @classmethod
    def tables(cls, results: Sequence[Mapping[str, np.ndarray]], schema: Schema) -> dict[str, Table]:
        """`model`: the layers; `hidden`: the weights of each unit; `units`: of the output layer."""
        return network_tables(results, schema)

    def model(self) -> dict[str, np.ndarray]:
        """The hidden layer's arrays (see operators/learning/hidden_layer.py), and the output's as of linear models."""
        output = super().model()
        output["coefficients"] /= np.sqrt(len(output["coefficients"]))
        return {**self._layer.arrays(), **output}
