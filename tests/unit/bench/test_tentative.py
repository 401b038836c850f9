"""The reading of an outage from a run's epochs and its tentative windows."""

from __future__ import annotations

from typing import Any

import pytest

from bench.runs import Run
from bench.tentative import outage_of

KILLED = {"action": "kill", "injected_at": 10.0, "detected_ms": 50.0}
EPOCHS = [(number, number * 10, 20.0, 9.0 + number * 0.1) for number in range(1, 10)]
BACK = [(number, number * 10, 30.0, 12.0 + number * 0.1) for number in range(10, 13)]


LOST: dict[str, Any] = {"lost": {"items": 0}}


def line(shown_at: float, amended_at: float | str, completeness: str = "0.5") -> dict[str, str]:
    return {
        "shown_at": str(shown_at), "amended_at": f"{amended_at}  ", "completeness": completeness, "latency_ms": "40.0",
    }  # fmt: skip


def run(*tentative: dict[str, str], **others: Any) -> Run:
    return Run({"failures": [KILLED | others]} | LOST, [*EPOCHS, *BACK], [*tentative])


def test_the_moments_are_counted_from_the_kill() -> None:
    found = outage_of(run(line(10.2, 13.0), line(11.5, 13.1, completeness="")))
    assert (found.tentative_ms, found.exact_ms, found.amended_ms) == pytest.approx((200.0, 3000.0, 3100.0))
    assert (found.windows, found.completeness, found.latency) == (2, 0.5, (2.0, 2.0))
    assert found.silence_ms == pytest.approx(1500.0)


def test_an_outage_without_tentative_output_is_silent_until_its_end() -> None:
    found = outage_of(run())
    assert (found.tentative_ms, found.amended_ms, found.latency, found.windows) == (None, None, None, 0)
    assert found.silence_ms == pytest.approx(3000.0)


def test_tentative_output_before_the_kill_is_not_a_result() -> None:
    with pytest.raises(RuntimeError, match="before the kill"):
        outage_of(run(line(9.95, 13.0)))


def test_exact_windows_that_never_pause_do_not_go_on_later() -> None:
    at_once = [(number, number * 10, 20.0, 10.0 + number * 0.05) for number in range(60)]
    found = outage_of(Run({"failures": [KILLED]} | LOST, [*EPOCHS, *at_once], []))
    assert found.exact_ms is None
    later = outage_of(Run({"failures": [KILLED]} | LOST, [*EPOCHS, *at_once, (70, 700, 20.0, 14.0)], []))
    assert later.exact_ms is None, "that pause has another cause"


def test_in_place_nothing_is_amended_and_something_is_left_out() -> None:
    done = run(line(10.1, ""))
    done.summary["lost"] = {"items": 5}
    found = outage_of(done)
    assert (found.windows, found.amended_ms, found.left_out) == (1, None, 5)
    assert found.exact_ms == pytest.approx(3000.0), "the first window behind those that lack something"
