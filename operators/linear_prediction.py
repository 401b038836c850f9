"""Prediction with linear models, one or many at once: the inner product with an item is linear, what follows is not.

Logistic regression is Figure 4 of StreamLEC; prediction with many models on one stream is its Exp#4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codec.errors import ConfigError
from operators import blockmath, options
from operators.base import Context
from operators.classes import CLASSES
from operators.prediction import Prediction
from operators.trained import trained


class LinearPrediction(Prediction):
    """One column of predictions per model. Linear part: coefficients . item, per model; the intercept comes after.

    `model`: what a linear model of this package left (see operators.trained), or a list of such; its `coefficients` may
    be a matrix with a model a row. `models`: in its place, so many models drawn from the job's seed, to measure with.
    """

    def __init__(self, *, model: Any = None, models: int | None = None) -> None:
        if (model is None) == (models is None):
            raise ConfigError(
                "the processor needs either a model to predict with, or a number of models to draw",
                "Give the stage the option model (a path or arrays) or the option models (a number), one of the two.",
            )
        self._given = model if isinstance(model, list) else [model]
        self._drawn = None if models is None else options.whole_number("models", models, 1)

    def linear_weights(self, context: Context) -> np.ndarray:
        """A column of coefficients per model."""
        if self._drawn is not None:
            return self._draw(context, self._drawn)
        models = [trained(model, "coefficients", "intercept") for model in self._given]
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
    """A linear model of two classes, class 1 above margin 0. `classes`: predict the class's label, not a score."""

    measure = "accuracy"

    def __init__(self, *, model: Any = None, models: int | None = None, classes: bool = False) -> None:
        super().__init__(model=model, models=models)
        self._classes = options.switch("classes", classes)

    def score(self, margins: np.ndarray) -> np.ndarray:
        """What is predicted unless `classes`."""
        raise NotImplementedError

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores or classes."""
        margins, _ = super().predict(linear)
        positive = margins > 0.0
        return np.where(positive, self._upper, self._lower) if self._classes else self.score(margins), positive


class LogisticRegression(ClassPrediction):
    """Predicts the probability of class 1."""

    def score(self, margins: np.ndarray) -> np.ndarray:
        """1 / (1 + exp(-margin))."""
        return blockmath.logistic(margins)


class SupportVectorMachine(ClassPrediction):
    """Predicts the margin."""

    def score(self, margins: np.ndarray) -> np.ndarray:
        """The margin itself."""
        return margins


class LinearRegression(LinearPrediction):
    """Predicts the value."""

    measure = "mse"
    is_linear = True
    """But for the intercept, which the sink adds."""
