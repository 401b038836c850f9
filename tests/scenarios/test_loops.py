"""A loop with real processes: a task that is killed in its middle goes on from there, and nobody can tell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import REPO, Cli
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from shared_cluster import SharedCluster

from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
DEADLY = """\
import os
import signal
import time
from pathlib import Path

from riprap.operators.graphs.pagerank import PageRank

HERE = Path(__file__).parent


class DeadlyRank(PageRank):
    '''Task 1 is killed in superstep AT of window 2, once; it notes the supersteps that it takes.'''

    def superstep(self, number, messages, totals):
        time.sleep(0.01)
        if self._me == 1:
            with (HERE / "steps").open("a") as notes:
                notes.write(f"{self.state.epoch} {number}\\n")
            if (self.state.epoch, number) == (2, AT) and not (HERE / "killed").exists():
                (HERE / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().superstep(number, messages, totals)
"""
JOB = """\
job: ranks
input: {path: edges.txt}
micro_batch: 2000
seed: 1
stages:
  read: {operator: "read_edges:ReadEdges", parallelism: 2}
  rank: {operator: "pagerank:PageRank", parallelism: 3, options: {supersteps: 60, tolerance: 0.0}}
edges:
  - {from: read, to: rank, partitioning: full}
  - {from: rank, to: rank, loop: true}
fault_tolerance: {scheme: barrier, interval_ms: 50}
"""


@pytest.fixture
def graph(cli: Cli) -> Cli:
    """A working directory with a graph and a topology."""
    edges = np.random.default_rng(1).integers(0, 500, (4000, 2))
    (cli.directory / "edges.txt").write_text("".join(f"{start} {end}\n" for start, end in edges.tolist()))
    (cli.directory / "ranks.yaml").write_text(JOB)
    return cli


NEVER = -1


def completed(graph: Cli, file: str, *words: str) -> dict[str, Any]:
    """The summary of a job, which must complete."""
    ended = graph.answer("run", file, "--out", "out", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


def deadly(
    graph: Cli, at: int, *replacements: tuple[str, str], words: Sequence[str] = ()
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The summary of the job whose task 1 is killed in this superstep, and the supersteps that this task took."""
    (graph.directory / "deadly.py").write_text(DEADLY.replace("AT", str(at)))
    text = (graph.directory / "ranks.yaml").read_text().replace("pagerank:PageRank", "deadly:DeadlyRank")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    (graph.directory / "deadly.yaml").write_text(text)
    summary = completed(graph, "deadly.yaml", *words)
    lines = (graph.directory / "steps").read_text().splitlines()
    return summary, [(int(window), int(step)) for window, step in map(str.split, lines)]


def values_of(summary: dict[str, Any], keys: str = "vertices") -> dict[int, float]:
    """All tasks' results together."""
    found: dict[int, float] = {}
    for model in summary["model"]["all"].values():
        with np.load(Path(model["path"])) as arrays:
            found |= dict(zip(arrays[keys].tolist(), arrays["values"].tolist(), strict=True))
    return found


def test_ranks_are_the_undisturbed_ones_after_a_kill_in_mid_loop(graph: Cli, cluster: SharedCluster) -> None:
    calm = cluster.job(graph.directory / "ranks.yaml", graph.directory / "calm")
    summary, steps = deadly(graph, 40)
    after = steps[steps.index((2, 40)) + 1]
    assert (2, 0) < after <= (2, 40), f"it went on from {after}, not from a checkpoint within the loop"
    assert steps[-1] == (2, 59) and summary["epochs"] == calm["epochs"] == 2
    truth = values_of(calm)
    assert len(truth) == 500 and sum(truth.values()) == pytest.approx(1)
    assert values_of(summary) == truth
    graph.await_no_process()


ORDERED = "scheme: partially_active, checkpoint_s: 0.05"


def test_a_task_takes_its_supersteps_alone_again(graph: Cli, cluster: SharedCluster) -> None:
    """From its own checkpoint, which it has made at a window's end; the others wait within the loop."""
    calm = cluster.job(graph.directory / "ranks.yaml", graph.directory / "calm")
    summary, steps = deadly(graph, 40, ("scheme: barrier, interval_ms: 50", ORDERED))
    after = steps[steps.index((2, 40)) + 1]
    assert after in ((1, 0), (2, 0)) and steps[-1] == (2, 59)
    assert [one["worker"] for one in summary["failures"]] == ["rank.1"] and not summary["rollbacks"]
    assert values_of(summary) == values_of(calm)
    graph.await_no_process()


def test_a_replica_goes_on_within_a_loop(graph: Cli, cluster: SharedCluster) -> None:
    """Its primary dies as soon as window 1 is announced, so in the loop of window 2, which takes half a second."""
    calm = cluster.job(graph.directory / "ranks.yaml", graph.directory / "calm")
    copied = ("scheme: barrier, interval_ms: 50", f"{ORDERED}, replicate: [rank]")
    summary, _ = deadly(graph, NEVER, copied, words=("--fault", "kill:rank.1@epoch=1"))
    assert [one["worker"] for one in summary["failures"]] == ["rank.1"]
    assert [one["promoted"] for one in summary["replicas"]["takeovers"]] == ["rank.1~1"]
    assert values_of(summary) == values_of(calm)
    graph.await_no_process()


CONVERGE = ("supersteps: 60, tolerance: 0.0", "tolerance: 1.0e-9")


def test_a_loop_begins_once_more_from_what_the_others_had(graph: Cli, cluster: SharedCluster) -> None:
    (graph.directory / "calm.yaml").write_text((graph.directory / "ranks.yaml").read_text().replace(*CONVERGE))
    calm = cluster.job(graph.directory / "calm.yaml", graph.directory / "calm")
    summary, steps = deadly(graph, 12, CONVERGE, ("scheme: barrier", "scheme: optimistic"))
    after = steps[steps.index((2, 12)) + 1]
    assert after in ((1, 0), (2, 0)), f"it went on from {after}: a checkpoint within the loop"
    told = [event for event in read_events(graph.directory / "out") if event["event"] == "compensated"]
    assert {event["worker"] for event in told} == {"rank.0", "rank.1", "rank.2"} and summary["compensations"] == 3
    assert all(event["window"] == 2 and event["before"] in (12, 13) for event in told)
    assert {event["supersteps"] for event in told} == {steps[-1][1] + 1}
    truth, found = values_of(calm), values_of(summary)
    assert found.keys() == truth.keys() and summary["epochs"] == calm["epochs"] == 2
    assert max(abs(found[vertex] - truth[vertex]) for vertex in truth) < 1e-8
    graph.await_no_process()


def test_the_examples_of_the_page_run_as_they_stand(cli: Cli) -> None:
    """On paths of ten vertices, so that the loops are long: functions of a script, which travel by value."""
    starts = np.flatnonzero(np.arange(200) % 10 < 9)
    (cli.directory / "edges.txt").write_text("".join(f"{start} {start + 1}\n" for start in starts.tolist()))
    examples = re.findall(r"```python\n(.*?)```", (REPO / "docs/iteration.md").read_text(), re.S)
    (cli.directory / "page.py").write_text("\n".join(examples).replace(".data/edges", "edges.txt"))
    ended = subprocess.run(
        [sys.executable, "page.py"],
        cwd=cli.directory, env=cli.environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    labels = connected_components(coo_matrix((np.ones(len(starts)), (starts, starts + 1)), (200, 200)))[1]
    truth = {vertex: float(np.flatnonzero(labels == label)[0]) for vertex, label in enumerate(labels)}
    spoken = {}
    for name in ("labels", "changes"):
        summary = json.loads((cli.directory / "runs" / name / "summary.json").read_text())
        assert values_of(summary, "keys") == truth and len(set(truth.values())) == 20
        spoken[name] = summary["metrics"]["messages"]
        assert summary["metrics"]["supersteps"] == 11
    assert spoken == {"labels": 11 * 360, "changes": 360 + 20 * (2 * sum(range(9)) + 9)}, "all edges, or changes"
    assert f"{spoken['changes']:.1f} messages instead of {spoken['labels']:.1f}" in ended.stdout
    cli.await_no_process()


DEADLY_PATHS = """\
import os
import signal
from pathlib import Path

from riprap.operators.graphs.asynchronous_paths import AsynchronousPaths

HERE = Path(__file__).parent


class DeadlyPaths(AsynchronousPaths):
    '''Task 1 is killed in window 2 at its third block of messages, once.'''

    def work(self, messages):
        if self._me == 1 and self.state.epoch == 2 and self.state.arrays["counts"][1] == 3:
            if not (HERE / "killed").exists():
                (HERE / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().work(messages)
"""


@pytest.mark.parametrize("scheme", ["barrier", pytest.param("mini_batch", marks=pytest.mark.long)])
def test_a_loop_without_supersteps_finds_the_shortest_paths_after_a_kill_in_its_middle(graph: Cli, scheme: str) -> None:
    (graph.directory / "deadly_paths.py").write_text(DEADLY_PATHS)
    paths = JOB.replace("pagerank:PageRank", "deadly_paths:DeadlyPaths")
    paths = paths.replace(", options: {supersteps: 60, tolerance: 0.0}", "")
    paths = paths.replace("{scheme: barrier, interval_ms: 50}", f"{{scheme: {scheme}}}")
    (graph.directory / "paths.yaml").write_text(paths)
    summary = completed(graph, "paths.yaml", "--set", "input.bad_rows=keep")
    assert (graph.directory / "killed").exists() and [one["worker"] for one in summary["failures"]] == ["rank.1"]
    edges = np.loadtxt(graph.directory / "edges.txt", int)
    ones = coo_matrix((np.ones(len(edges)), edges.T), (500, 500)).minimum(1)
    assert values_of(summary) == dict(enumerate(dijkstra(ones, indices=0).tolist()))
    graph.await_no_process()
