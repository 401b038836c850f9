"""All shipped topologies keep the laws of operators on small input of their kind; what a trial cannot try, it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.configs.document import read_document
from riprap.engine.run.trial import NEVER, Trial, unchecked
from riprap.operators.base import Context
from riprap.operators.learning.logistic_regression import Model
from riprap.operators.trial.law import RESTS, Outcome
from riprap.prep_spark import kdd12_sparse, packet_records
from riprap.prep_spark.shards import record_fields, write_manifest, write_npy

REPO = Path(__file__).parents[3]
EXAMPLES = sorted((REPO / "configs").glob("*.yaml"))
ITEMS, ROWS = 600, 900
BOOK = REPO / "tests/data/books/Doyle_Hound_1902.txt.gz"
HIGGS, KDD12 = 28, 11
"""How many features the data sets have."""

MODELS: dict[str, dict[str, Any]] = {
    "logistic_prediction_higgs": {"coefficients": [0.5] * HIGGS, "intercept": [-0.1]},
    "kmeans_assignment_higgs": {"centres": np.eye(4, HIGGS).tolist()},
    "network_prediction_higgs": {
        "hidden_weights": np.sin(np.arange(HIGGS * 3.0)).reshape(HIGGS, 3).tolist(),
        "hidden_intercept": [0.1, 0.2, 0.3],
        "activation": [1],
        "coefficients": [1.0, -1.0, 2.0],
        "intercept": [0.25],
        "classes": [0, 1],
    },
}
SMALLER = {
    "many_models": ["stages.source.options.distinct=1000"],
    "online_logistic": [f"stages.{stage}.options.parameters=1000" for stage in ("train", "average")],
}
"""What makes a trial quick."""

RNG = np.random.default_rng(8)


def write(directory: Path, rows: np.ndarray, fields: dict[str, Any]) -> Path:
    """One shard of these rows."""
    directory.mkdir()
    entry = write_npy(str(directory), "part-00000.npy", rows.dtype, rows.shape, [rows])
    write_manifest(str(directory), [entry | {"rows": len(rows)}], fields)
    return directory


def matrix(directory: Path, features: int) -> Path:
    """Rows whose label the features explain."""
    found = RNG.random((ROWS, features))
    label = (found[:, 0] > found[:, 1]).astype(float)
    columns = ["label", *(f"x{number}" for number in range(features))]
    return write(directory, np.column_stack([label, found]), {"columns": columns, "label": "label"})


def packets(directory: Path) -> Path:
    """Packets of few flows, and so of few pairs of address and second."""
    rows = np.zeros(ROWS, packet_records.DTYPE)
    rows["time_ns"] = np.sort(RNG.integers(0, 5_000_000_000, ROWS))
    rows["flow"], rows["payload"] = RNG.integers(0, 20, ROWS), RNG.integers(0, 1500, ROWS)
    rows["destination"][:, 0] = RNG.integers(0, 3, ROWS)
    return write(directory, rows, record_fields(rows.dtype))


def clicks(directory: Path) -> Path:
    """Sparse items of few features."""
    rows = np.zeros(ROWS, kdd12_sparse.DTYPE)
    rows["label"], rows["values"] = RNG.integers(0, 2, ROWS), 1.0
    rows["indexes"] = RNG.integers(0, 500, rows["indexes"].shape)
    return write(directory, rows, record_fields(rows.dtype))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the last folder of the path that a topology names."""
    folder = tmp_path_factory.mktemp("inputs")
    higgs, kdd12, stream = matrix(folder / "higgs", HIGGS), matrix(folder / "kdd12", KDD12), packets(folder / "packets")
    kinds: dict[str, Path] = {
        "higgs": higgs,
        "kdd12": kdd12,
        "packets": stream,
        "cities": stream,
        "clicks": clicks(folder / "clicks"),
    }
    lines = {
        "edges": "{0} {1}",
        "requests": "{0},{1},/path/{1}",
        "locations": "{0},{1},{2}",
        "reports": "{0},{1}",
    }
    for name, line in lines.items():
        path = kinds[name] = folder / f"{name}.txt"
        path.write_text("".join(line.format(i, i * i % 7, i % 60) + "\n" for i in range(ROWS)))
    return {**kinds, "words": BOOK, "words.txt": BOOK}


def overrides(path: Path, inputs: dict[str, Path]) -> list[str]:
    """Has the topology read small input, and a model that is there."""
    values = read_document(path).values
    places = {"input.path": values.get("input")}
    places |= {f"stages.{name}.input.path": stage.get("input") for name, stage in values["stages"].items()}
    sets = [f"{place}={inputs[Path(given['path']).parts[1]]}" for place, given in places.items() if given]
    sets += SMALLER.get(path.stem.removesuffix("_staged"), [])
    if path.stem in MODELS:
        sets.append(f"stages.processor.options.model={MODELS[path.stem]}")
    return sets


def complaints(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{outcome.subject}: {outcome.law}: {outcome.complaint}" for outcome in outcomes if outcome.complaint]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_shipped_topologies_keep_all_laws(path: Path, inputs: dict[str, Path]) -> None:
    trial = Trial.of(str(path), overrides(path, inputs), ITEMS)
    outcomes = list(trial.outcomes())
    assert not complaints(outcomes)
    assert {outcome.subject for outcome in outcomes} == set(trial.job.topology.stages)
    assert sum(outcome.ok for outcome in outcomes) > len(outcomes) / 2


def test_what_is_left_out_is_said_with_its_reason() -> None:
    outcomes = [
        Outcome("a", "first", not_tried="no state"),
        Outcome("a", "second"),
        Outcome("a", "third", not_tried="no state"),
        Outcome("b", "first", not_tried=RESTS),
        Outcome("b", "second", not_tried=RESTS),
    ]
    assert unchecked(outcomes) == ["a: first, third (no state)", f"b: 2 more ({RESTS})", NEVER]


def test_operators_are_opened_as_in_a_job(inputs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without a learning rate finds its steps in what the source's sample said."""
    opened: list[Context] = []
    open_as_before = Model.open

    def noted(self: Model, context: Context) -> None:
        opened.append(context)
        open_as_before(self, context)

    monkeypatch.setattr(Model, "open", noted)
    path = REPO / "configs/logistic_regression_higgs.yaml"
    sets = [*overrides(path, inputs), "stages.sink.options={}"]
    assert not complaints(list(Trial.of(str(path), sets, ITEMS).outcomes()))
    before, *tried = opened
    assert before.moments is None and tried, "the preflight asks for them, and the trial has them"
    assert all(context.moments is not None and len(context.moments) == HIGGS + 1 for context in tried)
