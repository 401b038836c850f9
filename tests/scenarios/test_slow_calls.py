"""A worker whose operator takes long is alive: it is waited for, named once, and not replaced."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest
from cli_harness import Cli, await_that, write_shards, write_topology
from shared_cluster import SharedCluster

from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True

SLOW = """\
import os
import time
from pathlib import Path

from riprap.operators.learning.logistic_regression import Gradient as Sound


class Gradient(Sound):
    def process_data(self, items):
        try:
            os.close(os.open(Path(__file__).with_name("slept"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().process_data(items)
        BODY
        return super().process_data(items)
"""
"""One call of one worker does what stands for BODY."""
TIGHT = ("--set", "cluster.heartbeat_timeout_s=1", "--set", "cluster.stall_timeout_s=3")
SCHEME = ("--set", "fault_tolerance={scheme: none}")
"""Every block counts, so that the job waits for each of them."""


@pytest.fixture(scope="module")
def calm(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The summary of the job without a long call."""
    directory = tmp_path_factory.mktemp("calm")
    write_shards(directory / "shards")
    return cluster.job(write_topology(directory / "job.yaml"), directory / "out", *SCHEME)


def write_operator(cli: Cli, body: str) -> None:
    (cli.directory / "mine.py").write_text(SLOW.replace("BODY", body))
    write_topology(cli.directory / "slow.yaml", processor="mine:Gradient")


def started(cli: Cli, out: str) -> str:
    """The worker that is in the long call, once somebody has said so."""
    found: list[str] = []

    def told() -> bool:
        events = read_events(cli.directory / out)
        found.extend(event["worker"] for event in events if event["event"] == "slow_call")
        return bool(found)

    await_that(told, 120, lambda: "nobody noticed the call")
    return found[0]


@pytest.mark.parametrize("body", ["time.sleep(5)", "until = time.time() + 5\n        while time.time() < until: pass"])
def test_a_long_call_is_waited_for_and_told_once(cli: Cli, calm: dict[str, Any], body: str) -> None:
    write_operator(cli, body)
    ended = cli.answer("run", "slow.yaml", "--out", "slow", "--json", *SCHEME, *TIGHT)
    assert ended.returncode == 0, ended.stderr
    slow: dict[str, Any] = json.loads(ended.stdout)
    assert slow["failures"] == [] and slow["model"]["sha256"] == calm["model"]["sha256"]
    (line,) = [line for line in ended.stderr.splitlines() if "has not returned" in line]
    assert re.fullmatch(r"process_data of processor\.\d has not returned for \d s \(.*mine\.py:\d+\)", line), line
    (event,) = [event for event in read_events(cli.directory / "slow") if event["event"] == "slow_call"]
    assert event["call"] == "process_data" and event["worker"] in line
    cli.await_no_process()


def test_a_worker_that_is_stopped_in_a_long_call_is_replaced(cli: Cli) -> None:
    write_operator(cli, "time.sleep(1000)")
    process = cli.start("run", "slow.yaml", "--out", "slow", "--json", *SCHEME, *TIGHT)
    worker = started(cli, "slow")
    pid = next(e["pid"] for e in read_events(cli.directory / "slow") if e["event"] == "slow_call")
    os.kill(pid, signal.SIGSTOP)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    failures = [(failure["worker"], failure["action"]) for failure in json.loads(out)["failures"]]
    assert (worker, "heartbeat missed") in failures, (
        "others may miss one too, on a machine that is busy with other work"
    )
    cli.await_no_process()


def test_a_call_that_never_returns_is_cancelled_at_once(cli: Cli) -> None:
    write_operator(cli, "time.sleep(1000)")
    process = cli.start("run", "slow.yaml", "--out", "slow", *SCHEME, *TIGHT)
    started(cli, "slow")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and err.endswith("interrupted\n")
    cli.await_no_process()
