"""Tentative output with real processes: windows go on while a killed task is away, and become exact once it is back."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from ordered_jobs import CHAINED, REPEAT, ROWS, write_keyed_shards
from shared_cluster import SharedCluster

from riprap.engine.run_directory.directory import read_events

MODULE = (
    CHAINED
    + """

class Heavy(riprap.DataflowOperator):
    '''Hands items on; a new incarnation of its first task takes a second to begin.'''

    def __init__(self):
        self.state = Vector(1)
        self.is_slow = False

    def open(self, context):
        self.is_first = context.index == 0

    def recovered(self, theta, items):
        self.is_slow = self.is_first

    def process_data(self, items, first, out):
        if self.is_slow:
            self.is_slow = False
            time.sleep(1.0)
        self.state.add(np.array([0]), np.array([float(items.count)]))
        out.send(items.arrays, items.count)
        return items.count
"""
)
JOB = """\
job: shown
input: {path: shards, repeat: %d}
micro_batch: 200
stages:
  read: {operator: "shown:SlowRead", parallelism: 2}
  hand: {operator: "shown:Heavy", parallelism: 2}
  total: {operator: "shown:Rows", parallelism: 1}
edges:
  - {from: read, to: hand, partitioning: one_to_one}
  - {from: hand, to: total, partitioning: full}
links: {block_bytes: 4096}
fault_tolerance: {scheme: partially_active, checkpoint_s: 0.2, tentative_after_ms: 100}
"""


@pytest.fixture(scope="module")
def job(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("shown")
    write_keyed_shards(directory)
    for folder in (directory, cluster.directory):
        (folder / "shown.py").write_text(MODULE)
    (directory / "shown.yaml").write_text(JOB % REPEAT)
    return directory / "shown.yaml"


def shown_in(out: Path) -> list[dict[str, str]]:
    with (out / "tentative.csv").open() as file:
        return list(csv.DictReader(file))


def digests(summary: dict[str, Any]) -> tuple[str, str]:
    return summary["model"]["sha256"], summary["output"]["sha256"]


def test_windows_are_shown_without_a_killed_task_and_are_exact_later(
    cluster: SharedCluster, job: Path, tmp_path: Path
) -> None:
    undisturbed = cluster.job(job, tmp_path / "undisturbed")
    assert "tentative" not in undisturbed and not (tmp_path / "undisturbed" / "tentative.csv").exists()
    out = tmp_path / "out"
    summary = cluster.job(job, out, "--fault", "kill:hand.0@30%")
    assert summary["completed"] and summary["items"] == ROWS * REPEAT and summary["lost"]["items"] == 0
    assert digests(summary) == digests(undisturbed)
    rows = shown_in(out)
    assert len(rows) >= 3
    assert all("hand.0" in row["absent"] for row in rows[:3])
    assert {row["completeness"] for row in rows[1:3]} == {"0.5000"}
    assert all(float(row["amended_at"]) > float(row["shown_at"]) for row in rows)
    tentative = summary["tentative"]
    assert tentative["windows"] == tentative["amended"] == len(rows)
    assert 0.4 < tentative["completeness"] <= 1.0
    kept = {int(path.name.split(".")[1]) for path in (out / "tentative").glob("rows.*.npy")}
    assert kept == {int(row["window"]) for row in rows}
    events = [event for event in read_events(out) if event["event"] in ("tentative", "amended")]
    assert [event["event"] for event in events][:2] == ["tentative", "amended"]
    assert sum(event["windows"] for event in events if event["event"] == "amended") == len(rows)


def test_in_place_windows_are_closed_without_a_killed_task_and_the_loss_is_said(
    cluster: SharedCluster, job: Path, tmp_path: Path
) -> None:
    """As in the paper: what comes too late is left out, and the job ends all the same."""
    out = tmp_path / "out"
    summary = cluster.job(job, out, "--set", "fault_tolerance.reconcile=false", "--fault", "kill:hand.0@30%")
    rows, missing = shown_in(out), ROWS * REPEAT - summary["items"]
    assert summary["completed"] and len(rows) >= 3
    assert {row["absent"] for row in rows} == {"hand.0"} and {row["completeness"] for row in rows[1:3]} == {"0.5000"}
    assert summary["lost"]["items"] == missing >= sum(int(row["expected"]) - int(row["items"]) for row in rows) > 0
    assert {row["amended_at"].strip() for row in rows} == {""}
    assert (summary["tentative"]["windows"], summary["tentative"]["amended"]) == (len(rows), 0)
    assert not (out / "tentative").exists(), "its rows are those of the job's output"
    events = [event for event in read_events(out) if event["event"] in ("tentative", "amended")]
    assert [event["event"] for event in events] == ["tentative"]
