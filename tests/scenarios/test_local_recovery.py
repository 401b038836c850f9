"""`recovery: local` with real processes: who is killed alone goes back alone, and nobody can tell from the results."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import await_that
from ordered_jobs import ENDS, KEYS, REPEAT, ROWS, write_keyed_shards
from shared_cluster import STAGINGS, SharedCluster

from riprap.engine.run_directory.directory import read_events

MODULE = (
    ENDS
    + """

class Marks(riprap.DataflowOperator):
    '''Hands items on, and with each block what its state was before it and is behind it, which depends on the order of
    blocks. The marks of a window add up to nothing, if each begins where the one before it ended.'''

    def __init__(self):
        self.state = Vector(2)

    def mark(self, state):
        return float(state * state % 65_537)

    def process_data(self, items, first, out):
        rows = items.arrays[0]
        now = int(self.state.values[0])
        then = (now + int(rows[:, 1].sum()) % 1_000_003 + 1) * 2 % 1_000_003
        self.state.add(np.array([0]), np.array([then - now], dtype=float))
        out.send((np.vstack([rows, [[6, self.mark(then) - self.mark(now), 0]]]),), items.count + 1)
        return items.count

    def process_punctuation(self, epoch, out):
        now, before = int(self.state.values[0]), int(self.state.values[1])
        self.state.add(np.array([1]), np.array([now - before], dtype=float))
        out.send((np.array([[6, self.mark(before) - self.mark(now), 0.0]]),), 1)


class Careless(Marks):
    '''Puts out another number of items when it takes blocks again.'''

    def process_data(self, items, first, out):
        rows = np.repeat(items.arrays[0][:1], 1 + int(time.time_ns() // 1_000 % 50), axis=0)
        out.send((rows,), len(rows))
        return items.count
"""
)
JOB = """\
job: marks
input: {path: shards, repeat: %d}
micro_batch: 2000
stages:
  read: {operator: "marked:SlowRead", parallelism: 2}
  mark: {operator: "marked:Marks", parallelism: 2}
  total: {operator: "marked:Totals", parallelism: 2}
edges:
  - {from: read, to: mark, partitioning: stripe}
  - {from: mark, to: total, partitioning: stripe}
links: {block_bytes: 4096}
fault_tolerance: {scheme: barrier, interval_ms: 50, recovery: local}
"""


@pytest.fixture(scope="module")
def marks(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The topology of a job whose operators tell in which order they took their blocks, with its input."""
    directory = tmp_path_factory.mktemp("marks")
    write_keyed_shards(directory)
    for folder in (directory, cluster.directory):
        (folder / "marked.py").write_text(MODULE)
    (directory / "marks.yaml").write_text(JOB % REPEAT)
    return directory / "marks.yaml"


@pytest.fixture(scope="module")
def truth(marks: Path) -> np.ndarray:
    """The sum of each key."""
    rows = np.load(marks.parent / "shards/part-00000.npy")
    whole = np.zeros(KEYS)
    np.add.at(whole, rows[:, 0].astype(int), rows[:, 1])
    return REPEAT * whole


def run(cluster: SharedCluster, marks: Path, out: Path, *kills: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary and the events of the job with these kills."""
    summary = cluster.job(marks, out, *(word for kill in kills for word in ("--fault", f"kill:{kill}")))
    killed = Counter(kill.partition("@")[0] for kill in kills)
    assert (
        Counter(failure["worker"] for failure in summary["failures"]) == killed and not summary["faults_not_injected"]
    )
    assert summary["items"] == ROWS * REPEAT and summary["lost"]["items"] == 0
    return summary, list(read_events(out))


def run_one_after_the_other(
    cluster: SharedCluster, marks: Path, out: Path, *kills: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """As `run`, staged again where a kill came before its victim was up again, or behind the job's end."""
    for number in range(STAGINGS):
        summary, events = run(cluster, marks, out / str(number), *kills)
        if all(failure["restored_ms"] is not None for failure in summary["failures"]):
            break
    return summary, events


def totals(summary: dict[str, Any]) -> np.ndarray:
    models = [np.load(model["path"])["totals"] for model in summary["model"]["all"].values()]
    return np.sum(models, axis=0)


def test_who_is_killed_alone_goes_back_alone(
    cluster: SharedCluster, marks: Path, truth: np.ndarray, tmp_path: Path
) -> None:
    """One task twice, and then one behind it, when checkpoints have been whole meanwhile."""
    kills = "mark.0@15%", "mark.0@40%", "total.1@75%"
    summary, events = run_one_after_the_other(cluster, marks, tmp_path / "out", *kills)
    assert totals(summary).tolist() == truth.tolist()
    assert not [event for event in events if event["event"] in ("rollback", "rolled_back")]
    restored = Counter((event["worker"], event["incarnation"]) for event in events if event["event"] == "restored")
    assert {("mark.0", 2), ("mark.0", 3), ("total.1", 2)} <= restored.keys()
    assert {worker for worker, _ in restored} == {"mark.0", "total.1"}, "the others kept their processes and states"
    epochs = [event["epoch"] for event in events if event["event"] == "restored" and "seconds" in event]
    assert min(epochs) > 0, "from a checkpoint, and not from the beginning"
    assert summary["checkpoints"]["completed"] > 3


def test_neighbours_that_are_killed_together_have_all_go_back(
    cluster: SharedCluster, marks: Path, truth: np.ndarray, tmp_path: Path
) -> None:
    summary, events = run(cluster, marks, tmp_path / "out", "mark.0@40%", "total.0@40%")
    assert totals(summary).tolist() == truth.tolist()
    reasons = [event["reason"] for event in events if event["event"] == "rollback"]
    assert reasons and all("was lost since the last whole checkpoint too" in reason for reason in reasons)
    rolled = {event["worker"] for event in events if event["event"] == "rolled_back"}
    assert {"read.0", "read.1", "mark.1", "total.1"} <= rolled


def test_an_operator_that_does_otherwise_the_second_time_ends_the_job(
    cluster: SharedCluster, marks: Path, tmp_path: Path
) -> None:
    sets = ("--set", "stages.mark.operator=marked:Careless", "--fault", "kill:mark.0@40%")
    name = cluster.start(marks, tmp_path / "out", *sets)
    written = tmp_path / "out/summary.json"
    await_that(written.exists, 60, lambda: cluster.ask("status", name))
    assert not json.loads(written.read_text())["completed"]
    said = cluster.ask("status", name)
    assert re.search(r"mark\.0 has put out something else than before .*: block \d+ to total\.\d on mark->total", said)
    assert "recovery to global" in said
