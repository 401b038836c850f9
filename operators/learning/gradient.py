"""Logistic regression by gradient descent, a window an iteration: the convergence set-up of AFX 6.2.

The formulation is MLlib's (spark.apache.org/docs/latest/mllib-optimization.html): the mean gradient of a mini-batch,
steps of learning_rate / sqrt(iteration).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.learning.classes import check_binary
from riprap.operators.learning.dense import add_gradients
from riprap.operators.learning.model_tables import INTERCEPT
from riprap.operators.options import Option, check
from riprap.operators.states.base import Backup, State
from riprap.operators.tables import Arrays, Schema, Table, texts

ITERATION = np.dtype([("epoch", "<i8"), ("items", "<f8"), ("loss", "<f8"), ("accuracy", "<f8"), ("l1_norm", "<f8")])


class WindowGradient(State):
    """The model as it was fed back, and the gradient of the open window.

    Divergence: the Euclidean distance of the model and of the window's mean gradient, together, from the last backup:
    what its loss would change in the step at the end of a window that has as many items as the one before, from each of
    `tasks` tasks.
    """

    window = "hopping"

    model: np.ndarray
    total: np.ndarray
    tallies: np.ndarray
    _saved: np.ndarray
    _saved_model: np.ndarray

    def __init__(self, tasks: int = 1) -> None:
        self._tasks = tasks
        self._size(0)

    def add(self, items: np.ndarray, first: int, label: int) -> int:
        """Items first, first + 1, ... of a float64 matrix; the number of the first that is left."""
        if not len(self.model):
            self._size(items.shape[1] + 1)
        apart = self._model_apart()
        left, self._gradient_apart = add_gradients(
            items,
            first,
            label,
            self.model,
            self._saved,
            self.total,
            self.tallies,
            self._expected,
            self._tasks,
            apart,
            self.theta,
        )
        return left

    def take_model(self, model: np.ndarray) -> None:
        """Use another model from now on. ValueError when it has another shape."""
        if not len(self.model):
            self._size(len(model))
        if model.shape != self.model.shape or model.dtype != np.float64:
            raise ValueError(f"a model of {model.dtype} {model.shape}, not float64 {self.model.shape}")
        self.model = model.copy()

    def clear(self) -> None:
        """Begin a window."""
        self._expected = float(self.tallies[0])
        self.total[:] = self._saved[:] = self.tallies[:] = 0.0
        self._gradient_apart = 0.0
        self._cleared = True

    @property
    def cleared(self) -> bool:
        return self._cleared

    def state_divergence(self) -> float:
        return math.sqrt(self._gradient_apart + self._model_apart())

    def backup_state(self) -> Backup:
        self._mark_saved()
        counts = np.append(self.tallies, self._expected)
        return Backup(True, (self.model.copy(), self.total.copy(), counts))

    def recover_state(self, backup: Backup) -> None:
        model, total, counts = backup.arrays
        if {array.dtype for array in backup.arrays} != {np.dtype(np.float64)} or counts.shape != (4,):
            raise ValueError("a backup of a gradient consists of float64 arrays, the last of four numbers")
        if model.ndim != 1 or model.shape != total.shape:
            raise ValueError(f"a backup of a model of shape {model.shape} with a gradient of shape {total.shape}")
        self._size(len(model))
        self.model[:], self.total[:], self.tallies[:], self._expected = model, total, counts[:3], float(counts[3])
        self._mark_saved()

    def _size(self, parameters: int) -> None:
        self.model, self.total, self._saved, self._saved_model = np.zeros((4, parameters))
        self.tallies = np.zeros(3)
        self._gradient_apart, self._expected, self._cleared = 0.0, 0.0, False

    def _model_apart(self) -> float:
        return float(((self.model - self._saved_model) ** 2).sum())

    def _mark_saved(self) -> None:
        self._saved_model = self.model.copy()
        self._saved = self.total.copy()
        self._gradient_apart, self._cleared = 0.0, False


class LocalGradient(DataflowOperator):
    """Source stage: sums the gradients of its items of a window under the model that was fed back last."""

    only_windows = True

    def __init__(self, label: Annotated[int, Option("The column of the label, counted from 0", low=0)] = 0) -> None:
        check(self, label=label)
        self._label = label
        self.state: WindowGradient = WindowGradient()

    def open(self, context: Context) -> None:
        self.state = WindowGradient(context.parallelism)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Dense items: one float64 matrix, the label (0 or 1) in the column `label`. DataError for other labels."""
        try:
            if first == 0:
                check_binary(items.arrays[0][:, self._label], f"in column {self._label}")
            return self.state.add(np.ascontiguousarray(items.arrays[0], np.float64), first, self._label)
        except (ValueError, TypeError, IndexError) as error:
            raise DataError(
                f"the input cannot be trained on: {error}", "Use shards of a matrix with a label."
            ) from error

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.state.take_model(items.arrays[0])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if self.state.tallies[0]:
            out.send([self.state.total.copy(), self.state.tallies.copy()], 1)
        self.state.clear()


class Descent(State):
    """The global model, the sums of the open windows' gradients, and a row per iteration.

    Divergence: the Euclidean distance of the model and, together with it, of what the open windows' steps would change.
    """

    def __init__(self) -> None:
        self.model, self._saved_model = np.zeros((2, 0))
        self.windows: dict[int, np.ndarray] = {}
        self._saved_steps: dict[int, np.ndarray] = {}
        self.iterations = np.empty(0, ITERATION)
        self._closed = False

    def add(self, epoch: int, total: np.ndarray, tallies: np.ndarray) -> None:
        """A task's gradient of a window. ValueError when it has another shape than the model."""
        if not len(self.model):
            self.model, self._saved_model = np.zeros((2, len(total)))
        if total.shape != self.model.shape or tallies.shape != (3,):
            raise ValueError(f"a gradient of shape {total.shape} for a model of {self.model.shape}")
        self.windows[epoch] = self.windows.get(epoch, np.zeros(len(total) + 3)) + np.concatenate([total, tallies])

    def step(self, epoch: int, rate: float) -> None:
        """Close a window by a step of `rate` along its mean gradient."""
        sums = self.windows.pop(epoch)
        self._saved_steps.pop(epoch, None)
        change, (items, loss, correct) = rate * mean(sums), sums[-3:]
        self.model = self.model - change
        row = (epoch, items, loss / items, correct / items, np.abs(change).sum())
        self.iterations = np.append(self.iterations, np.array([row], ITERATION))
        self._closed = True

    @property
    def cleared(self) -> bool:
        return self._closed

    def state_divergence(self) -> float:
        apart = ((self.model - self._saved_model) ** 2).sum()
        for epoch, sums in self.windows.items():
            apart += ((mean(sums) - self._saved_steps.get(epoch, 0.0)) ** 2).sum()
        return math.sqrt(apart)

    def backup_state(self) -> Backup:
        epochs = np.array(sorted(self.windows), np.int64)
        sums = np.array([self.windows[epoch] for epoch in epochs.tolist()])
        sums = sums.reshape(len(epochs), len(self.model) + 3)
        self._mark_saved()
        return Backup(True, (self.model.copy(), epochs, sums, self.iterations.copy()))

    def recover_state(self, backup: Backup) -> None:
        if [array.dtype for array in backup.arrays] != [np.float64, np.int64, np.float64, ITERATION]:
            raise ValueError("a backup of a descent does not consist of such arrays")
        model, epochs, sums, iterations = backup.arrays
        if model.ndim != 1 or len(sums) != len(epochs) or (len(sums) and sums.shape != (len(epochs), len(model) + 3)):
            raise ValueError(f"a backup of a model of shape {model.shape} with gradients of shape {sums.shape}")
        self.model, self.iterations = model.copy(), iterations.copy()
        self.windows = {int(epoch): row.copy() for epoch, row in zip(epochs, sums, strict=True)}
        self._mark_saved()

    def _mark_saved(self) -> None:
        self._saved_model = self.model.copy()
        self._saved_steps = {epoch: mean(sums) for epoch, sums in self.windows.items()}
        self._closed = False


def mean(sums: np.ndarray) -> np.ndarray:
    """The mean gradient of a window's sums, behind which its items, loss and correct items stand."""
    return sums[:-3] / sums[-3]


class GlobalGradient(DataflowOperator):
    """Destination: sums the gradients of a window, takes a step, and feeds back the model.

    Its items are gradients of whole windows: run it with an L of 0.
    """

    meanings: ClassVar[Mapping[str, str]] = {
        "loss": "mean loss of an item in the last iteration, before its step",
        "accuracy": "share of the items of the last iteration whose class was predicted correctly, before its step",
        "l1_norm": "the sum of the sizes of all changes in the last step",
    }

    def __init__(
        self,
        learning_rate: Annotated[
            float, Option("The size of the first step; later ones are divided by sqrt(iteration)", low=0, above=True)
        ] = 1.0,
    ) -> None:
        check(self, learning_rate=learning_rate)
        self._learning_rate = float(learning_rate)
        self.state: Descent = Descent()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        try:
            self.state.add(items.epoch, *items.arrays)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{items.stage} sends no gradient: {error}", "Give all its tasks the same columns."
            ) from error
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if epoch in self.state.windows:
            self.state.step(epoch, self._learning_rate / math.sqrt(epoch))
        if len(self.state.model):
            out.feed_back([self.state.model.copy()])

    def results(self) -> dict[str, np.ndarray]:
        """The `model` (a weight per column, 0 for the label's, and the intercept), and per iteration with items its
        `epoch`, `items`, mean `loss`, `accuracy` before the step, and the `l1_norm` of the step.
        """
        iterations = self.state.iterations
        return {"model": self.state.model.copy(), **{name: iterations[name].copy() for name in ITERATION.names or ()}}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`model`: a coefficient for each column, the intercept last; `iterations`: a row for each window."""
        weights = results[0]["model"]
        columns = schema.columns if len(schema.columns) + 1 == len(weights) else ()
        names = [*(columns or (f"column{number}" for number in range(len(weights) - 1))), INTERCEPT]
        kept = [number for number, name in enumerate(names) if name != schema.label]
        iterations = {name: results[0][name] for name in ITERATION.names or ()}
        model = {"column": texts(names[number] for number in kept), "coefficient": weights[kept]}
        return {"model": Table(model), "iterations": Table(iterations)}

    def metrics(self) -> dict[str, float]:
        """The metrics of the last iteration."""
        if not len(self.state.iterations):
            return {}
        return {name: float(self.state.iterations[-1][name]) for name in ("loss", "accuracy", "l1_norm")}
