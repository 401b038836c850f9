"""Exported models predict what ours predict, for another program: onnxruntime, on the first rows of HIGGS."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.cli.main import main
from riprap.operators.learning.estimators import Model, predict, save_model
from riprap.operators.learning.hidden_layer import ACTIVATIONS, HiddenLayer
from riprap.operators.learning.onnx_model import to_onnx

FEATURES = 28
RANDOM = np.random.default_rng(7)
LINEAR = {"coefficients": RANDOM.standard_normal(FEATURES), "intercept": np.array([0.25])}
CLASSIFIER = {**LINEAR, "classes": np.array([-1.0, 7.0])}


def network(activation: str) -> dict[str, np.ndarray]:
    layer = HiddenLayer(RANDOM.standard_normal((FEATURES, 5)), RANDOM.standard_normal(5), activation)
    return {**layer.arrays(), "coefficients": RANDOM.standard_normal(5), "intercept": np.array([-0.5])}


MODELS: dict[str, Model] = {
    "classifier": CLASSIFIER,
    "regression": LINEAR,
    "k-means": {"centres": RANDOM.standard_normal((6, FEATURES)), "weights": np.ones(6)},
    **{activation: network(activation) for activation in ACTIVATIONS},
    "network of classes": {**network("relu"), "classes": np.array([0.0, 1.0])},
}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Real rows of 28 features."""
    path = Path(__file__).parents[2] / "data/higgs/HIGGS_first10k.csv.gz"
    with gzip.open(path, "rt") as stream:
        return np.loadtxt(stream, delimiter=",", max_rows=2000)[:, 1:]


def run(proto: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": rows})))


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_predicts_what_we_predict(name: str, rows: np.ndarray) -> None:
    model = MODELS[name]
    found, wanted = run(to_onnx(model), rows), predict(model, rows)
    first = next(iter(found.values()))
    assert first.shape == wanted.shape
    if first.dtype.kind == "f" and "classes" not in model:
        np.testing.assert_allclose(first, wanted, rtol=1e-12, atol=1e-12)
    else:
        assert np.array_equal(first, wanted) and len(np.unique(first)) > 1


def test_the_margin_is_that_of_the_upper_class(rows: np.ndarray) -> None:
    found = run(to_onnx(CLASSIFIER), rows)
    assert np.array_equal(found["margin"] > 0, found["label"] == 7.0)


def test_the_metadata_name_the_columns() -> None:
    columns = [f"x,{number}" for number in range(FEATURES)]
    proto = to_onnx(LINEAR, columns, {"job": "trial", "label": ""})
    said = {entry.key: entry.value for entry in proto.metadata_props}
    assert json.loads(said.pop("columns")) == columns and said == {"job": "trial"}
    with pytest.raises(ConfigError, match="27 columns for a model of 28 features"):
        to_onnx(LINEAR, columns[1:])


def test_without_onnx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'riprap\[onnx\]'"):
        to_onnx(LINEAR)


def test_the_command_exports_the_model_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tmp_path / "model.npz", LINEAR)
    (tmp_path / "topology.yaml").write_text("job: trial\ninput: {path: /nowhere}\n")
    (tmp_path / "summary.json").write_text('{"job": "trial", "model": {"sha256": "abc"}}')
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), str(tmp_path / "model.onnx")])
    assert ended.value.code == 0 and "(names not known)" in capsys.readouterr().out
    said = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert said == {"job": "trial", "sha256": "abc", "columns": "[]"}


@pytest.mark.parametrize("topology", ["", "[1]\n", "job: trial\n", "input: 3\n"])
def test_a_topology_that_is_damaged_names_no_columns(
    topology: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "model.npz", LINEAR)
    (tmp_path / "topology.yaml").write_text(topology)
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), str(tmp_path / "model.onnx")])
    assert ended.value.code == 0 and "(names not known)" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tmp_path / "model.npz", LINEAR)
    (tmp_path / "topology.yaml").write_text("job: trial\ninput: {path: /nowhere}\n")
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), str(tmp_path / "no" / "model.onnx")])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "no/model.onnx: No such file or directory" in said and "name a file" in said


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), str(tmp_path / "model.onnx")])
    assert ended.value.code == 2 and "is not a run directory" in capsys.readouterr().err
