"""Online logistic regression on sparse items: local models that are averaged (AF Table 3, Experiment 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.inputs.records import unpacked
from riprap.operators.learning.agreed_model import AgreedModel
from riprap.operators.learning.classes import check_binary
from riprap.operators.learning.sgd import PARAMETERS_MAX, SparseModel
from riprap.operators.options import Option, check
from riprap.operators.tables import Arrays, Schema, Table

PARAMETERS = 2**20


Parameters = Annotated[
    int,
    Option(
        "The size of the model: as many as the input has buckets, the same in both stages",
        unit="parameters",
        low=1,
        high=PARAMETERS_MAX,
    ),
]


class LocalModel(DataflowOperator):
    """Source stage, or behind one: trains on its part of the items, one after the other.

    State: the parameters; divergence: Euclidean.
    """

    combines: ClassVar[Mapping[str, str]] = {"tested": "sum", "prediction_rate": "mean"}
    meanings: ClassVar[Mapping[str, str]] = {
        "tested": "items predicted before they were trained on",
        "prediction_rate": "share of them that was predicted correctly",
    }

    def __init__(
        self,
        parameters: Parameters = PARAMETERS,
        eta: Annotated[
            float, Option("The size of the first item's step; that of item t is eta / sqrt(t)", low=0, above=True)
        ] = 0.5,
        report_every: Annotated[
            int, Option("What changed is sent after so many items, and at each punctuation", unit="items", low=1)
        ] = 1000,
        holdout: Annotated[
            int, Option("One item in so many is predicted before it is trained on; 0: none", unit="items", low=0)
        ] = 10,
    ) -> None:
        check(self, parameters=parameters, eta=eta, report_every=report_every, holdout=holdout)
        self._report_every = report_every
        self.state: SparseModel = SparseModel(parameters, float(eta), holdout)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Sparse items: records with `label` (float32), `indexes` (uint32) and `values` (float32)."""
        state, records = self.state, self._records(items)
        if first == 0 and "label" in (records.dtype.names or ()):
            check_binary(records["label"], "of the records")
        while first < items.count:
            stop = min(items.count, first + self._report_every - state.trained % self._report_every)
            try:
                first = state.train(records, first, stop)
            except ValueError as error:
                raise DataError(
                    f"the input cannot be trained on: {error}",
                    "Prepare it with riprap prep kdd12-sparse, or prep table --hash; buckets are the parameters.",
                ) from error
            if state.trained % self._report_every == 0:
                out.send(state.report(), 1)
            if state.exceeded:
                break
        return first

    def _records(self, items: Items) -> np.ndarray:
        try:
            return unpacked(items.arrays)
        except ValueError as error:
            raise DataError(f"the input cannot be trained on: {error}", "Prepare it with riprap prep.") from error

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.state.merge(*items.arrays)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        indexes, values = self.state.report()
        if len(indexes):
            out.send([indexes, values], 1)

    def metrics(self) -> dict[str, float]:
        """Number of items predicted before they were trained on, and the share that was predicted correctly."""
        tested, correct = self.state.tested
        return {"tested": float(tested), "prediction_rate": correct / tested} if tested else {}


class GlobalModel(DataflowOperator):
    """Destination: averages the local models, and feeds back what changed after a report of each, and per window.

    A task that did not report a parameter counts with what was fed back last. State: the parameters, and those of them
    that are to be fed back with what was fed back last; divergence: Euclidean, of the parameters.
    """

    meanings: ClassVar[Mapping[str, str]] = {"l1_norm": "the sum of the sizes of all parameters"}

    def __init__(self, parameters: Parameters = PARAMETERS) -> None:
        check(self, parameters=parameters)
        self.state: AgreedModel = AgreedModel(parameters)

    def open(self, context: Context) -> None:
        self._models = max(sum((context.upstream or {}).values()), 1)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Reports: indexes (uint32) and values of parameters."""
        self.state.add(*self._checked(items), self._models)
        if self.state.reports >= self._models:
            self._feed_back(out)
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if self.state.reports:
            self._feed_back(out)

    def results(self) -> dict[str, np.ndarray]:
        """The global model, as `model`."""
        return {"model": self.state.values.copy()}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`model`: the parameters that are not 0, the largest first. Features are hashed, so they have no names."""
        values = results[0]["model"]
        order = np.argsort(-np.abs(values), kind="stable")[: np.count_nonzero(values)]
        note = f"{len(values):,} parameters in all, those of hashed features; the others are 0"
        return {"model": Table({"parameter": order, "coefficient": values[order]}, note)}

    def metrics(self) -> dict[str, float]:
        return {"l1_norm": float(np.abs(self.state.values).sum())}

    def _feed_back(self, out: Emitter) -> None:
        out.feed_back(self.state.agree())

    def _checked(self, items: Items) -> tuple[np.ndarray, np.ndarray]:
        indexes, values = items.arrays
        if indexes.dtype != np.uint32 or indexes.shape != values.shape or (indexes >= self.state.parameters).any():
            raise ConfigError(
                f"{items.stage} sends no model of {self.state.parameters} parameters", "Use the same parameters."
            )
        return indexes, values
