"""The ring of spans against a bounded deque, timed calls, what a killed process leaves, and what pumps record."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_pairs import listener, network, receive

from riprap.engine.wire.trace import KINDS, SPAN, Timed, Trace


def spans_in(path: Path) -> list[tuple[int, int, str, int]]:
    """(start, end, kind, epoch) of the spans in a trace's file, by time."""
    slots = np.sort(np.fromfile(path, dtype=SPAN), order="start_ns")
    rows = [(int(s["start_ns"]), int(s["end_ns"]), int(s["tag"])) for s in slots if s["tag"]]
    return [(start, end, KINDS[tag & 255], tag >> 8) for start, end, tag in rows]


def kinds_in(path: Path) -> list[str]:
    return [kind for _, _, kind, _ in spans_in(path)]


@given(
    capacity=st.sampled_from([1, 2, 8]),
    adds=st.lists(st.tuples(st.sampled_from(KINDS[1:]), st.integers(1, 9), st.integers(0, 2**40)), max_size=30),
)
def test_a_trace_keeps_the_newest_spans(capacity: int, adds: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder:
        path, model, now = Path(folder) / "a.spans", deque[tuple[int, int, str, int]](maxlen=capacity), 1
        trace = Trace(path, capacity)
        for kind, length, epoch in adds:
            trace.add(kind, (now, now + length), (0, length), epoch)
            model.append((now, now + length, kind, epoch))
            now += length
        assert spans_in(path) == list(model) and trace.count == len(adds)


@pytest.mark.parametrize("capacity", [0, 3, 12])
def test_a_capacity_is_a_power_of_two(tmp_path: Path, capacity: int) -> None:
    with pytest.raises(ValueError, match=f"power of two, not {capacity}"):
        Trace(tmp_path / "a.spans", capacity)


def test_a_timed_call_returns_and_raises_what_the_function_does(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    trace = Trace(path, 8)
    assert Timed(trace, "compute", int)("ff", base=16) == 255
    with pytest.raises(ValueError, match="invalid literal"):
        Timed(trace, "code", int)("x")
    assert kinds_in(path) == ["compute", "code"]
    assert all(start < end for start, end, _, _ in spans_in(path))


def test_of_calls_within_each_other_the_outer_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    trace = Trace(path, 8)
    inner = Timed(trace, "send", lambda: 1)

    def fail() -> int:
        raise KeyError(inner())

    outer = Timed(trace, "compute", fail)
    with pytest.raises(KeyError):
        outer()
    assert inner() == 1
    assert kinds_in(path) == ["compute", "send"], "the first call of the inner one is in the outer one's span"


def test_the_epoch_holds_until_the_next_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    trace = Trace(path, 8)
    work = Timed(trace, "compute", lambda: None)
    tell = Timed(trace, "nothing", lambda epoch: epoch + 1, lambda epoch: epoch)
    work()
    assert tell(7) == 8
    work()
    work()
    assert [epoch for *_, epoch in spans_in(path)] == [0, 7, 7]


def test_idle_time_is_what_lies_behind_the_last_span(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    trace = Trace(path, 8)
    trace.idle()
    assert not spans_in(path), "nothing is known of the time before the first span"
    trace.add("compute", (1, 5), (0, 4))
    trace.idle()
    assert [(start, kind) for start, _, kind, _ in spans_in(path)] == [(1, "compute"), (5, "wait")]


def compute_5_ms() -> None:
    until = time.thread_time_ns() + 5_000_000
    while time.thread_time_ns() < until:
        pass


def test_a_thread_that_is_held_up_was_not_on_a_cpu(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    trace = Trace(path, 8)
    Timed(trace, "compute", threading.Event().wait)(0.02)
    Timed(trace, "compute", compute_5_ms)()
    slots = np.fromfile(path, dtype=SPAN)
    (held_up, busy, *_), cpu = slots["end_ns"] - slots["start_ns"], slots["cpu_end_ns"] - slots["cpu_start_ns"]
    assert 0 <= cpu[0] < held_up / 2
    assert 5_000_000 <= cpu[1] <= 1.01 * busy


def test_what_a_killed_process_recorded_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.spans"
    code = f"""
import os
from riprap.engine.wire.trace import Trace
trace = Trace({str(path)!r}, 8)
for i in range(3):
    trace.add("compute", (i + 1, i + 2), (0, 1))
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == -9
    assert kinds_in(path) == ["compute"] * 3


def test_a_disk_that_is_full_is_an_error_when_the_trace_is_made(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError):
            Trace(tmp_path / "a.spans", 1024)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def await_asleep(names: tuple[str, ...]) -> None:
    """Return when all threads of these names sleep (proc(5), stat): what wakes them ends a span of waiting."""
    deadline = time.monotonic() + 30
    while {state for name, state in map(thread_state, Path("/proc/self/task").iterdir()) if name in names} != {"S"}:
        assert time.monotonic() < deadline, "a network thread does not sleep"
        os.sched_yield()


def thread_state(task: Path) -> tuple[str, str]:
    name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
    return name, fields.split()[0]


def test_network_threads_record_what_they_do(tmp_path: Path) -> None:
    names = ("upstream", "downstream")
    with listener() as (receiver, bound), network() as sender:
        sender.trace(*(Trace(tmp_path / f"{name}.spans", 1024) for name in names))
        sender.start()
        with pytest.raises(RuntimeError, match="before start"):
            sender.trace(Trace(tmp_path / "x", 8), Trace(tmp_path / "y", 8))
        link = sender.connect(bound, b"sender")
        for number in range(3):
            assert sender.send(link, b"%d" % number)
            ((_, _, header, _),) = receive(receiver, 1)
            assert header == b"%d" % number
        receiver.reply(b"sender", b"heard")
        assert [header for _, _, header, _ in receive(sender, 1)] == [b"heard"]
        await_asleep(names)
    upstream, downstream = (kinds_in(tmp_path / f"{name}.spans") for name in names)
    assert set(upstream) == {"wait"}
    # What was sent while it slept, the sender sent itself (engine/wire/_pump.pxd); the link it opened.
    assert {"send", "wait"} <= set(downstream) <= {"send", "wait", "receive"}
    for name in names:
        times = [time for start, end, _, _ in spans_in(tmp_path / f"{name}.spans") for time in (start, end)]
        assert times == sorted(times), "spans of a thread do not overlap"
