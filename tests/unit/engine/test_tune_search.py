"""Which thresholds are measured and proposed, against jobs whose loss is a known function of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.tune.search import Measured, Setting, choose, for_the_whole, search

START = Setting(1e4, 1e3, 1e3)


def run(start: Setting, target: float, pilots: int, loss: Callable[[Setting], float], busy: int = 1) -> list[Measured]:
    """Drive a search to its end."""
    measured: list[Measured] = []
    asking = search(start, target, pilots)
    try:
        setting = next(asking)
        while True:
            measured.append(Measured(setting, loss(setting), 1.0, state_backups=busy))
            setting = asking.send(measured[-1])
    except StopIteration:
        return measured


def bound(alpha: float, size: float) -> Callable[[Setting], float]:
    """The loss of a job whose error is the bound of AF 3.5, of a result of this size."""
    return lambda one: (one.theta + alpha * one.l + one.gamma) / size


@given(
    size=st.floats(1e3, 1e8), alpha=st.floats(0, 100), target=st.floats(1e-3, 0.5), pilots=st.integers(1, 12),
)  # fmt: skip
def test_what_is_chosen_is_within_the_target_and_nothing_larger_that_was_measured_is(
    size: float, alpha: float, target: float, pilots: int
) -> None:
    loss = bound(alpha, size)
    measured = run(START, target, pilots, loss)
    chosen = choose(measured, target)
    assert 1 <= len(measured) <= pilots and len({one.setting for one in measured}) == len(measured)
    if chosen is None:
        assert all(one.loss > target for one in measured)
        return
    assert loss(chosen.setting) <= target
    larger = [one for one in measured if one != chosen and all(a >= b for a, b in zip(one.setting, chosen.setting))]
    assert all(one.loss > target for one in larger)


@given(size=st.floats(1e4, 1e9), target=st.floats(1e-3, 0.5))
def test_with_pilots_enough_the_best_ratio_is_met_within_a_factor(size: float, target: float) -> None:
    loss = bound(0.0, size)
    measured = run(START, target, 20, loss)
    chosen = choose(measured, target)
    assert chosen is not None
    assert loss(chosen.setting) > target / 4 or chosen.setting.gamma == 1.0


def test_the_three_go_together_by_decades_then_between_then_each_alone() -> None:
    measured = run(START, 0.01, 8, lambda one: one.theta / 2e6)  # 0.005, 0.05, 0.016, then theta alone: 0.016
    together = [START, START.scaled(10), START.scaled(math.sqrt(10))]
    assert [one.setting for one in measured[:3]] == together
    assert measured[3].setting == START._replace(theta=together[2].theta) and measured[3].loss > 0.01
    assert measured[4].setting == START._replace(l=together[2].l)
    assert measured[5].setting == START._replace(l=together[2].l, gamma=together[2].gamma)
    assert choose(measured, 0.01) == measured[5] and len(measured) == 6


def test_the_search_goes_down_while_nothing_is_good_enough_and_stops_at_its_budget() -> None:
    measured = run(START, 0.01, 3, lambda one: 1.0)
    assert [one.setting for one in measured] == [START, START.scaled(0.1), START.scaled(0.01)]
    assert choose(measured, 0.01) is None


def test_nothing_larger_is_tried_when_nothing_was_backed_up() -> None:
    measured = run(START, 0.01, 8, lambda one: 0.0, busy=0)
    assert [one.setting for one in measured] == [START]
    assert measured[0].idle and choose(measured, 0.01) == measured[0]


def test_thresholds_of_zero_and_infinity_stay() -> None:
    assert Setting(0.0, math.inf, 5.0).scaled(0.1) == Setting(0.0, math.inf, 1.0)
    fixed = Setting(0.0, 0.0, math.inf)
    assert len(run(fixed, 0.01, 8, lambda one: 1.0)) == 1
    assert fixed.rounded() == fixed


def test_a_good_setting_above_a_bad_one_was_luck() -> None:
    lucky = [Measured(START, 0.5, 1.0), Measured(START.scaled(10), 0.0, 1.0), Measured(START.scaled(0.1), 0.0, 1.0)]
    assert choose(lucky, 0.1) == lucky[2]


@pytest.mark.parametrize(
    ("growth", "wanted"),
    [(0.0, Setting(120.0, 10.0, 1.0)), (1.0, Setting(12000.0, 1000.0, 100.0)), (0.5, Setting(1200.0, 100.0, 10.0))],
)
def test_thresholds_grow_as_the_results_do(growth: float, wanted: Setting) -> None:
    assert for_the_whole(Setting(123.4, 10.0, 1.0), 1000, 100_000, growth) == wanted


@given(st.floats(1e-9, 1e12))
def test_a_proposal_is_rounded_down_to_two_digits(value: float) -> None:
    theta = Setting(value, 1, 1).rounded().theta
    assert theta <= value * (1 + 1e-6) and value < theta * 1.1001
    assert len(f"{theta:e}".partition("e")[0].rstrip("0").replace(".", "")) <= 2
