"""A hidden layer of a network: a linear map, whose result an intercept and an activation follow.

In a model's arrays it is `hidden_weights` (features, units), `hidden_intercept` (units,) and `activation` (1,), the
index of the function in ACTIVATIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.learning import blockmath


def relu(values: np.ndarray) -> np.ndarray:
    """The values, 0 in place of negative ones; NaN stays NaN."""
    return np.where(values <= 0.0, 0.0, values)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": relu,
    "tanh": blockmath.tanh,
    "logistic": blockmath.logistic,
}
"""By the names that scikit-learn's networks have for them. The order is part of the format of models: append only."""

ARRAYS = ("hidden_weights", "hidden_intercept", "activation")


@dataclass(frozen=True)
class HiddenLayer:
    """Weights (features, units), intercept (units,), and the activation's name."""

    weights: np.ndarray
    intercept: np.ndarray
    activation: str

    @classmethod
    def of(cls, model: Mapping[str, np.ndarray]) -> HiddenLayer:
        """The hidden layer among a model's arrays; ConfigError when they do not fit together."""
        weights, intercept, index = (model[name] for name in ARRAYS)
        if weights.ndim != 2 or intercept.shape != weights.shape[1:]:
            raise ConfigError(
                f"hidden weights of shape {weights.shape} and intercept of shape {intercept.shape} are no layer",
                "The shapes are (features, units) and (units,).",
            )
        if index.size != 1 or index.item() not in range(len(ACTIVATIONS)):
            raise ConfigError(
                f"activation {index} is unknown", f"It is the place among {', '.join(ACTIVATIONS)}, counted from 0."
            )
        return cls(weights, intercept, list(ACTIVATIONS)[int(index.item())])

    def arrays(self) -> dict[str, np.ndarray]:
        """The layer as a part of a model."""
        index = np.array([float(list(ACTIVATIONS).index(self.activation))])
        return dict(zip(ARRAYS, (self.weights.copy(), self.intercept.copy(), index)))

    def activate(self, linear: np.ndarray) -> np.ndarray:
        """The units' outputs from items times weights: a new matrix (rows, units), C-contiguous."""
        return np.ascontiguousarray(ACTIVATIONS[self.activation](linear + self.intercept))
