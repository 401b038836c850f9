"""`riprap adapt` with real processes: replicas begin and end while the job runs, and the results stay those of a run
without any.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli, await_that, hurry
from ordered_jobs import CHAINED, write_keyed_shards
from shared_cluster import SharedCluster
from test_partially_active import JOB

from riprap.codec.errors import ConfigError
from riprap.controller.client import Client
from riprap.engine.run_directory.directory import read_events

REPEAT = 15
MODULE = (
    CHAINED
    + """
from pathlib import Path


class GatedRead(SlowRead):
    '''From when there is a file `hurry` it hands as many items on as it can.'''

    def __init__(self, hurry):
        self.hurry = Path(hurry)

    def process_data(self, items, first, out):
        if not self.hurry.exists():
            return super().process_data(items, first, out)
        out.send(items.arrays, items.count)
        return items.count
"""
)
TASKS = [f"{stage}.{index}" for stage in ("read", "chain", "link") for index in range(2)]
ADAPT = ("--set", "fault_tolerance.adapt=true", "--set", "fault_tolerance.replicate=[chain.0]")


@pytest.fixture(scope="module")
def chains(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("adapting")
    write_keyed_shards(directory)
    for folder in (directory, cluster.directory):
        (folder / "chained.py").write_text(MODULE)
    (directory / "chains.yaml").write_text(JOB % REPEAT)
    return directory / "chains.yaml"


@pytest.fixture(scope="module")
def truth(cluster: SharedCluster, chains: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the results without replicas."""
    at_once = ("--set", "stages.read.operator=chained:Passed")
    return str(cluster.job(chains, tmp_path_factory.mktemp("undisturbed") / "out", *at_once)["model"]["sha256"])


def started(cluster: SharedCluster, chains: Path, directory: Path, *words: str) -> tuple[str, Path]:
    """The name and run directory of a job under way, which goes slowly until it is to `hurry` in this directory."""
    out, options = directory / "out", f"{{hurry: {directory / 'hurry'}}}"
    sets = ("--set", f'stages.read={{operator: "chained:GatedRead", parallelism: 2, options: {options}}}')
    name = cluster.start(chains, out, *sets, *words)
    await_that(lambda: has_closed(out, 4), 60, lambda: "nothing was committed")
    return name, out


def events_of(out: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in read_events(out) if event["event"] == name]


def has_closed(out: Path, windows: int) -> bool:
    epochs = out / "epochs.csv"
    return epochs.exists() and epochs.read_bytes().count(b"\n") > windows


def test_replicas_move_to_other_tasks_and_take_over_there(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path
) -> None:
    """The old one ends when the new ones have caught up; then the primary of a new one is killed."""
    name, out = started(cluster, chains, tmp_path, *ADAPT)
    with Client(cluster.zookeeper) as client:
        assert client.status(name)["workers"]["link.0~1"]["state"] == "off"
        client.adapt(name, ["link.0", "read.1"])
        await_that(lambda: bool(events_of(out, "replica_ends")), 60, lambda: str(client.status(name)))
        workers = client.status(name)["workers"]
        assert [str(workers[one]["state"]) for one in ("link.0~1", "read.1~1", "chain.0~1")] == ["up", "up", "off"]
        client.kill(name, "link.0")
    hurry(tmp_path)
    summary = cluster.finish(name, out)
    assert summary["model"]["sha256"] == truth
    replicas = summary["replicas"]
    assert (replicas["planned"], replicas["begun"]) == (["read.1~1", "link.0~1"], ["read.1~1", "link.0~1"])
    assert replicas["ended"] == ["chain.0~1"]
    assert {one["promoted"] for one in replicas["takeovers"]} == {"link.0~1"}
    assert [failure["worker"] for failure in summary["failures"]] == ["link.0"], "who ends is no loss"
    phases = [event["phase"] for event in events_of(out, "phase")]
    assert phases.count("RECOVERING") == 1, "nobody waits for a replica that begins"
    own = [event for event in events_of(out, "restored") if event["worker"].endswith("~1") and "of" in event]
    assert {(event["worker"], event["of"]) for event in own} == {("link.0~1", "link.0"), ("read.1~1", "read.1")}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_whoever_dies_while_replicas_change(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path, seed: int
) -> None:
    """Others are asked for again and again, before the last ones are there, and any worker is killed in between."""
    rng = random.Random(seed)
    name, out = started(cluster, chains, tmp_path, *ADAPT)
    with Client(cluster.zookeeper) as client:
        for windows in range(3, 27, 3):
            await_that(lambda windows=windows: has_closed(out, windows), 60, lambda: str(client.status(name)))
            client.adapt(name, rng.sample(TASKS, rng.randint(0, 3)))
            running = [worker for worker, one in client.status(name)["workers"].items() if one["state"] == "up"]
            with suppress(ConfigError):  # it has ended meanwhile
                client.kill(name, rng.choice(running))
    hurry(tmp_path)
    summary = cluster.finish(name, out)
    assert summary["model"]["sha256"] == truth
    assert len(summary["failures"]) >= 4 and len(summary["replicas"]["begun"]) >= 4


def test_the_command_counts_what_links_carry_and_plans_by_it(
    cluster: SharedCluster, chains: Path, truth: str, tmp_path: Path
) -> None:
    name, out = started(cluster, chains, tmp_path, *ADAPT)
    said = cluster.ask("adapt", name, "--budget", "3", "--measure-s", "0.7", "--dry-run")
    assert said.startswith(
        "the replicas that run (chain.0) keep 0 % of the output if every other task dies, and the best 3"
    )
    assert not events_of(out, "replica_begins")
    cluster.ask("adapt", name, "--budget", "3", "--measure-s", "0.7")
    hurry(tmp_path)
    summary = cluster.finish(name, out)
    assert summary["model"]["sha256"] == truth
    stages = {worker.partition(".")[0] for worker in summary["replicas"]["planned"]}
    assert stages == {"read", "chain", "link"}, "only a whole path keeps any output"


def test_a_job_that_began_without_the_option_keeps_its_replicas(
    cluster: SharedCluster, chains: Path, tmp_path: Path
) -> None:
    name = cluster.start(chains, tmp_path / "out", "--set", "fault_tolerance.replicate=[chain.0]")
    answer = Cli(chains.parent).answer("adapt", name, "--zookeeper", cluster.zookeeper)
    assert answer.returncode == 2
    assert "the replicas of job" in answer.stderr and "set fault_tolerance.adapt to true" in answer.stderr
    cluster.ask("cancel", name)
