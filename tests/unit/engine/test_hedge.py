"""When the sink stops waiting, whom it advises against, and that healthy workers are left alone."""

from __future__ import annotations

import random

import pytest

from riprap.codec.ids import WorkerId
from riprap.engine.spreads.hedge import PENALTY_S, Hedge
from riprap.engine.spreads.patience import ByCost, Fixed

WORKERS = [WorkerId("processor", index) for index in range(6)]
LIMIT_S = 0.1
LOOK_S = 0.01


class Looking(Fixed):
    """A fixed limit, and a look before it."""

    look_s = LOOK_S


def hedge_of(limit_s: float = LIMIT_S) -> Hedge:
    return Hedge(2, Looking(limit_s))


def runs(worker: WorkerId) -> bool:
    """What the system says of a worker that does not stand still, or of one on another host."""
    return False


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


def test_what_healthy_workers_differ_is_what_patience_learns() -> None:
    hedge, learnt = hedge_of(), []
    hedge.patience.waited = learnt.append  # type: ignore[method-assign]
    for number in range(4):
        epoch(hedge, number, {4: 0.02, 5: 0.5 if number % 2 else 0.1})
    assert learnt == pytest.approx([0.08, 0.48, 0.08, 0.48]), "the silence before the last result"


def test_each_result_begins_the_wait_anew_and_the_longest_silence_is_learnt() -> None:
    hedge, learnt = hedge_of(), []
    hedge.patience.waited = learnt.append  # type: ignore[method-assign]
    hedge.begin(WORKERS, [WORKERS[0], WORKERS[0], WORKERS[1]], 0.0)
    for worker, now in ((0, 0.03), (0, 0.08), (1, 0.09)):
        assert hedge.due(now) is not None
        hedge.delivered(WORKERS[worker], now)
    hedge.ended(0.2)
    assert learnt == pytest.approx([0.05])


def test_who_is_silent_for_too_long_is_a_straggler() -> None:
    hedge = hedge_of()
    now = run(hedge, 20)
    hedge.begin(WORKERS, WORKERS, now)
    assert hedge.due(now) is None, "more than two owe: that is no straggling"
    for index in (0, 1, 2, 3):
        begun = hedge.delivered(WORKERS[index], now)
    assert begun and hedge.due(now) == pytest.approx(LOOK_S)
    assert hedge.give_up(now + LIMIT_S * 0.99, runs) == set()
    assert hedge.give_up(now + LIMIT_S * 1.01, runs) == {WORKERS[4], WORKERS[5]} == hedge.stragglers == hedge.avoided
    assert hedge.due(now) is None and hedge.give_up(now + 9, runs) == set(), "once"


def test_who_stands_still_is_given_up_at_a_look_and_the_other_one_is_waited_for() -> None:
    hedge = hedge_of()
    hedge.begin(WORKERS, WORKERS[:2], 0.0)
    looks: list[WorkerId] = []

    def look(worker: WorkerId) -> bool:
        looks.append(worker)
        return worker == WORKERS[1]

    assert hedge.give_up(LOOK_S * 0.9, look) == set() and not looks, "too early to look"
    assert hedge.give_up(LOOK_S, look) == {WORKERS[1]} and set(looks) == set(WORKERS[:2])
    assert hedge.due(LOOK_S) == pytest.approx(LOOK_S), "the next look; each wait is twice the one before"
    assert hedge.give_up(2 * LOOK_S, look) == set() and hedge.due(2 * LOOK_S) == pytest.approx(2 * LOOK_S)
    assert hedge.give_up(LIMIT_S, look) == {WORKERS[0]}


def test_nobody_is_given_up_without_a_limit() -> None:
    hedge = Hedge(2, Fixed(float("inf")))
    hedge.begin(WORKERS, WORKERS[:1], 0.0)
    assert hedge.due(0.0) is None and hedge.give_up(1e9, lambda worker: True) == set()


def test_a_straggler_that_is_heard_again_is_waited_for_again() -> None:
    hedge = hedge_of()
    hedge.begin(WORKERS, WORKERS[:1], 0.0)
    assert hedge.give_up(LIMIT_S, runs) == {WORKERS[0]}
    assert hedge.heard(WORKERS[0], 0.2) and not hedge.stragglers and hedge.avoided
    assert hedge.due(0.2) == pytest.approx(LOOK_S)
    assert not hedge.heard(WORKERS[0], 0.2) and not hedge.heard(WORKERS[3], 0.2), "they are no stragglers"


def test_a_straggler_is_tried_again_after_a_penalty_that_doubles() -> None:
    hedge, now = hedge_of(), 0.0
    penalties = []
    for _ in range(4):
        now = run(hedge, 5, now=now)
        hedge.begin(WORKERS, WORKERS[:1], now)
        assert hedge.give_up(now + LIMIT_S, runs) == {WORKERS[0]}
        until = now = now + LIMIT_S
        while hedge.stragglers:
            now += 0.05
            hedge.ended(now)
        penalties.append(now - until)
    assert penalties == pytest.approx([PENALTY_S, 2 * PENALTY_S, 4 * PENALTY_S, 8 * PENALTY_S], abs=0.06)


def test_an_asked_worker_gets_the_time_of_an_answer() -> None:
    class Answering(Looking):
        def answer_s(self, pieces: int) -> float:
            return 1.0 * pieces

    hedge = Hedge(2, Answering(LIMIT_S))
    hedge.begin(WORKERS, WORKERS[:1], 0.0)
    assert hedge.give_up(LIMIT_S, runs) == {WORKERS[0]}
    for worker in WORKERS[1:4]:
        hedge.owes(worker, 2, LIMIT_S)
    assert hedge.give_up(LIMIT_S + 5.9, runs) == set(), "six pieces, of more than two workers"
    assert hedge.delivered(WORKERS[1], 5.0) and hedge.give_up(9.9, runs) == set(), "each answer begins the wait anew"
    assert hedge.give_up(10.1, runs) == set(WORKERS[1:4])


def test_a_steadily_slow_worker_is_avoided_and_nobody_else() -> None:
    hedge = hedge_of()
    run(hedge, 12, {3: 0.045})
    assert hedge.avoided == {WORKERS[3]} and not hedge.stragglers, "its results still count"


def test_not_more_than_r_workers_are_avoided() -> None:
    hedge = hedge_of()
    run(hedge, 12, {1: 0.045, 3: 0.045, 4: 0.045})
    assert len(hedge.avoided) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_healthy_workers_are_neither_avoided_nor_given_up(seed: int) -> None:
    """Lags of healthy workers on busy cores: usually a few milliseconds, now and then a pause."""
    rng, hedge, now = random.Random(seed), Hedge(2, ByCost()), 0.0
    for _ in range(3000):
        pause = {rng.randrange(6): rng.uniform(0.01, 0.06)} if rng.random() < 0.05 else {}
        lags = {index: rng.expovariate(1 / 0.003) for index in range(6)} | pause
        now = epoch(hedge, now, lags, took=0.05)
    assert not hedge.avoided and not hedge.stragglers


def test_a_death_is_no_measure_and_its_next_life_is_judged_anew() -> None:
    hedge = hedge_of()
    now = run(hedge, 12, {3: 0.045})
    hedge.lost(WORKERS[3])
    assert not hedge.avoided
    learnt: list[float] = []
    hedge.patience.waited = learnt.append  # type: ignore[method-assign]
    hedge.begin(WORKERS, WORKERS, now)
    hedge.lost(WORKERS[0])
    hedge.ended(now + 0.05)
    assert not learnt
