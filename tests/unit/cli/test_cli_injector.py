"""Faults hit exactly the process they are aimed at, at their moment, and leave nobody stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codec.events import EventLog
from engine.cli.epochs import Committed
from engine.cli.faults import parse_fault
from engine.cli.injector import SLOW_PERIOD_S, Injector, should_run
from engine.cli.targets import Targets, Victim, descends_from

SLEEPER = "import time; time.sleep(60)"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER])
    yield process
    process.kill()
    process.wait()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def await_state(pid: int, states: str) -> None:
    deadline = time.monotonic() + 10
    while state_of(pid) not in states:
        assert time.monotonic() < deadline, f"{pid} is {state_of(pid)}, not one of {states}"
        time.sleep(0.001)


def make(tmp_path: Path, child: subprocess.Popen[bytes], *specs: str) -> Injector:
    targets = Targets()
    targets.update_workers({"workers": {"processor.1": {"pid": child.pid, "incarnation": 4}}}, os.getpid())
    committed, events = Committed(tmp_path, sinks=1), EventLog(tmp_path / "events.jsonl")
    return Injector([parse_fault(spec) for spec in specs], targets, committed, events)


def events_of(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


def commit(tmp_path: Path, epoch: int) -> None:
    with (tmp_path / "epochs.csv").open("a") as stream:
        stream.write(f"{epoch},100,1.0,1.0\n")


def test_a_kill_comes_with_its_epoch_and_not_before(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "kill:processor.1@epoch=2")
    commit(tmp_path, 1)
    injector.step(time.monotonic())
    assert injector.injected == [] and child.poll() is None
    commit(tmp_path, 2)
    injector.step(time.monotonic())
    assert child.wait(10) == -signal.SIGKILL
    (injected,) = injector.injected
    assert (injected.target, injected.incarnation, injected.action) == ("processor.1", 4, "kill")
    (event,) = events_of(tmp_path)
    assert (event["event"], event["monotonic"], event["incarnation"]) == ("fault_injected", injected.at, 4)
    assert injector.pending == []


def test_items_and_seconds_are_moments_too(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "stop:processor.1@items=150,for=1s", "kill:processor.1@seconds=5")
    commit(tmp_path, 1)
    injector.first_item_at = 100.0
    injector.step(104.9)
    assert injector.injected == []
    commit(tmp_path, 2)
    injector.step(104.9)
    assert [one.action for one in injector.injected] == ["stop"]
    injector.step(105.0)
    assert [one.action for one in injector.injected] == ["stop", "kill"]


def test_a_stop_ends_with_its_time(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "stop:processor.1@epoch=0,for=3s")
    now = time.monotonic()
    injector.step(now)
    await_state(child.pid, "T")
    injector.step(injector.injected[0].at + 2.9)
    assert state_of(child.pid) == "T"
    injector.step(injector.injected[0].at + 3.0)
    await_state(child.pid, "SR")


def test_whoever_is_stopped_runs_again_when_the_run_ends(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "stop:processor.1@epoch=0,for=3000s", "kill:processor.1@epoch=9")
    injector.start()
    await_state(child.pid, "T")
    injector.stop()
    await_state(child.pid, "SR")
    assert [event["event"] for event in events_of(tmp_path)] == ["fault_injected", "fault_not_injected"]


def test_a_slow_down_alternates(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "slow:processor.1@epoch=0,for=3s,cpu=0.5")
    injector.step(time.monotonic())
    since = injector.injected[0].at
    for period in range(3):
        injector.step(since + (period + 0.1) * SLOW_PERIOD_S)
        await_state(child.pid, "SR")
        injector.step(since + (period + 0.9) * SLOW_PERIOD_S)
        await_state(child.pid, "T")
    injector.step(since + 3.0)
    await_state(child.pid, "SR")


@pytest.mark.parametrize("cpu", [0.0, 0.1, 0.5, 0.9])
def test_the_share_of_time_that_a_slowed_process_runs(cpu: float) -> None:
    runs = [should_run(n * SLOW_PERIOD_S / 1000, cpu) for n in range(5000)]
    assert abs(sum(runs) / len(runs) - cpu) < 0.01


def test_a_fault_waits_for_its_target(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "kill:processor.2@epoch=0")
    injector.step(time.monotonic())
    assert len(injector.pending) == 1
    injector._targets.update_workers({"workers": {"processor.2": {"pid": child.pid, "incarnation": 1}}}, os.getpid())
    injector.step(time.monotonic())
    assert child.wait(10) == -signal.SIGKILL


def test_a_dead_target_is_not_hit_again(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "kill:processor.1@epoch=0", "kill:processor.1@epoch=0")
    injector.step(time.monotonic())
    child.wait(10)
    injector.step(time.monotonic())
    assert (len(injector.injected), len(injector.pending)) == (1, 1)


def test_a_process_that_is_none_of_ours_is_never_a_target(child: subprocess.Popen[bytes]) -> None:
    targets = Targets()
    targets.update_workers({"workers": {"processor.1": {"pid": 1, "incarnation": 1}}}, os.getpid())
    targets.update_workers({"workers": {"processor.2": {"pid": child.pid, "incarnation": 1}}}, child.pid)
    assert targets.find("processor.1") is None and targets.find("processor.2") is None


def test_a_victim_survives_its_pid_being_forgotten(child: subprocess.Popen[bytes]) -> None:
    victim = Victim(child.pid)
    assert victim.alive() and descends_from(child.pid, os.getpid())
    child.kill()
    child.wait()
    assert not victim.alive() and not victim.signal(signal.SIGCONT)


def test_a_new_incarnation_replaces_the_old_one(child: subprocess.Popen[bytes]) -> None:
    targets = Targets()
    for incarnation in (1, 2):
        status = {"workers": {"processor.1": {"pid": child.pid, "incarnation": incarnation}}}
        targets.update_workers(status, os.getpid())
        found = targets.find("processor.1")
        assert found and found.incarnation == incarnation
