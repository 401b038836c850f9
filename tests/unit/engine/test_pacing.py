"""When a backup is due: what it costs against the CPU time that the task uses, and who waits for it."""

from __future__ import annotations

import math

import pytest

from riprap.engine.schemes.parts.pacing import BYTE_S, IDLE, PAUSE_S, RECORD_S, Pacing

SHARE = 0.01
PAUSE = (RECORD_S + 0.002) / SHARE
"""After a backup that took 2 ms to make, in CPU seconds."""


class Clocks:
    """Both clocks, set by the test."""

    time = used = 0.0

    def now(self) -> float:
        return self.time

    def cpu(self) -> float:
        return self.used

    def advance(self, seconds: float, busy: float = 1.0) -> None:
        self.time += seconds
        self.used += busy * seconds


def paced(least_s: float = 0.0, size: int = 0) -> tuple[Clocks, Pacing]:
    """A backup of so many bytes was made just now, in 2 ms."""
    clocks = Clocks()
    pacing = Pacing(clocks, SHARE, least_s)
    assert pacing.is_due, "the first one"
    clocks.advance(0.002)
    pacing.made(0.0, size)
    return clocks, pacing


def test_a_backup_takes_its_share_of_the_cpu_time_that_was_used() -> None:
    clocks, pacing = paced()
    clocks.advance(2 * PAUSE - 0.001, busy=0.5)
    assert not pacing.is_due
    clocks.advance(0.002, busy=0.5)
    assert pacing.is_due


def test_bytes_cost_too() -> None:
    clocks, pacing = paced(size=10_000_000)
    clocks.advance(PAUSE + 0.9e7 * BYTE_S / SHARE)
    assert not pacing.is_due
    clocks.advance(0.1e7 * BYTE_S / SHARE + 0.001)
    assert pacing.is_due


def test_an_idle_task_need_not_wait_for_ever() -> None:
    clocks, pacing = paced()
    clocks.advance(IDLE * max(PAUSE, PAUSE_S) - 0.001, busy=0.0)
    assert not pacing.is_due
    clocks.advance(0.002, busy=0.0)
    assert pacing.is_due


def test_whoever_presses_has_it_at_once() -> None:
    _, pacing = paced(least_s=0.5)
    assert not pacing.is_due
    pacing.press()
    assert pacing.is_due


def test_a_timer_is_the_shortest_pause() -> None:
    clocks, pacing = paced(least_s=2.0)
    clocks.advance(1.9)
    assert not pacing.is_due and pacing.wait_s == pytest.approx(0.1)
    clocks.advance(0.2)
    assert pacing.is_due and pacing.late_s < 0.2


def test_what_is_put_off_comes_later() -> None:
    clocks, pacing = paced()
    clocks.advance(10.0)
    pacing.put_off(0.01)
    assert not pacing.is_due and pacing.wait_s == pytest.approx(0.01)
    clocks.advance(0.02)
    assert pacing.is_due and pacing.late_s > 8


def test_who_is_waited_for_is_late() -> None:
    """So a source that is pressed does not wait for its output to arrive."""
    clocks, pacing = paced()
    clocks.advance(0.001)
    assert pacing.late_s < 0
    pacing.press()
    assert pacing.late_s == math.inf
    pacing.made(clocks.now(), 0)
    assert pacing.late_s < 0
