"""Jobs of a cluster as users meet them: submitted, failed, gone on with, listed and forgotten."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import psutil
import pytest
import zmq
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry, paced
from shared_cluster import SharedCluster, undisturbed_model

from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import BACKUP, CLIENT
from riprap.controller import paths
from riprap.controller.client import Client
from riprap.controller.phases import TERMINAL
from riprap.controller.session import disconnect, open_client
from riprap.engine.run_directory.directory import read_events

EPOCHS = 200
DAY_S = 86_400
SETS = ("--set", f"input.repeat={EPOCHS // 10}")
IN_TIME = (*SETS, *paced(25_000))


@pytest.fixture(scope="module")
def undisturbed(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The model of the whole job, by name."""
    return undisturbed_model(cluster, tmp_path_factory.mktemp("undisturbed"), *SETS)


@pytest.fixture
def up(home: Cli) -> Iterator[Cli]:
    """The same, with no job and no run directory."""
    yield home
    for job in listed(home):
        home.call("cancel", job)
        await_phase(home, TERMINAL.__contains__)
        home.ask("forget", job)
    for out in home.directory.glob("out*"):
        shutil.rmtree(out)
    (home.directory / "hurry").unlink(missing_ok=True)


def status_of(cli: Cli, job: str = "trial") -> dict[str, Any]:
    return dict(json.loads(cli.ask("status", job, "--json")))


def epochs(cli: Cli, out: str = "out") -> int:
    path = cli.directory / out / "epochs.csv"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def await_epochs(cli: Cli, count: int) -> None:
    await_that(lambda: epochs(cli) >= count, 120, lambda: f"{count} epochs were not committed")


def await_phase(cli: Cli, holds: Callable[[str], bool]) -> dict[str, Any]:
    await_that(lambda: holds(status_of(cli)["phase"]), 120, lambda: str(status_of(cli)))
    return status_of(cli)


def agent_of(cli: Cli) -> int:
    """The process of this cluster's agent."""
    (agent,) = filter(is_first, cli.pids_of("agent"))
    return agent


def is_first(pid: int) -> bool:
    """Whether a process is no fork of one with the same command line."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        parent = process.parent()
        return parent is None or parent.cmdline() != process.cmdline()
    return False


def check_whole(out: Path, undisturbed: dict[str, np.ndarray]) -> None:
    with (out / "epochs.csv").open() as file:
        assert [int(row["epoch"]) for row in csv.DictReader(file)] == list(range(1, EPOCHS + 1))
    found = np.load(out / "model.npz")
    assert {name: found[name].tobytes() for name in found} == {n: a.tobytes() for n, a in undisturbed.items()}


def summary_of(cli: Cli, attempts: int = 1) -> dict[str, Any]:
    """The summary that the controller writes when a job has ended."""
    path = cli.directory / "out" / "summary.json"

    def there() -> bool:
        return path.exists() and json.loads(path.read_text())["attempts"] == attempts

    await_that(there, 120, lambda: f"no summary of attempt {attempts}; the job is {status_of(cli)}")
    return dict(json.loads(path.read_text()))


def test_a_submitted_job_suffers_its_faults_and_is_summed_up_as_a_run_is(up: Cli) -> None:
    faults = ["kill:processor.1@epoch=40", "kill:sink.0@50%", "stop:processor.2@items=70000,for=500ms"]
    specs = [word for fault in faults for word in ("--fault", fault)]
    run = json.loads(up.ask("run", "job.yaml", "--out", "out-alone", "--json", *SETS))
    up.ask("submit", "job.yaml", "--out", "out", *IN_TIME, *specs)
    summary = summary_of(up)
    assert summary.keys() == run.keys()
    assert (summary["completed"], summary["items"], summary["epochs"]) == (True, EPOCHS * 500, EPOCHS)
    assert summary["model"]["sha256"] == run["model"]["sha256"] and summary["metrics"].keys() == run["metrics"].keys()
    assert (summary["lost"]["items"], summary["lost"]["states"], summary["shortfall"]) == (0, 0, "")
    assert summary["faults_not_injected"] == run["faults_not_injected"]
    hits = [(failure["worker"], failure["action"]) for failure in summary["failures"]]
    assert hits[:2] == [("processor.1", "kill"), ("sink.0", "kill")] and ("processor.2", "stop") in hits
    for failure in summary["failures"][:2]:
        assert 0 < failure["detected_ms"] < failure["restored_ms"]
    assert summary["seconds"] > 0 and summary["startup_seconds"] > 0
    injected = [event["fault"] for event in read_events(up.directory / "out") if event["event"] == "fault_injected"]
    assert sorted(injected) == sorted([faults[0], "kill:sink.0@items=50000", "stop:processor.2@items=70000,for=0.5s"])


def test_no_duration_is_a_difference_of_two_hosts_clocks(cli: Cli) -> None:
    """A second host whose monotonic clock is a day ahead runs the sink, and the first one the source."""
    cli.ask("up", "--standby", "0", "--address", "127.0.0.1", "--json")
    zookeeper = json.loads(cli.ask("up", "--json"))["zookeeper"]
    ahead = ("unshare", "--time", "--monotonic", str(DAY_S))
    words = ("--zookeeper", zookeeper, "--host", "zz-ahead", "--address", "127.0.0.1")
    agent = cli.start("agent", *words, wrapper=ahead)
    with Client(zookeeper) as client:
        await_that(
            lambda: len(client.agents()) == 2 or agent.poll() is not None, 120, lambda: "an agent has not joined"
        )
    assert agent.poll() is None, f"time namespaces are needed here: {agent.communicate()}"
    four = ("--set", "stages.processor.parallelism=4")
    cli.ask("submit", "job.yaml", "--out", "out", *IN_TIME, *four, "--fault", "kill:processor.0@epoch=40")
    summary = summary_of(cli)
    workers = status_of(cli)["workers"]
    cli.ask("down")
    agent.terminate()
    agent.communicate(timeout=120)
    assert workers["source.0"]["host"] != workers["sink.0"]["host"] == workers["processor.0"]["host"] == "zz-ahead"
    (failure,) = summary["failures"]
    durations = [summary["seconds"], summary["startup_seconds"], summary["epoch_latency_ms"]["max"] / 1000]
    durations += [failure[f"{step}_ms"] / 1000 for step in ("detected", "restored", "caught_up")]
    assert all(0 <= duration < DAY_S / 2 for duration in durations), durations
    assert summary["completed"] and summary["epoch_latency_ms"]["median"] > 0
    cli.await_no_process()


@pytest.mark.parametrize("target", ["agent", "controller", "backup", "zookeeper"])
def test_only_workers_and_hosts_of_a_submitted_job_are_hit(cli: Cli, target: str) -> None:
    refused = cli.answer("submit", "job.yaml", "--fault", f"kill:{target}@epoch=1")
    assert refused.returncode == 2 and "only workers and hosts can be hit" in refused.stderr


def backed_up(cli: Cli) -> int:
    """Of how many workers the cluster's backup server keeps something."""
    (address,) = json.loads(cli.ask("up", "--json"))["backups"]
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        call_as(socket, CLIENT, BACKUP)
        socket.connect(address)
        socket.send(msgpack.packb({"type": "status"}))
        assert socket.poll(20_000), "the backup server does not answer"
        return int(msgpack.unpackb(socket.recv_multipart()[0])["workers"])


def nodes(cli: Cli) -> list[str]:
    """The jobs in ZooKeeper."""
    ensemble = open_client(json.loads(cli.ask("up", "--json"))["zookeeper"])
    try:
        return list(ensemble.get_children(paths.JOBS))
    finally:
        disconnect(ensemble)


def listed(cli: Cli) -> dict[str, str]:
    return {job["job"]: job["phase"] for job in json.loads(cli.ask("jobs", "--json"))}


def files_open(cli: Cli, service: str) -> list[str]:
    """The paths that a service of the cluster has open."""
    (process,) = map(psutil.Process, cli.pids_of(service))
    return [one.path for one in process.open_files()]


def test_a_job_whose_name_is_taken_is_refused_before_anything_is_written(up: Cli) -> None:
    up.ask("submit", "job.yaml", "--out", "out1", *UNTIL_HURRIED)
    refused = up.answer("submit", "job.yaml", "--out", "out2", *UNTIL_HURRIED)
    assert refused.returncode == 2 and "already\n  remedy: `riprap cancel trial`, or submit" in refused.stderr
    assert not (up.directory / "out2").exists(), "another command may name it"


def test_a_completed_job_leaves_nothing_once_it_is_forgotten(up: Cli) -> None:
    for number in (1, 2):  # the second is a new job of the same name, at once after the first was forgotten
        up.ask("submit", "job.yaml", "--out", f"out{number}", "--set", "input.repeat=5")
        await_phase(up, lambda phase: phase == "COMPLETED")
        await_that(lambda: backed_up(up) == 0, 120, lambda: "a completed job's backups are kept")
        assert listed(up) == {"trial": "COMPLETED"} and nodes(up) == ["trial"]
        assert status_of(up)["failures"] == []
        assert not [path for path in files_open(up, "controller") if "out" in path]
        assert up.ask("forget", "trial") == "forgot trial\n"
        assert listed(up) == {} and nodes(up) == []
    assert up.answer("forget", "trial").returncode == 2
    assert up.ask("forget", "--completed") == ""


def test_what_could_be_gone_on_with_is_kept_until_it_is_forgotten(up: Cli) -> None:
    up.ask("submit", "job.yaml", "--out", "out", "--set", "input.repeat=100000", *UNTIL_HURRIED)
    await_epochs(up, 5)
    running = up.answer("forget", "trial")
    assert running.returncode == 2 and "job trial is RUNNING" in running.stderr
    running = up.answer("submit", "--resume", "trial")
    assert running.returncode == 2 and "job trial is RUNNING, so there is nothing to go on with" in running.stderr
    attempts = (up.directory / "out/attempts.jsonl").read_bytes()
    up.ask("cancel", "trial")
    await_phase(up, lambda phase: phase == "CANCELLED")
    up.ask("forget", "--completed")
    assert listed(up) == {"trial": "CANCELLED"} and backed_up(up) == 1
    assert "riprap submit --resume trial" in up.ask("jobs")
    check_cannot_be_gone_on_with(up)
    assert (up.directory / "out/attempts.jsonl").read_bytes() == attempts, "nothing was attempted"
    up.ask("forget", "trial")
    assert listed(up) == {} and nodes(up) == [] and backed_up(up) == 0
    again = up.answer("submit", "--resume", "out/")
    assert again.returncode == 2 and "the job was forgotten, and with it its backups" in again.stderr


def check_cannot_be_gone_on_with(up: Cli) -> None:
    """Without its input, or when there is no such job."""
    (up.directory / "shards").rename(up.directory / "lost")
    lost = up.answer("submit", "--resume", "out/")
    assert lost.returncode == 2 and "input.path" in lost.stderr
    unknown = up.answer("submit", "--resume", "other")
    assert unknown.returncode == 2 and "there is no job other" in unknown.stderr
    (up.directory / "lost").rename(up.directory / "shards")


def test_a_job_that_ends_while_its_agent_is_frozen_is_completed(up: Cli, undisturbed: dict[str, np.ndarray]) -> None:
    up.ask("submit", "job.yaml", "--out", "out", *SETS, *UNTIL_HURRIED, "--set", "cluster.recovery_timeout_s=10")
    await_epochs(up, 5)
    agent = agent_of(up)
    os.kill(agent, signal.SIGSTOP)
    try:
        hurry(up.directory)
        status = await_phase(up, lambda phase: phase in ("COMPLETED", "FAILED"))
    finally:
        os.kill(agent, signal.SIGCONT)
    assert (status["phase"], status["error"]) == ("COMPLETED", "")
    reasons = {failure["reason"] for failure in status["failures"]}
    assert "host gone" in reasons <= {"host gone", "heartbeat missed"}, reasons
    check_whole(up.directory / "out", undisturbed)


def test_a_job_that_failed_goes_on_as_its_error_says(up: Cli, undisturbed: dict[str, np.ndarray]) -> None:
    slow = ("--set", "cluster.recovery_timeout_s=0.5", "--set", "cluster.heartbeat_timeout_s=0.5")
    up.ask("submit", "job.yaml", "--out", "out", *SETS, *UNTIL_HURRIED, *slow)
    await_epochs(up, 5)
    family = [agent_of(up), *(child.pid for child in psutil.Process(agent_of(up)).children(recursive=True))]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        status = await_phase(up, lambda phase: phase in ("COMPLETED", "FAILED"))
    finally:
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert status["phase"] == "FAILED"
    hurry(up.directory)
    refused = up.answer("run", "--resume", "out")
    assert refused.returncode == 2 and "riprap submit --resume" in refused.stderr
    words = shlex.split(status["remedy"].partition("go on where it ended with: riprap ")[2])
    assert words == ["submit", "--resume", "trial"]
    up.ask(*words)
    assert await_phase(up, lambda phase: phase in ("COMPLETED", "FAILED"))["phase"] == "COMPLETED"
    check_whole(up.directory / "out", undisturbed)
