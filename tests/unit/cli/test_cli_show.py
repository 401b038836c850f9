"""`riprap show` on run directories: what is printed, written to files, and said of what is not there."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from riprap.codec.errors import ConfigError, DataError
from riprap.engine.cli.show import command
from riprap.engine.run_directory.directory import make_run_directory, write_summary
from riprap.operators.states import pack_keys

SINK = {"operator": "logistic_regression:Model", "parallelism": 1, "options": {}}
SCHEMA = {"columns": ["label", "height", "width"], "label": "label"}


def run_directory(folder: Path, sink: str, tasks: int = 1, output: str = "full") -> Path:
    """What `riprap run` begins with."""
    stages = {"a": SINK, "b": SINK | {"operator": sink, "parallelism": tasks}}
    topology = {
        "job": "job", "input": {"path": None, "repeat": 1, "limit": None}, "micro_batch": 1, "seed": 1,
        "stages": stages, "edges": [{"from": "a", "to": "b", "partitioning": output, "feedback": False}],
        "fault_tolerance": {"scheme": "none"}, "links": {"block_bytes": 1, "window_epochs": 1},
        "backup": {"servers": 1, "storage": None, "durability": "never", "interval_ms": 1},
        "cluster": dict.fromkeys(("heartbeat_timeout_s", "startup_timeout_s", "recovery_timeout_s",
                                  "stall_timeout_s"), 1.0),
    }  # fmt: skip
    return make_run_directory(str(folder / "run"), "job", topology, SCHEMA)


def show(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)


def save_words(run: Path, *tasks: dict[str, int]) -> None:
    for number, counts in enumerate(tasks):
        data, offsets = pack_keys([word.encode() for word in counts])
        values = np.array(list(counts.values()), np.int64)
        np.savez(run / f"model.{number}.npz", words=data, offsets=offsets, counts=values)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    run = run_directory(tmp_path, "word_count:CountWords", 2)
    save_words(run, {"café": 1200000, "zoo": 1}, {"the": 3000000, "[bold]": 7})
    (run / "epochs.0.csv").write_text("epoch,items,latency_ms,committed_at\n1,5,2.5,0.1\n")
    (run / "epochs.1.csv").write_text("epoch,items,latency_ms,committed_at\n1,6,3.5,0.1\n2,7,")
    return run


def test_the_main_result_is_printed_with_what_else_there_is(words: Path) -> None:
    said = show(words, "--top", "3").output
    lines = [line.split() for line in said.splitlines() if line.strip()]
    assert lines[0] == ["word", "count"] and lines[2:5] == [
        ["the", "3,000,000"],
        ["café", "1,200,000"],
        ["[bold]", "7"],
    ]
    assert "zoo" not in said and "the first 3 of 4 rows" in said and "there is also: metrics, epochs" in said


def test_files_and_json_hold_all_rows_unless_told_otherwise(words: Path, tmp_path: Path) -> None:
    assert "4 rows written" in show(words, "--csv", tmp_path / "a.csv").output
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file))[:3] == [["word", "count"], ["the", "3000000"], ["café", "1200000"]]
    whole, part = (json.loads(show(words, "--json", *more).output) for more in ((), ("--top", "1")))
    assert (whole["total"], len(whole["rows"]), part["total"]) == (4, 4, 4)
    assert part["rows"] == [{"word": "the", "count": 3000000}] and whole["result"] == "words"


def test_epochs_and_failures_are_tables_too(words: Path) -> None:
    rows = json.loads(show(words, "epochs", "--json").output)["rows"]
    assert rows == [
        {"sink": 0, "epoch": 1, "items": 5, "latency_ms": 2.5}, {"sink": 1, "epoch": 1, "items": 6, "latency_ms": 3.5},
    ]  # fmt: skip
    assert "no summary.json" in show(words, "failures").output
    failure = {"worker": "b.0", "incarnation": 1, "action": "kill", "ended": None, "detected_ms": 1.5}
    write_summary(words, {"failures": [failure], "metrics": {"loss": 0.25}, "lost": {"recoveries": []}})
    (row,) = json.loads(show(words, "failures", "--json").output)["rows"]
    assert (row["worker"], row["detected_ms"], row["caught_up_ms"]) == ("b.0", 1.5, None)
    assert json.loads(show(words, "metrics", "--json").output)["rows"] == [{"metric": "loss", "value": 0.25}]


def test_a_model_has_the_names_of_columns(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "logistic_regression:Model")
    np.savez(run / "model.npz", coefficients=[1.0, 2.0], intercept=[3.0], classes=[0.0, 1.0])
    said = show(run).output
    assert [line.split() for line in said.splitlines() if "height" in line] == [["height", "1"]]
    assert "class 1" in said


def test_predictions_are_numbered_as_the_input(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "prediction:Predictions")
    np.save(run / "output.npy", np.array([[0.5], [0.25]]))
    rows = json.loads(show(run, "--json").output)["rows"]
    assert rows == [{"item": 0, "prediction": 0.5}, {"item": 1, "prediction": 0.25}]


def test_many_columns_are_turned_to_be_read(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "kmeans:Model")
    np.savez(run / "model.npz", centres=np.arange(40.0).reshape(2, 20), weights=[1.0, 2.0])
    lines = [line.split() for line in show(run).output.splitlines()]
    assert ["centre", "1", "0"] in lines and ["x19", "39", "19"] in lines


def test_text_cannot_move_the_cursor(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "grep:MergeLines")
    (run / "output").mkdir()
    data, offsets = pack_keys([b"\x1b[2Jgone"])
    np.savez(run / "output" / "lines.0.1.npz", bytes=data, offsets=offsets, tasks=[0])
    said = show(run).output
    assert "\x1b" not in said and "\\x1b[2Jgone" in said


def test_operators_of_ones_own_need_not_be_there(tmp_path: Path) -> None:
    run = run_directory(tmp_path, "nobody_has_this:Sink")
    np.savez(run / "model.npz", a=[1, 2], b=[3.0, 4.0])
    found = show(run, "--json")
    assert json.loads(found.stdout)["rows"] == [{"a": 1, "b": 3.0}, {"a": 2, "b": 4.0}]
    assert "nobody_has_this:Sink cannot be imported" in found.stderr


def test_what_is_not_there_is_named(words: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        show(tmp_path)
    with pytest.raises(ConfigError, match=r"no result 'word'\n.*name one of words, metrics, epochs"):
        show(words, "word")
    (words / "model.0.npz").write_bytes(b"PK torn")
    with pytest.raises(DataError, match=r"model.0.npz cannot be read"):
        show(words)
    assert "2 rows" in show(words, "epochs").output
    np.savez(words / "model.0.npz", other=[1])
    with pytest.raises(DataError, match=r"CountWords cannot say how its results read"):
        show(words)


@pytest.mark.parametrize("kept", [0, 50, 200])
def test_rows_that_are_not_all_there_are_refused(tmp_path: Path, kept: int) -> None:
    """As a full disk leaves them, or a sink that cuts off what was not durable."""
    run = run_directory(tmp_path, "logistic_regression:Model")
    np.save(run / "output.npy", np.zeros((100, 2)))
    os.truncate(run / "output.npy", kept)
    with pytest.raises(DataError, match=r"output.npy cannot be read: .*\n.*if the job goes on"):
        show(run)


@pytest.mark.parametrize("form", ["--csv", "--parquet"])
def test_a_file_that_cannot_be_written_is_named(words: Path, form: str) -> None:
    with pytest.raises(ConfigError, match="no/words: No such file or directory") as refused:
        show(words, form, words / "no" / "words")
    assert "name a file in a directory" in refused.value.remedy


@pytest.mark.parametrize("topology", ["", "[1]\n", "{job: a, stages: [], edges: [], fault_tolerance: {}}\n"])
def test_a_topology_that_is_damaged_is_named(words: Path, topology: str) -> None:
    (words / "topology.yaml").write_text(topology)
    with pytest.raises(ConfigError, match=r"topology\.yaml is not what a run leaves"):
        show(words)
