"""The base of predicting jobs: a processor of a linear map and a rest, and a sink that writes predictions.

After StreamLEC III-D (Algorithm 4, Figure 4): processors send the linear part of their work, with which the sink can do
what a lost processor would have done. A predicting topology has no feedback edge: nothing is learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import options
from riprap.operators.base import Arrays, Context, Processor, Sink
from riprap.operators.learning import blockmath
from riprap.operators.learning.metrics import Fading, Prequential


def on_columns(weights: np.ndarray, context: Context, label: bool) -> np.ndarray:
    """The map from whole items (rows of all columns) that has these weights (features, outputs) on the features.

    With `label` one more output hands the label on, which is linear too. Shape (columns, outputs [+ 1]).
    """
    outputs = weights.shape[1]
    full = np.zeros((len(context.columns), outputs + label))
    full[list(context.feature_indexes), :outputs] = weights
    if label:
        full[options.required_label(context), outputs] = 1.0
    return full


class Prediction(Processor):
    """Results are (predictions (rows, columns), statistics).

    A subclass says what the linear part is, in `linear_weights`, and what is predicted from it, in `predict`. Where the
    items have a label and predictions can be judged by it (`measure`), the linear part hands it on, and the statistics
    are (items, the sum of the measure), else (items,). Results are the same bits for an item in whatever block, and
    whoever computes them.
    """

    measure: str = ""
    """The measure by which a prediction is judged: `accuracy`, `mse` (mean squared error), or nothing."""

    @property
    def tells_classes(self) -> bool:  # type: ignore[override]
        """True when its predictions are judged as classes are."""
        return self.measure == "accuracy"

    def open(self, context: Context) -> None:
        """Prepare the linear map. ConfigError or DataError when the model is missing or does not fit the items."""
        features = options.features_or_error(context)
        weights = self.linear_weights(context)
        if weights.shape[0] != features:
            raise ConfigError(
                f"the model has {weights.shape[0]} features, the items have {features}",
                "Predict on the data set that the model was trained on.",
            )
        if context.label is None:
            self.measure = ""
        self._outputs, self._label = weights.shape[1], context.label_index
        self._map = on_columns(weights, context, label=bool(self.measure))

    def linear_weights(self, context: Context) -> np.ndarray:
        """The weights (features, outputs) of the linear part; called once, by `open`."""
        raise NotImplementedError

    def predict(self, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions (rows, columns) from the linear part (rows, outputs), and what the label is compared with.

        The latter, of the same shape: 1 where class 1 is predicted for `accuracy`, the value for `mse`. `linear` must
        stay as it is. An item's predictions must be the same bits in whatever block: no product of BLAS.
        """
        raise NotImplementedError

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        """(rows, outputs), and the label where it is needed."""
        linear = blockmath.linear_map(items, self._map)
        if self._label is not None and not (are_finite := np.isfinite(linear[:, 0])).all():
            self._part_from_labels(linear, items, ~are_finite, self._label)
        return linear

    def _part_from_labels(self, linear: np.ndarray, items: np.ndarray, rows: np.ndarray, label: int) -> None:
        """Have no label of these rows that is NaN or infinite ruin predictions, nor such a feature the label: 0 times
        it is NaN."""
        unlabelled = np.array(items[rows], np.float64)
        unlabelled[:, label] = 0.0
        linear[rows] = blockmath.linear_map(unlabelled, self._map)
        if self.measure:
            linear[rows, self._outputs] = items[rows, label]

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        """Predictions and statistics; the items are not needed."""
        predictions, guesses = self.predict(linear[:, : self._outputs])
        if not self.measure:
            return predictions, np.array([float(len(linear))])
        labels = linear[:, self._outputs :]
        if self.measure == "accuracy":
            judged = (guesses == (labels > 0.5)).astype(np.float64)
        else:
            judged = np.square(guesses - labels)
        return predictions, np.array([float(len(linear)), judged.sum() / judged.shape[1]])

    def process_feedback(self, feedback: Arrays) -> None:
        """Nothing: a prediction leaves no trace."""


class Predictions(Sink):
    """Collects the rows that its processors predict, an epoch at a time, for the job's output file.

    With several models their measures are averaged.
    """

    meanings: ClassVar[Mapping[str, str]] = {
        "items": "items predicted",
        "accuracy": "share of the items whose class was predicted correctly, where they have a label of two classes",
        "mse": "mean squared difference between prediction and label, where values are predicted",
        "recent_accuracy": "the same as accuracy, of late: old epochs fade",
        "recent_mse": "the same as mse, of late: old epochs fade",
    }

    combines: ClassVar[Mapping[str, str]] = {
        "items": "sum", **dict.fromkeys(("accuracy", "mse", "recent_accuracy", "recent_mse"), "mean"),
    }  # fmt: skip

    def __init__(self, *, fading: Fading = 0.9) -> None:
        options.check(self, fading=fading)
        self._fading = fading

    def open(self, context: Context) -> None:
        """Start with no rows; ConfigError when the processors do not predict."""
        if not isinstance(self.processor, Prediction):
            raise ConfigError(
                f"the sink Predictions needs a Prediction upstream, not {type(self.processor).__name__}",
                "Correct the operator of the stage before the sink.",
            )
        measure = self.processor.measure
        self._metrics = Prequential((measure,) if measure else (), self._fading)
        self._statistics = np.zeros(2 if measure else 1)
        self._blocks: list[np.ndarray] = []
        self._rows: np.ndarray | None = None

    def aggregate(self, result: Arrays) -> None:
        """Keep a block's predictions."""
        predictions, statistics = result
        self._blocks.append(np.array(predictions))
        self._statistics += statistics

    def commit(self, epoch: int) -> Arrays:
        """End the epoch; there is no state to be fed back."""
        self._rows = np.concatenate(self._blocks) if self._blocks else None
        self._blocks.clear()
        self._metrics.update(self._statistics)
        self._statistics[:] = 0.0
        return ()

    def outputs(self) -> np.ndarray | None:
        """The epoch's predictions, an item a row, in the order of the results; kept no longer than until this call."""
        rows, self._rows = self._rows, None
        return rows

    @classmethod
    def output_columns(cls, count: int) -> list[str]:
        """The names of the predictions, by each model where there are several."""
        return ["prediction"] if count == 1 else [f"prediction{number}" for number in range(count)]

    def model(self) -> dict[str, np.ndarray]:
        """Nothing: the model was there before."""
        return {}

    def snapshot(self) -> dict[str, np.ndarray]:
        """The metrics; an epoch's rows are `outputs`, not state."""
        return self._metrics.snapshot()

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Take the metrics over; ValueError when they are of another shape."""
        self._metrics.restore(snapshot)

    def metrics(self) -> dict[str, float]:
        """`items` predicted, and the measure's average over the stream and lately, where there is one."""
        return {"items": float(self._metrics.items), **self._metrics.as_dict()}
