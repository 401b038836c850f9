"""The bounds of AF 3.5: what all copies may lose, over any number of failures, stays below Theta, L and Gamma."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.schemes.parts.thresholds import Limits, Thresholds

USER = {"theta": 1000.0, "l": 64.0, "gamma": 8.0, "beta": 1.0, "window": "none", "window_epochs": 1}


def thresholds(copies: int = 1, depth: int = 0, **options: Any) -> Thresholds:
    return Thresholds(USER | options, copies, depth)


@given(st.integers(1, 8), st.integers(0, 4), st.floats(1, 4), st.lists(st.integers(0, 7), max_size=60))
def test_all_failures_of_all_copies_stay_below_the_users_thresholds(
    copies: int, depth: int, beta: float, victims: list[int]
) -> None:
    """3.5.1 to 3.5.3: each failure may cost the limits that its worker has; an error grows by beta at each operator
    behind it, and the sum of all of them is at most what the user allows."""
    made = thresholds(copies, depth, beta=beta)
    failures: dict[int, list[int]] = {copy: [] for copy in range(copies)}
    costs = []
    for victim in victims:
        costs.append(made.after(failures[victim % copies], 3))
        failures[victim % copies].append(3)
    for i, allowed in enumerate((1000.0, 64.0, 8.0)):
        assert sum(cost[i] for cost in costs) * beta**depth <= allowed * (1 + 1e-9)
    for copy in range(copies):
        assert sum(cost.share for cost, victim in zip(costs, victims) if victim % copies == copy) <= 1


def test_each_copy_starts_with_half_of_its_share() -> None:
    assert thresholds(copies=4).after([], 0) == Limits(125.0, 8.0, 1.0, 0.5)
    assert thresholds(copies=4, depth=2, beta=2.0).after([], 0).theta == 1000 / 8 / 4


def test_each_failure_halves_what_is_left() -> None:
    made = thresholds()
    assert [made.after([0] * k, 0).theta for k in range(4)] == [500.0, 250.0, 125.0, 62.5]


def test_a_hopping_window_forgets_its_failures_at_its_end() -> None:
    made = thresholds(window="hopping", window_epochs=3)
    failures = [0, 1, 2, 4]
    assert [made.counted(failures, epoch) for epoch in range(8)] == [4, 4, 4, 1, 1, 1, 0, 0], (
        "one that may have taken from window 4 counts in those before it, too"
    )


def test_a_sliding_window_forgets_failures_as_they_grow_old() -> None:
    made = thresholds(window="sliding", window_epochs=3)
    assert [made.counted([2, 4], epoch) for epoch in range(4, 9)] == [2, 1, 1, 0, 0]


@given(st.sampled_from(["hopping", "sliding"]), st.integers(1, 5), st.lists(st.integers(0, 12), max_size=12))
def test_no_window_loses_more_than_the_user_allows(window: str, length: int, failed: list[int]) -> None:
    """Of the windows that are aligned (hopping), or of all there are (sliding), each has its failures bounded."""
    made, failures, costs = thresholds(window=window, window_epochs=length), [], []
    for epoch in sorted(failed):
        costs.append((epoch, made.after(failures, epoch).theta))
        failures.append(epoch)
    for start in range(0, 13, length if window == "hopping" else 1):
        assert sum(cost for epoch, cost in costs if start <= epoch < start + length) <= 1000.0 * (1 + 1e-9)


@given(
    st.sampled_from(["hopping", "sliding"]), st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12),
)  # fmt: skip
def test_no_window_loses_more_though_some_senders_are_ahead(
    window: str, length: int, failed: list[tuple[int, int]]
) -> None:
    """A failure may take from the window that is open, and from those that a sender ahead has begun."""
    made, failures, costs = thresholds(window=window, window_epochs=length), [], []
    for epoch, ahead in sorted(failed):
        costs.append((epoch, epoch + ahead, made.after(failures, epoch).theta))
        failures.append(epoch + ahead)
    for start in range(0, 20, length if window == "hopping" else 1):
        whole = range(start, start + length)
        assert sum(cost for first, last, cost in costs if first < whole.stop and last >= start) <= 1000.0 * (1 + 1e-9)


def test_a_decaying_window_has_everything_at_all_times() -> None:
    made = thresholds(copies=8, depth=3, beta=2.0, window="decaying")
    assert made.after([1, 2, 3], 3) == Limits(1000.0, 64.0, 8.0, 1.0)


@pytest.mark.parametrize("name", ["theta", "l", "gamma"])
def test_an_infinite_threshold_stays_one(name: str) -> None:
    limits = thresholds(copies=2, **{name: float("inf")}).after([0, 0], 0)
    assert limits[("theta", "l", "gamma").index(name)] == float("inf")
