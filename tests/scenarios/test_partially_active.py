"""Scheme `partially_active` with real processes: results that depend on the order of all blocks are those of the
undisturbed run, whoever is killed, and a replica takes over before its primary is back.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli, await_that
from ordered_jobs import CHAINED, REPEAT, ROWS, write_keyed_shards
from shared_cluster import SharedCluster

from riprap.engine.run_directory.directory import read_events

MODULE = (
    CHAINED
    + """
import os
from pathlib import Path

DAWDLES = Path(__file__).with_name("dawdles")


class Dawdling(Chained):
    '''Takes 60 ms for each block in the process that the file names.'''

    def process_data(self, items, first, out):
        if DAWDLES.exists() and DAWDLES.read_text() == str(os.getpid()):
            time.sleep(0.06)
        return super().process_data(items, first, out)


class Stamped(riprap.DataflowOperator):
    '''Puts out who has computed what, which no copy computes as another one does.'''

    def process_data(self, items, first, out):
        rows = items.arrays[0]
        out.send((np.vstack([rows, [[6, os.getpid(), 0]]]),), items.count + 1)
        return items.count
"""
)
JOB = """\
job: chains
input: {path: shards, repeat: %d}
micro_batch: 2000
stages:
  read: {operator: "chained:SlowRead", parallelism: 2}
  chain: {operator: "chained:Chained", parallelism: 2}
  link: {operator: "chained:Chained", parallelism: 2}
  total: {operator: "chained:Totals", parallelism: 1}
edges:
  - {from: read, to: chain, partitioning: full}
  - {from: chain, to: link, partitioning: full}
  - {from: link, to: total, partitioning: full}
links: {block_bytes: 4096}
fault_tolerance: {scheme: partially_active, checkpoint_s: 0.2}
"""
MICRO_BATCH = 2000  # as the topology says
REPLICATED = ("--set", "fault_tolerance.replicate=[chain, link.1, read.0]")
AT_ONCE = ("--set", "stages.read.operator=chained:Passed")
"""For a job to which nothing happens."""
PLANNED = ["read.0~1", "chain.0~1", "chain.1~1", "link.1~1"]


@pytest.fixture(scope="module")
def chains(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The topology of a job whose results depend on the order of blocks, with its input."""
    directory = tmp_path_factory.mktemp("chains")
    write_keyed_shards(directory)
    for folder in (directory, cluster.directory):
        (folder / "chained.py").write_text(MODULE)
    (directory / "chains.yaml").write_text(JOB % REPEAT)
    return directory / "chains.yaml"


def run(cluster: SharedCluster, chains: Path, out: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary and the events of the job."""
    summary = cluster.job(chains, out, *words)
    assert summary["completed"] and not summary["faults_not_injected"]
    assert summary["lost"]["items"] == 0
    return summary, list(read_events(out))


@pytest.fixture(scope="module")
def truth(cluster: SharedCluster, chains: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the undisturbed run's results."""
    summary, _ = run(cluster, chains, tmp_path_factory.mktemp("undisturbed") / "out", *AT_ONCE)
    return str(summary["model"]["sha256"])


def kills(*faults: str) -> list[str]:
    return [word for fault in faults for word in ("--fault", f"kill:{fault}")]


def test_who_is_killed_goes_back_to_its_own_checkpoint_alone(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path
) -> None:
    named = kills("chain.0@20%", "link.1@40%", "link.0@60%", "chain.1@60%", "read.1@70%", "total.0@80%")
    summary, events = run(cluster, chains, tmp_path / "out", *named)
    assert summary["model"]["sha256"] == truth
    restored = {event["worker"] for event in events if event["event"] == "restored"}
    assert restored == {"chain.0", "link.1", "link.0", "chain.1", "read.1", "total.0"}
    assert not [event for event in events if event["event"] == "rolled_back"]


def test_replicas_take_over_and_nothing_changes(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path
) -> None:
    """Primaries die, their replicas later, and once both."""
    named = kills("chain.0@20%", "link.1@20%", "read.0@40%", "chain.0~1@55%", "link.1~1@70%", "link.1@70%")
    summary, _ = run(cluster, chains, tmp_path / "out", *REPLICATED, *named)
    assert summary["model"]["sha256"] == truth
    assert summary["items"] == ROWS * REPEAT
    assert summary["replicas"]["planned"] == PLANNED
    assert {one["worker"] for one in summary["replicas"]["takeovers"]} <= {"chain.0", "chain.1", "link.1", "read.0"}
    assert summary["replicas"]["takeovers"]


def test_a_replica_of_the_destination_goes_on_writing(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path
) -> None:
    """Whoever writes dies, then the one that took over, then both at once. Each window is announced once."""
    rows = ("--set", "stages.total.operator=chained:Rows")
    calm, _ = run(cluster, chains, tmp_path / "calm", *rows)
    named = kills("total.0@20%", "total.0~1@45%", "total.0@70%", "total.0~1@70%")
    copied = ("--set", "fault_tolerance.replicate=[total, chain.0]")
    summary, events = run(cluster, chains, tmp_path / "out", *rows, *copied, *named)
    assert (summary["model"]["sha256"], summary["output"]["sha256"]) == (truth, calm["output"]["sha256"])
    lines = (tmp_path / "out" / "epochs.csv").read_text().splitlines()[1:]
    windows = ROWS * REPEAT // MICRO_BATCH
    assert [line.split(",")[:2] for line in lines] == [
        [str(epoch), str(MICRO_BATCH)] for epoch in range(1, windows + 1)
    ]
    took_over = [event["worker"] for event in events if event["event"] == "took_over"]
    assert took_over[:2] == ["total.0~1", "total.0"]
    assert len([failure for failure in summary["failures"] if failure["worker"].startswith("total.0")]) >= 4


def test_a_replica_alone_changes_nothing(cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path) -> None:
    summary, _ = run(cluster, chains, tmp_path / "out", *REPLICATED)
    assert summary["model"]["sha256"] == truth
    assert set(PLANNED) <= set(summary["cpu_seconds"])
    compared = summary["replicas"]["windows_compared"]
    assert summary["replicas"] == {
        "planned": PLANNED,
        "windows_compared": compared,
        "takeovers": [],
        "rebuilt": [],
    }
    assert compared > 0


def test_a_replica_that_lags_begins_anew_from_what_its_primary_has_saved(
    cluster: SharedCluster, chains: Path, tmp_path: Path
) -> None:
    """The stream is twice as long as that of others, and who is slow is not taken for dead."""
    longer = ("--set", f"input.repeat={2 * REPEAT}", "--set", "cluster.heartbeat_timeout_s=30")
    undisturbed, _ = run(cluster, chains, tmp_path / "undisturbed", *longer, *AT_ONCE)
    lagging = ("--set", "fault_tolerance.rebuild_after_s=0.5", "--set", "stages.link.operator=chained:Dawdling")
    job = cluster.start(chains, tmp_path / "out", *longer, *REPLICATED, *lagging)
    await_that((tmp_path / "out/epochs.csv").exists, 60, lambda: cluster.ask("status", job))
    copy = json.loads(cluster.ask("status", job, "--json"))["workers"]["link.1~1"]
    (cluster.directory / "dawdles").write_text(str(copy["pid"]))
    summary, events = cluster.finish(job, tmp_path / "out"), list(read_events(tmp_path / "out"))
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"] and summary["lost"]["items"] == 0
    assert set(summary["replicas"]["rebuilt"]) == {"link.1~1"}
    assert not summary["replicas"]["takeovers"], "it held nobody up"
    assert {failure["worker"] for failure in summary["failures"]} == {"link.1~1"}
    own = [event for event in events if event["event"] == "restored" and "epoch" in event]
    assert {(event["worker"], event.get("of")) for event in own} == {("link.1~1", "link.1")}


def test_an_operator_that_no_copy_computes_alike_ends_the_job(cluster: SharedCluster, chains: Path) -> None:
    cli = Cli(chains.parent, cluster.chroot("differing"))
    sets = ("--set", "stages.chain.operator=chained:Stamped", "--set", "fault_tolerance.replicate=[chain]")
    try:
        ended = cli.answer("run", chains.name, "--out", "differing", *sets)
    finally:
        cli.kill_all()
    assert ended.returncode == 1, ended.stderr
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert re.match(
        r"error: job chains ended FAILED: worker failed: ((chain\.\d)(?:~1)?): copies of \2 differ: in window 1, \1 "
        r"has put out to link\.\d something else than the other, first in block 1, items 1 to \d+ of the window$",
        error,
    ), error
    assert "remedy: an operator under partially_active must compute the same from the same input" in ended.stderr
    assert "riprap run --resume" in ended.stderr and "Traceback" not in ended.stderr
