"""Prediction with linear models, one or many at once: the inner product with an item is linear, the rest is not.

Logistic regression is Figure 4 of StreamLEC; prediction with many models on one stream is its Exp#4.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import options
from riprap.operators.base import Context
from riprap.operators.learning import blockmath
from riprap.operators.learning.classes import CLASSES
from riprap.operators.learning.prediction import Prediction
from riprap.operators.learning.trained import Trained, trained
from riprap.operators.options import Option

Drawn = Annotated[
    int | None,
    Option("In place of a model: so many of them, drawn from the job's seed, to measure with", unit="models", low=1),
]


def _linear(model: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model itself; ConfigError unless it is linear, or a matrix of such ones, of two classes if it has any."""
    if "hidden_weights" in model:
        raise ConfigError("the model is a network, and no linear one", "Predict by network_prediction:Network.")
    shape, classes = model["coefficients"].shape, np.size(model.get("classes", CLASSES))
    if len(shape) > 2 or classes != len(CLASSES):
        raise ConfigError(
            f"a model has coefficients of shape {shape} and {classes} classes",
            "Give a row of coefficients, or a matrix with a model a row, and two classes if any.",
        )
    return model


class LinearPrediction(Prediction):
    """One column of predictions per model. Linear part: coefficients . item, per model; the intercept comes after.

    `model` may be a list of models, and its `coefficients` a matrix with a model a row.
    """

    def __init__(self, *, model: Trained = None, models: Drawn = None) -> None:
        options.check(self, model=model, models=models)
        if (model is None) == (models is None):
            raise ConfigError(
                "the processor needs either a model to predict with, or a number of models to draw",
                "Give the stage the option model (a path or arrays) or the option models (a number), one of the two.",
            )
        self._given = model if isinstance(model, list) else [model]
        self._drawn = models

    def linear_weights(self, context: Context) -> np.ndarray:
        """A column of coefficients per model."""
        if self._drawn is not None:
            return self._draw(context, self._drawn)
        models = [_linear(trained(model, "coefficients", "intercept")) for model in self._given]
        rows = [np.atleast_2d(model["coefficients"]) for model in models]
        intercepts = [model["intercept"].ravel() for model in models]
        widths, wrong = (
            {row.shape[1] for row in rows},
            [len(b) for b, row in zip(intercepts, rows) if len(b) != len(row)],
        )
        if len(widths) != 1 or wrong:
            raise ConfigError(
                f"the models have {sorted(widths)} features, and {wrong or 'enough'} intercepts",
                "Name models of one data set, each with one intercept.",
            )
        self._intercepts = np.concatenate(intercepts)
        classes = [np.tile(model.get("classes", CLASSES), (len(row), 1)) for model, row in zip(models, rows)]
        self._lower, self._upper = np.concatenate(classes).T
        return np.concatenate(rows).T

    def _draw(self, context: Context, count: int) -> np.ndarray:
        generator = np.random.default_rng(context.seed)
        self._intercepts = generator.standard_normal(count)
        self._lower, self._upper = np.tile(CLASSES, (count, 1)).T
        return generator.standard_normal((context.features, count)) / np.sqrt(context.features)

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Margins, that is the inner product and the intercept."""
        margins = linear + self._intercepts
        return margins, margins


class ClassPrediction(LinearPrediction):
    """A linear model of two classes, class 1 above margin 0."""

    measure = "accuracy"

    def __init__(
        self,
        *,
        model: Trained = None,
        models: Drawn = None,
        classes: Annotated[bool, Option("Predict the class's label, not a score")] = False,
    ) -> None:
        super().__init__(model=model, models=models)
        options.check(self, classes=classes)
        self._classes = classes

    def score(self, margins: np.ndarray) -> np.ndarray:
        """The prediction where labels are not asked for."""
        raise NotImplementedError

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores or classes."""
        margins, _ = super().predict(linear)
        positive = margins > 0.0
        return np.where(positive, self._upper, self._lower) if self._classes else self.score(margins), positive


class LogisticRegression(ClassPrediction):
    """Predicts the probability of the upper class by a logistic regression."""

    def score(self, margins: np.ndarray) -> np.ndarray:
        """1 / (1 + exp(-margin))."""
        return blockmath.logistic(margins)


class SupportVectorMachine(ClassPrediction):
    """Predicts the margin by a linear SVM."""

    def score(self, margins: np.ndarray) -> np.ndarray:
        """The margin itself."""
        return margins


class LinearRegression(LinearPrediction):
    """Predicts the value by a linear regression."""

    measure = "mse"
    is_linear = True
    """True, except for the intercept, which the sink adds."""
