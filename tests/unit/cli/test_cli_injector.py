"""Faults hit exactly the process they are aimed at, at their moment, and leave nobody stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.events import EventLog
from riprap.controller.effects import SLOW_PERIOD_S, Effect, Victim
from riprap.controller.labels import labelled
from riprap.engine.run.faults import parse_fault
from riprap.engine.run.injector import Injector
from riprap.engine.run.targets import Targets, descends_from
from riprap.engine.run_directory.epochs import Committed

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
    targets.update_workers({"workers": {"processor.1": {"pid": child.pid, "incarnation": 4}}}, {"": os.getpid()})
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
    assert child.wait(120) == -signal.SIGKILL
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
    assert injector.not_injected == {"kill:processor.1@epoch=9": "the job ended before that moment"}


def test_a_slow_down_alternates(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "slow:processor.1@epoch=0,for=3s,cpu=0.5")
    injector.step(time.monotonic())
    since = injector.injected[0].at
    # It may run for half a period; having run for 0.7 periods it is stopped for as long.
    for periods, states in [(0.25, "T"), (0.6, "SR"), (1.0, "SR"), (1.3, "T"), (1.9, "T"), (2.1, "SR"), (2.7, "T")]:
        injector.step(since + periods * SLOW_PERIOD_S)
        await_state(child.pid, states)
    injector.step(since + 3.0)
    await_state(child.pid, "SR")


class Noted:
    """A victim that only notes how long it was let run."""

    def __init__(self) -> None:
        self.running = False

    def signal(self, signum: signal.Signals) -> bool:
        self.running = signum == signal.SIGCONT
        return True


@given(st.sampled_from([0.01, 0.1, 0.5, 0.9]), st.lists(st.floats(0.0005, 0.03), min_size=50, max_size=200))
def test_a_slowed_process_never_gets_more_than_its_share_however_late_the_injector_is(
    cpu: float, ticks: list[float]
) -> None:
    victim, now, ran = Noted(), 0.0, 0.0
    effect = Effect(parse_fault(f"slow:processor.1@epoch=0,for=3600s,cpu={cpu}"), victim, 0.0)  # type: ignore[arg-type]
    longest = max(ticks)
    for tick in ticks:
        ran += tick * victim.running
        now += tick
        assert effect.step(now)
    assert ran <= cpu * now + SLOW_PERIOD_S + longest, "but for the turn under way"


def test_a_busy_process_slowed_to_a_tenth_computes_a_tenth_and_all_of_it_afterwards(tmp_path: Path) -> None:
    """Its own CPU time against that of a period of the same length after the end."""
    busy = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        injector = make(tmp_path, busy, "slow:processor.1@epoch=0,for=1s,cpu=0.1")
        looks, step = [time.monotonic()], injector.step
        injector.step = lambda now: (looks.append(now), step(now))  # type: ignore[method-assign,assignment]
        before = cpu_seconds(busy.pid)
        injector.start()
        injector.join(120)
        slowed = cpu_seconds(busy.pid) - before
        await_state(busy.pid, "R")
        used, since = time.process_time(), cpu_seconds(busy.pid)
        while cpu_seconds(busy.pid) < since + 0.3:
            assert state_of(busy.pid) == "R" and time.process_time() - used < 10
    finally:
        busy.kill()
        busy.wait()
    late = max(later - earlier for earlier, later in pairwise(looks))
    allowed = 0.1 * (looks[-1] - looks[0]) + SLOW_PERIOD_S + late
    assert 0.0 < slowed <= allowed, "a tenth of the time, the turn under way, and the injector's own delay"


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with one thread, in the scheduler's nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_a_fault_waits_for_its_target(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "kill:processor.2@epoch=0")
    injector.step(time.monotonic())
    assert len(injector.pending) == 1
    injector._targets.update_workers(
        {"workers": {"processor.2": {"pid": child.pid, "incarnation": 1}}}, {"": os.getpid()}
    )
    injector.step(time.monotonic())
    assert child.wait(120) == -signal.SIGKILL


def test_a_dead_target_is_not_hit_again(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child, "kill:processor.1@epoch=0", "kill:processor.1@epoch=0")
    injector.step(time.monotonic())
    child.wait(120)
    injector.step(time.monotonic())
    assert (len(injector.injected), len(injector.pending)) == (1, 1)
    injector.stop()
    assert list(injector.not_injected.values()) == ["processor.1 was not running from then on"]


@pytest.mark.parametrize("other", ["stop:processor.1@epoch=1,for=1s", "slow:processor.1@epoch=1,for=1s,cpu=0.5"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_stop_lasts_as_long_as_it_says_whatever_else_hits_the_same_process(
    tmp_path: Path, child: subprocess.Popen[bytes], other: str, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[signal.Signals] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, signum: sent.append(signum))
    specs = ["stop:processor.1@epoch=1,for=3s", other]
    injector = make(tmp_path, child, *(specs if is_first else reversed(specs)))
    commit(tmp_path, 1)
    began = time.monotonic()
    for tick in range(250):
        injector.step(began + tick / 100)
        assert signal.SIGCONT not in sent, f"it runs again after {tick / 100} s"
    injector.step(time.monotonic() + 3)
    assert sent[-1] == signal.SIGCONT and sent.count(signal.SIGCONT) == 1 and len(injector.injected) == 2


def test_a_process_that_is_none_of_ours_is_never_a_target(child: subprocess.Popen[bytes]) -> None:
    targets = Targets()
    targets.update_workers({"workers": {"processor.1": {"pid": 1, "incarnation": 1}}}, {"": os.getpid()})
    targets.update_workers({"workers": {"processor.2": {"pid": child.pid, "incarnation": 1}}}, {"": child.pid})
    assert targets.find("processor.1") == {} == targets.find("processor.2")


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
        targets.update_workers(status, {"": os.getpid()})
        found = targets.find("processor.1")
        assert {name: victim.incarnation for name, victim in found.items()} == {"processor.1": incarnation}


def test_an_order_kills_at_once_and_is_recorded_as_a_fault(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    injector = make(tmp_path, child)
    assert not injector.kill("processor.2")
    injector.first_item_at = time.monotonic()
    assert injector.kill("processor.1") and child.wait(120) == -signal.SIGKILL
    assert not injector.kill("processor.1"), "it is gone"
    (event,) = events_of(tmp_path)
    assert (event["event"], event["action"], event["target"], event["incarnation"]) == (
        "fault_injected", "kill", "processor.1", 4,
    )  # fmt: skip
    assert [(one.target, one.incarnation) for one in injector.injected] == [("processor.1", 4)]


def test_a_domain_is_hit_with_its_agents_and_nobody_else(tmp_path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-S", "-c", SLEEPER]) for _ in range(5)]
    try:
        labels = {host: labelled(host, {"rack": rack}) for host, rack in (("h1", "r1"), ("h2", "r2"))}
        targets = Targets(labels, {"h1": "agent", "h2": "agent.2"})
        workers = {f"count.{n}": {"pid": children[n].pid, "incarnation": 1, "host": f"h{1 + n % 2}"} for n in range(3)}
        targets.update_workers({"workers": workers}, {"h1": os.getpid(), "h2": os.getpid()})
        targets.update_services({"agent": children[3].pid, "agent.2": children[4].pid})
        committed, events = Committed(tmp_path, sinks=1), EventLog(tmp_path / "events.jsonl")
        injector = Injector([parse_fault("kill:domain:rack=r1@epoch=1")], targets, committed, events)
        injector.step(time.monotonic())
        assert injector.injected == []
        commit(tmp_path, 1)
        injector.step(time.monotonic())
        assert [children[n].wait(120) for n in (0, 2, 3)] == [-signal.SIGKILL] * 3
        assert [children[n].poll() for n in (1, 4)] == [None, None]
        assert [hit.target for hit in injector.injected] == ["count.0", "count.2", "agent"], (
            "the agent after its workers"
        )
        assert [event["fault"] for event in events_of(tmp_path)] == ["kill:domain:rack=r1@epoch=1"] * 3
        assert injector.pending == [] and not injector.kill("host:h1")
        assert injector.kill("primaries") and children[1].wait(120) == -signal.SIGKILL
        assert children[4].poll() is None, "no worker"
    finally:
        for child in children:
            child.kill()
            child.wait()
