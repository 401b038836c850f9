"""What every operator of the package must do; a new one gets these tests by standing in PAIRS, SOURCES or BASES."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riprap.operators
from riprap.codec import header
from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation
from riprap.operators import base, per_item
from riprap.operators.base import Context, Operator, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.inputs import shard_source, synthetic
from riprap.operators.learning import (
    kmeans,
    kmeans_prediction,
    linear,
    linear_prediction,
    linear_regression,
    logistic_regression,
    network_prediction,
    prediction,
    random_features,
    svm,
)
from riprap.operators.learning.curvature import second_moments
from riprap.operators.learning.prediction import Predictions
from riprap.operators.trial import processor as processor_laws
from riprap.operators.trial import sink as sink_laws
from riprap.operators.trial import source as source_laws
from riprap.operators.trial.arrays import received
from riprap.operators.trial.law import try_laws
from riprap.operators.trial.subjects import opened_source
from riprap.prep_spark.shards import write_manifest


@dataclass(frozen=True)
class Pair:
    """A processor and its sink, and how to make them."""

    processor: type[Processor]
    sink: type[Sink]
    processor_options: dict[str, Any] = field(default_factory=dict)
    sink_options: dict[str, Any] = field(default_factory=dict)
    label: str | None = "c0"
    sampled: bool = False
    """Whether the sink learns of a sample of the items when it is opened."""

    def open(self) -> tuple[Processor, Sink]:
        """Fresh ones."""
        context = Context(tuple(f"c{i}" for i in range(COLUMNS)), self.label, seed=7)
        if self.sampled:
            context = replace(context, moments=second_moments([block(200)], context.feature_indexes))
        processor, sink = self.processor(**self.processor_options), self.sink(**self.sink_options)
        processor.open(context)
        sink.processor = processor
        sink.open(context)
        return processor, sink


COLUMNS = 7
FEATURES = COLUMNS - 1
SIZES = (1, 2, 3, 63, 64, 65, 257)
LINEAR_MODEL = {"coefficients": np.linspace(-1, 1, FEATURES).tolist(), "intercept": [-0.1]}
NETWORK = {
    "hidden_weights": np.sin(np.arange(FEATURES * 5)).reshape(FEATURES, 5).tolist(),
    "hidden_intercept": [0.1, 0.2, -0.3, 0.4, 0.0],
    "activation": [1],
    "coefficients": [1, -1, 2, 0.5, -0.5],
    "intercept": [0.25],
}
PAIRS = {
    "linear_regression": Pair(linear_regression.Gradient, linear_regression.Model),
    "logistic_regression": Pair(logistic_regression.Gradient, logistic_regression.Model, sink_options={"l2": 0.01}),
    "svm": Pair(svm.Gradient, svm.Model, label="c3"),
    "sampled_regression": Pair(linear_regression.Gradient, linear_regression.Model, sampled=True),
    "sampled_svm": Pair(svm.Gradient, svm.Model, sink_options={"l2": 0.01}, label="c3", sampled=True),
    "kmeans": Pair(kmeans.Assignment, kmeans.Model, {"k": 4}, {"decay": 0.9}, label=None),
    "random_features": Pair(random_features.Gradient, random_features.Model, {"hidden": 5}, label="c3"),
    "logistic_prediction": Pair(linear_prediction.LogisticRegression, Predictions, {"model": LINEAR_MODEL}),
    "svm_prediction": Pair(linear_prediction.SupportVectorMachine, Predictions, {"models": 6}, label="c3"),
    "regression_prediction": Pair(linear_prediction.LinearRegression, Predictions, {"models": 3}),
    "unlabelled_prediction": Pair(
        linear_prediction.LogisticRegression, Predictions, {"models": 1, "classes": True}, label=None
    ),
    "kmeans_prediction": Pair(
        kmeans_prediction.NearestCentre, Predictions, {"model": {"centres": np.eye(4, FEATURES).tolist()}}
    ),
    "network_prediction": Pair(network_prediction.Network, Predictions, {"model": NETWORK | {"classes": [0, 1]}}),
}
SOURCES: dict[type[Source], dict[str, Any]] = {
    shard_source.ShardSource: {},
    synthetic.Classification: {"items": 170, "features": 5, "distinct": 70},
}
BASES = {
    *(base.Operator, base.Source, base.Processor, base.Sink),
    *(per_item.ItemSource, per_item.ItemProcessor),
    *(linear.LinearGradient, linear.LinearModel, linear.LinearClassifier),
    *(prediction.Prediction, linear_prediction.LinearPrediction, linear_prediction.ClassPrediction),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return PAIRS[request.param]


def block(size: int, seed: int = 0) -> np.ndarray:
    """Items with every column fit to be a label."""
    return np.random.default_rng([size, seed]).integers(0, 2, size=(size, COLUMNS)) + np.linspace(0, 0.4, COLUMNS)


def trained(pair: Pair, epochs: int = 2) -> tuple[Processor, Sink]:
    """A pair with a state that is not the initial one."""
    processor, sink = pair.open()
    for epoch in range(1, epochs + 1):
        sink.aggregate(processor.process_data(block(50, epoch)))
        processor.process_feedback(sink.commit(epoch))
    return processor, sink


def bits(arrays: Sequence[np.ndarray]) -> list[bytes]:
    """The arrays' bytes."""
    return [array.tobytes() for array in arrays]


def test_every_class_of_the_package_is_registered() -> None:
    found = set()
    for module in pkgutil.walk_packages(riprap.operators.__path__, "riprap.operators."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(value, Operator) and not issubclass(value, DataflowOperator):
                found.add(value)
    assert found == BASES | SOURCES.keys() | {kind for pair in PAIRS.values() for kind in (pair.processor, pair.sink)}


def test_every_law_of_processors_and_sinks_holds(pair: Pair) -> None:
    """The first epoch is without items."""
    epochs = [[], *(np.array_split(block(90, epoch), 3) for epoch in range(1, 6))]
    of_sink = sink_laws.SinkCase(lambda: (pair.open()[0], pair.open()[1]), epochs)
    feedbacks = sink_laws.fed_back(of_sink)
    of_processor = processor_laws.ProcessorCase(
        lambda: pair.open()[0], [block(size) for size in SIZES[::-1]], feedbacks
    )
    outcomes = [*try_laws("processor", of_processor, processor_laws.LAWS), *try_laws("sink", of_sink, sink_laws.LAWS)]
    assert not [str(outcome.complaint) for outcome in outcomes if outcome.complaint]
    left_out = {outcome.not_tried for outcome in outcomes if outcome.not_tried}
    assert left_out <= {"it defines no process_linear"} and bool(left_out) != of_processor.processor.is_hybrid


def test_a_restored_sink_is_the_one_that_was_saved(pair: Pair) -> None:
    _, old = trained(pair, 3)
    _, fresh = pair.open()
    fresh.restore({name: received(array) for name, array in old.snapshot().items()})
    assert bits(list(fresh.snapshot().values())) == bits(list(old.snapshot().values()))


def test_results_are_new_contiguous_float64_arrays_and_items_stay_as_they_are(pair: Pair) -> None:
    processor, _ = trained(pair)
    items = block(64)
    before = items.copy()
    result = processor.process_data(items)
    expected = bits(result)
    for array in result:
        assert array.dtype == np.float64 and array.flags.c_contiguous
        array[...] = -1.0
    assert items.tobytes() == before.tobytes()
    assert bits(processor.process_data(items)) == expected


def test_feedback_and_results_are_copied(pair: Pair) -> None:
    processor, sink = trained(pair)
    result = [array.copy() for array in processor.process_data(block(50))]
    sink.aggregate(result)
    for array in result:
        array[...] = np.nan
    feedback = [array.copy() for array in sink.commit(3)]
    rows = sink.outputs()
    assert rows is None or np.isfinite(rows).all()
    processor.process_feedback(feedback)
    for array in feedback:
        array[...] = np.nan
    assert all(np.isfinite(array).all() for array in processor.process_data(block(50)))
    for array in sink.commit(4):
        assert np.isfinite(array).all()
        array[...] = np.nan
    for array in sink.model().values():
        assert np.isfinite(array).all()
        array[...] = np.nan
    assert all(np.isfinite(array).all() for array in [*sink.commit(5), *sink.model().values()])


def test_blocks_add_up(pair: Pair) -> None:
    items = block(257)
    (processor, whole), (_, parts) = trained(pair), trained(pair)
    whole.aggregate(processor.process_data(items))
    for part in np.array_split(items, 5):
        parts.aggregate([received(array) for array in processor.process_data(part)])
    for one, other in zip(whole.commit(3), parts.commit(3)):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert whole.metrics() == pytest.approx(parts.metrics(), rel=1e-12)


def test_results_and_feedback_survive_the_wire(pair: Pair) -> None:
    processor, sink = trained(pair)
    for kind, arrays in ((Kind.RESULT, processor.process_data(block(9))), (Kind.FEEDBACK, sink.commit(3))):
        sender = header.Header("job", "processor.0", Incarnation(1), 0)
        packed, frames = header.encode(sender, Block(kind, Epoch(1), items=9, arrays=tuple(arrays)))
        _, back = header.decode(packed, [frame.tobytes() for frame in frames])
        assert bits(back.arrays) == bits(arrays)


def test_an_epoch_without_items_changes_nothing(pair: Pair) -> None:
    processor, sink = trained(pair)
    before, metrics = bits(list(sink.model().values())), sink.metrics()
    sink.aggregate(processor.process_data(block(0)))
    sink.commit(3)
    assert bits(list(sink.model().values())) == before
    assert sink.metrics() == metrics


def test_a_snapshot_is_of_its_own_and_fits_its_options_only(pair: Pair) -> None:
    processor, sink = trained(pair, 3)
    snapshot = sink.snapshot()
    before = bits(list(snapshot.values()))
    sink.aggregate(processor.process_data(block(50)))
    sink.commit(4)
    assert bits(list(snapshot.values())) == before
    _, fresh = pair.open()
    fresh.restore(snapshot)
    for name, array in snapshot.items():
        array[...] = np.nan
        with pytest.raises(ValueError, match="saved state of shape"):
            pair.open()[1].restore({**snapshot, name: np.zeros(len(array) + 1)})
    assert bits(list(fresh.snapshot().values())) == before


def test_model_and_metrics_are_plain(pair: Pair) -> None:
    _, sink = trained(pair)
    assert list(sink.model()) == list(pair.open()[1].model())
    assert all(array.dtype == np.float64 for array in sink.model().values())
    assert sink.metrics() and all(type(value) is float and np.isfinite(value) for value in sink.metrics().values())


def digests() -> dict[str, str]:
    """A hash of results and model of each pair; another process must find the same."""
    found = {}
    for name, pair in PAIRS.items():
        processor, sink = trained(pair, 5)
        parts = [*processor.process_data(block(1000)), *sink.model().values()]
        found[name] = hashlib.sha256(b"".join(bits(parts))).hexdigest()
    return found


def test_another_process_finds_the_same_bits() -> None:
    code = "import json, test_operators; print(json.dumps(test_operators.digests()))"
    here = Path(__file__)
    command = [sys.executable, "-c", code]
    environment = {"PYTHONPATH": f"{here.parent}:{here.parents[2]}", "OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == digests()


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.__name__)
def test_every_law_of_sources_holds(kind: type[Source], tmp_path: Path) -> None:
    np.save(tmp_path / "part-00000.npy", block(100))
    content = (tmp_path / "part-00000.npy").read_bytes()
    shard = {"file": "part-00000.npy", "rows": 100, "bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    write_manifest(str(tmp_path), [shard], {"columns": [f"c{i}" for i in range(COLUMNS)], "label": "c0"})
    for index in range(3):
        context = Context(index=index, parallelism=3, input={"path": str(tmp_path), "repeat": 2, "limit": 170})
        case = source_laws.SourceCase(partial(opened_source, partial(kind, **SOURCES[kind]), context), 170)
        assert not [str(outcome.complaint) for outcome in try_laws("source", case, source_laws.LAWS) if not outcome.ok]
        assert case.count == case.source.items and case.source.read(3, 50).flags.c_contiguous
