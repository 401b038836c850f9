"""When the sink stops waiting, whom it advises against, and that healthy workers are left alone."""

from __future__ import annotations

import random

import pytest

from codec.ids import WorkerId
from engine.schemes.parts.hedge import PENALTY_S, Hedge

WORKERS = [WorkerId("processor", index) for index in range(6)]
LEAST_S = 0.1


def epoch(hedge: Hedge, now: float, lags: dict[int, float], usual: float = 0.001, took: float = 0.05) -> float:
    """One epoch in which every worker delivers, `lags` later than the others; the time of its end."""
    begun = now + took - usual * 6
    hedge.begin(WORKERS, WORKERS, begun)
    for late, index in sorted((lags.get(index, usual * (index + 1)), index) for index in range(6)):
        hedge.delivered(WORKERS[index], begun + late)
        now = begun + late
    hedge.ended(now)
    return now


def run(hedge: Hedge, epochs: int, lags: dict[int, float] | None = None, now: float = 0.0) -> float:
    for _ in range(epochs):
        now = epoch(hedge, now, lags or {})
    return now


def test_the_last_few_are_waited_for_three_epochs_at_least() -> None:
    hedge = Hedge(2, LEAST_S)
    assert hedge.delay_s == pytest.approx(1.0), "nothing is known yet"
    run(hedge, 20)
    assert hedge.delay_s == pytest.approx(3 * 0.05, rel=0.05)


def test_the_wait_follows_what_healthy_workers_differ() -> None:
    hedge, now = Hedge(2, 0.001), 0.0
    for number in range(60):
        now = epoch(hedge, now, {5: 0.5 if number % 2 else 0.1}, took=0.01)
    waits = [0.5 - 0.004, 0.1 - 0.004]
    assert hedge.delay_s > max(waits), "what happens all the time is no straggling"
    assert hedge.give_up(now + 100) == set(), "nothing is under way"


def test_who_owes_for_too_long_is_a_straggler() -> None:
    hedge = Hedge(2, LEAST_S)
    now = run(hedge, 20)
    hedge.begin(WORKERS, WORKERS, now)
    assert hedge.due(now) is None, "more than two owe: that is no straggling"
    for index in (0, 1, 2, 3):
        begun = hedge.delivered(WORKERS[index], now)
    assert begun and hedge.due(now) == pytest.approx(hedge.delay_s)
    assert hedge.give_up(now + hedge.delay_s * 0.99) == set()
    assert hedge.give_up(now + hedge.delay_s) == {WORKERS[4], WORKERS[5]} == hedge.stragglers == hedge.avoided
    assert hedge.due(now) is None and hedge.give_up(now + 9) == set(), "once"


def test_a_straggler_is_tried_again_after_a_penalty_that_doubles() -> None:
    hedge, now = Hedge(2, LEAST_S), 0.0
    penalties = []
    for _ in range(4):
        now = run(hedge, 5, now=now)
        hedge.begin(WORKERS, WORKERS[:1], now)
        assert hedge.give_up(now + hedge.delay_s) == {WORKERS[0]}
        until = now = now + hedge.delay_s
        while hedge.stragglers:
            now += 0.05
            hedge.ended(now)
        penalties.append(now - until)
    assert penalties == pytest.approx([PENALTY_S, 2 * PENALTY_S, 4 * PENALTY_S, 8 * PENALTY_S], abs=0.06)


def test_an_asked_worker_gets_the_whole_delay() -> None:
    hedge = Hedge(2, LEAST_S)
    now = run(hedge, 20)
    hedge.begin(WORKERS, WORKERS[:1], now)
    hedge.owes(WORKERS[1], 2, now + 0.1)
    assert hedge.give_up(now + hedge.delay_s) == set()
    assert hedge.delivered(WORKERS[1], now + 0.2) is False and hedge.give_up(now + 0.1 + hedge.delay_s) == set(
        WORKERS[:2]
    )


def test_a_steadily_slow_worker_is_avoided_and_nobody_else() -> None:
    hedge = Hedge(2, LEAST_S)
    run(hedge, 12, {3: 0.045})
    assert hedge.avoided == {WORKERS[3]} and not hedge.stragglers, "its results still count"


def test_not_more_than_r_workers_are_avoided() -> None:
    hedge = Hedge(2, LEAST_S)
    run(hedge, 12, {1: 0.045, 3: 0.045, 4: 0.045})
    assert len(hedge.avoided) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_healthy_workers_are_neither_avoided_nor_given_up(seed: int) -> None:
    """Lags of healthy workers on busy cores: usually a few milliseconds, now and then a pause."""
    rng, hedge, now = random.Random(seed), Hedge(2, LEAST_S), 0.0
    for _ in range(3000):
        pause = {rng.randrange(6): rng.uniform(0.01, 0.06)} if rng.random() < 0.05 else {}
        lags = {index: rng.expovariate(1 / 0.003) for index in range(6)} | pause
        now = epoch(hedge, now, lags, took=0.05)
    assert not hedge.avoided and not hedge.stragglers


def test_a_death_is_no_measure_and_its_next_life_is_judged_anew() -> None:
    hedge = Hedge(2, LEAST_S)
    now = run(hedge, 12, {3: 0.045})
    hedge.lost(WORKERS[3])
    assert not hedge.avoided
    before = hedge.delay_s
    hedge.begin(WORKERS, WORKERS, now)
    hedge.lost(WORKERS[0])
    hedge.ended(now + 0.05)
    assert hedge.delay_s == pytest.approx(before, rel=0.1)
