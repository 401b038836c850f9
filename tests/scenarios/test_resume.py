"""Whoever dies, the job goes on: by itself, by `riprap run --resume`, or with the cluster's next `riprap up`.

The schedules here are a few of those that `make soak` draws by the hundred. All end with the undisturbed model.
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry
from shared_cluster import SharedCluster, undisturbed_model

from riprap.controller.zookeeper import EmbeddedZooKeeper
from riprap.engine.run_directory.directory import read_events

sys.path.append(str(Path(__file__).parents[1] / "soak"))
from schedules import EPOCHS, Hit, Schedule
from trial import Arena

SETS = ("--set", "input.repeat=20")
JOB_EPOCHS = 200
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return Arena(tmp_path_factory.mktemp("arena"))


def hit(role: str, epoch: int, *targets: str) -> Hit:
    return Hit(role, epoch, tuple(f"kill:{target}@epoch={epoch}" for target in targets))


@pytest.mark.parametrize(
    ("scheme", "hits", "attempts"),
    [
        pytest.param("erasure (4,2) lazy", [hit("source and sink", 20, "source.0", "sink.0")], 1, marks=LONG),
        ("erasure (4,2) lazy", [hit("launcher", 30), hit("processor", 50, "processor.1"), hit("launcher", 70)], 3),
        ("erasure (4,2) lazy", [hit("backup", 20, "backup"), hit("sink", 40, "sink.0")], 1),
        ("erasure (4,2) lazy", [hit("agent", 40, "agent", "controller", "zookeeper")], 1),
        pytest.param(
            "reactive",
            [hit("processor", 30, "processor.0", "processor.4"), hit("source", 60, "source.0")],
            1,
            marks=LONG,
        ),
        pytest.param("reactive", [hit("launcher", EPOCHS // 2)], 2, marks=LONG),
    ],
    ids=["source and sink", "launcher twice", "backup, then sink", "all services", "reactive", "reactive, launcher"],
)
def test_whoever_is_killed_the_model_is_the_undisturbed_one(
    arena: Arena, scheme: str, hits: list[Hit], attempts: int
) -> None:
    summary = arena.run(Schedule(0, 0, scheme, tuple(hits)))
    assert summary["attempts"] == attempts


@pytest.fixture(scope="module")
def undisturbed(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The model of the whole job, by name."""
    return undisturbed_model(cluster, tmp_path_factory.mktemp("undisturbed"), *SETS)


def start_and_interrupt(cli: Cli, signum: int, *words: str) -> subprocess.CompletedProcess[str]:
    """A run that is sent a signal after a few epochs."""
    process = cli.start("run", "job.yaml", "--out", "out", *SETS, *UNTIL_HURRIED, *words)
    await_that(lambda: epochs(cli) > 5 or process.poll() is not None, 120, lambda: "nothing was committed")
    process.send_signal(signum)
    out, err = process.communicate(timeout=120)
    cli.await_no_process()
    return subprocess.CompletedProcess([], process.returncode, out, err)


def epochs(cli: Cli, out: str = "out") -> int:
    path = cli.directory / out / "epochs.csv"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def happened(out: Path) -> set[tuple[str, str]]:
    """What happened, and to whom."""
    return {(event["event"], event.get("worker", "")) for event in read_events(out)}


def check_whole(out: Path, undisturbed: dict[str, np.ndarray]) -> None:
    with (out / "epochs.csv").open() as file:
        assert [int(row["epoch"]) for row in csv.DictReader(file)] == list(range(1, JOB_EPOCHS + 1))
    found = np.load(out / "model.npz")
    assert {name: found[name].tobytes() for name in found} == {n: a.tobytes() for n, a in undisturbed.items()}


def test_an_interrupted_run_says_how_to_go_on_and_that_works(
    cli: Cli, undisturbed: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ended = start_and_interrupt(cli, signal.SIGINT)
    assert ended.returncode == 130
    said = next(line for line in ended.stderr.splitlines() if line.startswith("go on where it ended with: "))
    words = shlex.split(said.partition(": riprap ")[2])
    before, gate, out = epochs(cli), cli.directory, Path(words[-1])
    cli.directory = tmp_path_factory.mktemp("elsewhere")
    fault = ("--fault", f"kill:processor.1@epoch={before + 5}")
    process = cli.start(*words, "--json", *fault, environment={"PYTHONPATH": str(gate)})
    await_that(
        lambda: ("restored", "processor.1") in happened(out) or process.poll() is not None,
        120,
        lambda: "nobody was restored",
    )
    hurry(gate)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    summary = json.loads(said)
    assert (summary["attempts"], summary["epochs"], summary["items"]) == (2, JOB_EPOCHS, 100_000)
    assert [failure["worker"] for failure in summary["failures"]] == ["processor.1"]
    starts = [event["attempt"] for event in read_events(out) if event["event"] == "cluster_started"]
    assert starts == [1, 2], "the number by which backup servers shut the first attempt out"
    check_whole(out, undisturbed)
    assert not (out / "backup").exists(), "a completed job needs no backups"
    again = cli.answer(*words, "--json")
    assert again.returncode == 0 and json.loads(again.stdout) == summary
    assert "job trial has completed; there is nothing to go on with" in again.stderr
    cli.await_no_process()


def test_a_run_directory_has_one_launcher_at_a_time(cli: Cli) -> None:
    process = cli.start("run", "job.yaml", "--out", "out", "--set", "input.repeat=100000", *UNTIL_HURRIED)
    await_that(lambda: epochs(cli) > 5 or process.poll() is not None, 120, lambda: "nothing was committed")
    second = cli.answer("run", "--resume", "out")
    assert second.returncode == 2 and "in use by another `riprap run`" in second.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    cli.await_no_process()


@pytest.mark.parametrize(
    ("lost", "words"), [("shards", "input.path: there is no directory"), ("out/backup", "backup storage is gone")]
)
def test_what_cannot_go_on_says_so_before_anything_starts(cli: Cli, lost: str, words: str) -> None:
    start_and_interrupt(cli, signal.SIGKILL)
    attempts = (cli.directory / "out/attempts.jsonl").read_bytes()
    (cli.directory / lost).rename(cli.directory / "lost")
    refused = cli.answer("run", "--resume", "out")
    assert refused.returncode == 2 and words in refused.stderr and refused.stderr.count("remedy: ") == 1
    assert (cli.directory / "out/attempts.jsonl").read_bytes() == attempts, "nothing was attempted"
    assert cli.processes() == []


def test_backup_servers_that_are_not_there_are_named_within_the_deadline(cli: Cli) -> None:
    servers = ["ipc://@riprap-nobody-1", "ipc://@riprap-nobody-2"]
    words = ["--set", f"backup.servers=[{', '.join(servers)}]", "--set", "cluster.startup_timeout_s=8"]
    ended = cli.answer("run", "job.yaml", "--out", "out", *words)
    assert ended.returncode != 0
    error = ended.stderr[ended.stderr.index("error: ") :]
    assert all(server in error for server in servers) and "remedy: " in error
    assert epochs(cli) == 0
    cli.await_no_process()


def test_a_job_in_an_ensemble_of_the_users_is_taken_from_its_dead_launcher(
    cli: Cli, undisturbed: dict[str, np.ndarray]
) -> None:
    with EmbeddedZooKeeper(cli.directory / "ensemble") as ensemble:
        words = ("--zookeeper", ensemble.connect_string)
        start_and_interrupt(cli, signal.SIGKILL, *words)
        hurry(cli.directory)
        resumed = cli.answer("run", "--resume", "out", "--json", *words)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["attempts"] == 2
    check_whole(cli.directory / "out", undisturbed)


def test_a_cluster_that_was_killed_goes_on_where_it_was(cli: Cli, undisturbed: dict[str, np.ndarray]) -> None:
    first = json.loads(cli.ask("up", "--standby", "0", "--json"))
    cli.ask("submit", "job.yaml", "--out", "out", *SETS, *UNTIL_HURRIED)
    await_that(lambda: epochs(cli) >= 5, 120, lambda: "nothing was committed")
    for pid in [first["pid"], *cli.processes()]:
        kill(pid)
    cli.await_no_process()
    hurry(cli.directory)
    second = json.loads(cli.ask("up", "--standby", "0", "--json"))
    assert second["backups"] == first["backups"] and second["pid"] != first["pid"]
    await_that(lambda: "COMPLETED" in cli.ask("status"), 120, lambda: "it was not completed")
    check_whole(cli.directory / "out", undisturbed)
    cli.ask("down")
    cli.await_no_process()
    left = {path.name for path in (cli.directory / "runtime/riprap").iterdir()}
    assert not left & {".zookeeper", "backup", "up.json"}


def kill(pid: int) -> None:
    """SIGKILL, also for one that its parent's death has taken already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
