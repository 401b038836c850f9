"""The decision by cost: how long healthy workers are waited for, and when a silent one is not worth it any more."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from riprap.engine.spreads.patience import (
    AT_FIRST_S,
    DETECTED_S,
    LEAST_S,
    LOOK_LEAST_S,
    NEEDLESS,
    NEWS,
    WAITS,
    ByCost,
    Fixed,
    index_of,
    make_patience,
)

Draw = Callable[[random.Random], float]
WAITS_OF: dict[str, Draw] = {
    "even": lambda rng: rng.uniform(0.001, 0.003),
    "exponential": lambda rng: rng.expovariate(1 / 0.003),
    "pauses": lambda rng: rng.expovariate(1 / 0.001) + (rng.uniform(0.0, 0.05) if rng.random() < 0.01 else 0.0),
    "heavy": lambda rng: 0.001 * rng.paretovariate(TAIL_OF_HEAVY),
}
TAIL_OF_HEAVY = 3.0


def fed(draw: Draw, count: int = WAITS, seed: int = 0) -> ByCost:
    patience, rng = ByCost(), random.Random(seed)
    for _ in range(count):
        patience.waited(draw(rng))
    return patience


def test_the_option_names_the_decision() -> None:
    assert isinstance(make_patience("cost"), ByCost)
    assert make_patience("none").limit_s(1) == make_patience("none").look_s == math.inf
    fixed = make_patience(100)
    assert isinstance(fixed, Fixed) and fixed.limit_s(1) == fixed.answer_s(9) == 0.1 and fixed.look_s == math.inf


def test_little_is_decided_on_little() -> None:
    assert ByCost().limit_s(1) == AT_FIRST_S == fed(WAITS_OF["even"], 10).limit_s(1)


@pytest.mark.parametrize("name", WAITS_OF)
def test_healthy_workers_are_hardly_ever_given_up(name: str) -> None:
    """The promise of NEEDLESS, over a hundred thousand epochs; rows decoded in a calm run follow from it."""
    patience, rng, given_up = ByCost(), random.Random(1), 0
    for _ in range(100_000):
        wait = WAITS_OF[name](rng)
        given_up += wait > patience.limit_s(1)
        patience.waited(wait)
    assert given_up < 1.5 * NEEDLESS * 100_000, "and so fewer than one in a thousand"


def test_a_silence_beyond_all_known_ones_is_soon_too_long() -> None:
    patience = fed(WAITS_OF["even"])
    assert 0.003 < patience.limit_s(1) < 2.5 * 0.003


def test_one_accident_makes_nobody_patient() -> None:
    patience = fed(WAITS_OF["even"])
    before = patience.limit_s(1)
    patience.waited(5.0)
    assert patience.limit_s(1) == pytest.approx(before, rel=0.01)


def test_a_change_of_load_is_learnt_and_forgotten() -> None:
    patience = fed(WAITS_OF["even"])
    before = patience.limit_s(1)
    for _ in range(20):
        patience.waited(0.05)
    assert patience.limit_s(1) > 0.05
    for _ in range(WAITS + NEWS):
        patience.waited(0.002)
    assert patience.limit_s(1) <= 1.01 * before


def test_dear_decoding_is_put_off_and_cheap_one_is_not() -> None:
    limits = []
    for price_s in (0.001, 0.01, 0.1, 1.0, 10 * DETECTED_S):
        patience = fed(WAITS_OF["exponential"])
        patience.paid(price_s, 1)
        limits.append(patience.limit_s(1))
    assert limits == sorted(limits) and limits[0] == limits[1] < limits[2] < limits[3] < limits[4]


def test_more_blocks_cost_more() -> None:
    patience = fed(WAITS_OF["exponential"])
    patience.paid(0.4, 4)
    assert patience.limit_s(1) < patience.limit_s(10)


def test_the_price_is_what_was_paid_smoothed() -> None:
    patience = fed(WAITS_OF["even"])
    assert patience.answer_s(1) == AT_FIRST_S, "nothing was paid yet"
    patience.paid(0.4, 4)
    first = patience.answer_s(1) - patience.limit_s(1)
    assert first == pytest.approx(4 * 0.1)
    patience.paid(0.0, 1)
    assert 0.0 < patience.answer_s(1) - patience.limit_s(1) < first, "a clock too coarse divides by nothing"
    patience.paid(0.5, 1)
    assert first < patience.answer_s(1) - patience.limit_s(1) < 4 * 0.5


def test_a_look_comes_after_a_usual_wait_and_not_at_once() -> None:
    assert ByCost().look_s == LOOK_LEAST_S
    usual = fed(lambda rng: rng.uniform(0.004, 0.006))
    assert 0.0055 < usual.look_s < 0.006
    assert fed(lambda rng: 0.0).limit_s(1) >= LEAST_S


@pytest.mark.parametrize("index", [2.0, 8.0])
def test_the_longest_waits_tell_how_rare_longer_ones_are(index: float) -> None:
    rng = random.Random(3)
    tail = sorted(rng.paretovariate(index) for _ in range(400))
    assert index_of(tail) == pytest.approx(index, rel=0.15)


def test_waits_that_hardly_differ_make_soon_impatient() -> None:
    """A fixed index of 3 would wait for 0.61 and 0.49 s, the longest wait being 0.38 and 0.41 s."""
    few, many = (fed(lambda rng: rng.gauss(0.3, 0.03), count).limit_s(1) for count in (100, 512))
    assert 0.38 < few < 0.52 and 0.41 < many < 0.45
