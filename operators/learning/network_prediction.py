"""Prediction with a network of one hidden layer.

The hidden layer's inner products are linear in an item; its intercepts, the activation and the output layer are not.
"""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.base import Context
from riprap.operators.learning import blockmath
from riprap.operators.learning.hidden_layer import ARRAYS, HiddenLayer
from riprap.operators.learning.prediction import Prediction
from riprap.operators.learning.trained import Trained, trained


class Network(Prediction):
    """Predicts by a network of one hidden layer: the probability of class 1, or a value where it has no `classes`.

    The model is what operators/learning/random_features.py left, or what from_estimator made of scikit-learn's: a
    hidden layer (see operators/learning/hidden_layer.py), and `coefficients` (units,) and `intercept` (1,) of the
    output.
    """

    def __init__(self, *, model: Trained) -> None:
        self._given = model

    def linear_weights(self, context: Context) -> np.ndarray:
        """A column per hidden unit."""
        model = trained(self._given, *ARRAYS, "coefficients", "intercept")
        self._layer = HiddenLayer.of(model)
        units = len(self._layer.intercept)
        if model["coefficients"].size != units or model["intercept"].size != 1:
            raise ConfigError(
                f"coefficients of shape {model['coefficients'].shape} do not fit {units} hidden units",
                "Name a network with one hidden layer and one output.",
            )
        self._coefficients = model["coefficients"].reshape(units, 1)
        self._intercept = float(model["intercept"].item())
        self._tells_classes = "classes" in model
        self.measure = "accuracy" if self._tells_classes else "mse"
        return self._layer.weights

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The output unit's value, through the logistic function when it tells classes."""
        hidden = self._layer.activate(linear)
        output = blockmath.linear_map(hidden, self._coefficients) + self._intercept
        return (blockmath.logistic(output), output > 0.0) if self._tells_classes else (output, output)
