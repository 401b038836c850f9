"""Consistency models (AF 5): how far a task runs ahead of its feedback."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.flow.pace import ASP, Pace

LEFT, RIGHT = (1, 0), (1, 1)


def reach(pace: Pace, feedback: dict[tuple[int, int], int], windows: int = 50) -> int:
    """The last window whose items may be processed."""
    return max(epoch for epoch in range(1, windows + 1) if pace.allows(epoch, feedback))


def test_bsp_waits_for_the_feedback_of_each_window() -> None:
    pace = Pace({LEFT: 0})
    assert reach(pace, {}) == 1
    assert reach(pace, {LEFT: 1}) == 2
    assert reach(pace, {LEFT: 7}) == 8


def test_ssp_is_its_staleness_further() -> None:
    for staleness in range(5):
        assert reach(Pace({LEFT: staleness}), {LEFT: 3}) == 4 + staleness


def test_asp_never_waits() -> None:
    assert math.inf == ASP
    assert reach(Pace({LEFT: ASP, RIGHT: ASP}), {}) == 50


def test_the_slowest_link_counts() -> None:
    assert reach(Pace({LEFT: 0, RIGHT: 0}), {LEFT: 9}) == 1
    assert reach(Pace({LEFT: 0, RIGHT: 2}), {LEFT: 9, RIGHT: 4}) == 7


def test_without_feedback_edges_nothing_waits() -> None:
    assert reach(Pace({}), {}) == 50


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=4))
def test_nobody_is_further_ahead_of_any_link_than_allowed(links: list[tuple[int, int]]) -> None:
    pace = Pace({(1, task): stale for task, (stale, _) in enumerate(links)})
    furthest = reach(pace, {(1, task): came for task, (_, came) in enumerate(links)}, 60)
    assert furthest == min(came + 1 + stale for stale, came in links)
