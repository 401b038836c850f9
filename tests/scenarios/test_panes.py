"""Panes of event time in a cluster: every row is that of the undisturbed run, whoever is killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cli_harness import Cli
from shared_cluster import SharedCluster

ITEMS = 12_000
JOB = """\
job: pages
input: {path: visits.txt, repeat: 1, limit: null}
micro_batch: 400
stages:
  read: {operator: "slow_lines:SlowLines", parallelism: 2, options: {value: 2, disorder: 40}}
  sums:
    operator: "panes:Panes"
    parallelism: 2
    options: {panes: sliding, size: 300, slide: 100, aggregate: sum, mode: retracting, early_items: 20, lateness: 100}
edges:
  - {from: read, to: sums, partitioning: full}
fault_tolerance: {scheme: barrier, interval_ms: 30}
"""
SLOW_LINES = """\
import time

import riprap


class SlowLines(riprap.TimedLines):
    def prepare(self, items):
        time.sleep(items.count / 5_000)
        return super().prepare(items)
"""


def visits() -> str:
    """Lines of time, key and value, out of order by more than the job allows for."""
    rng = np.random.default_rng(3)
    times = np.arange(ITEMS) // 2 + rng.integers(0, 150, ITEMS)
    times[ITEMS // 4 :: 500] -= 1_000  # too late by far
    rows = zip(times.tolist(), rng.integers(0, 9, ITEMS).tolist(), rng.integers(0, 99, ITEMS).tolist(), strict=True)
    return "".join(f"{time},{key},{value}\n" for time, key, value in rows)


def rows_of(run_dir: Path) -> dict[str, list[tuple[float, ...]]]:
    """By file, what was put out in a window."""
    found = {}
    for path in sorted((run_dir / "output").glob("*.npz")):
        with np.load(path) as arrays:
            found[path.name] = list(zip(*(arrays[name].tolist() for name in arrays.files), strict=True))
    return found


def test_rows_are_the_same_whoever_dies(cli: Cli, cluster: SharedCluster) -> None:
    for name, text in (("visits.txt", visits()), ("pages.yaml", JOB), ("slow_lines.py", SLOW_LINES)):
        (cli.directory / name).write_text(text)
    (cluster.directory / "slow_lines.py").write_text(SLOW_LINES)
    file, here = cli.directory / "pages.yaml", cli.directory
    calm = cluster.job(file, here / "calm", "--set", "stages.read.operator=timed_lines:TimedLines")
    kills = ("--fault", "kill:sums.1@30%", "--fault", "kill:read.0@60%", "--fault", "kill:sums.0@80%")
    summary = cluster.job(file, here / "out", *kills)
    assert not summary["faults_not_injected"] and summary["checkpoints"]["completed"] > 0
    expected = rows_of(cli.directory / "calm")
    assert rows_of(cli.directory / "out") == expected
    kinds = [row[4] for name, rows in expected.items() if name.startswith("panes") for row in rows]
    assert set(kinds) == {1, 2, 3, 4} and any(name.startswith("late") for name in expected)
    assert calm["metrics"] == summary["metrics"]
