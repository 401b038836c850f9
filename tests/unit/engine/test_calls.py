"""The call of an operator that does not return is found by looking at stacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from riprap.engine.worker.calls import GROWTH, SLOW_CALL_S, CallWatch, Told

LIMIT_S = 120.0
LATE = 1000.0

Run = Callable[..., int]


class Held:
    """An operator whose calls wait until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def process_data(self) -> None:
        self.begun.set()
        assert self.go_on.wait(LIMIT_S)

    prepare = process_data


@pytest.fixture
def run() -> Iterator[Run]:
    """Calls functions one after the other in a thread that has a name, and says which thread that is."""
    pools = []

    def start(*functions: Callable[[], object], name: str = "compute") -> int:
        pools.append(ThreadPoolExecutor(1, name))
        ident = pools[-1].submit(threading.get_ident).result(LIMIT_S)
        for function in functions:
            pools[-1].submit(function)
        return ident

    yield start
    for pool in pools:
        pool.shutdown()


@pytest.fixture
def held() -> Iterator[Callable[[], Held]]:
    """Makes operators that are let go at the end; to be asked for after `run`, which waits for their calls."""
    made = []

    def make() -> Held:
        made.append(Held())
        return made[-1]

    yield make
    for one in made:
        one.go_on.set()


def test_a_call_is_slow_once_it_has_been_looked_at_for_long(run: Run, held: Callable[[], Held]) -> None:
    operator = held()
    watch = CallWatch(run(operator.process_data))
    assert operator.begun.wait(LIMIT_S)
    assert [watch.look(7, at) for at in (0.0, 0.1, SLOW_CALL_S)] == [None] * 3, "the first look saw a new turn"
    call = watch.look(7, 0.25 + SLOW_CALL_S)
    assert call is not None and call.name == "process_data" and call.line.startswith(f"{__file__}:")
    assert SLOW_CALL_S <= call.seconds <= SLOW_CALL_S + 0.25
    assert watch.look(8, LATE) is None, "a new turn: it has returned"
    assert watch.look(8, LATE + 0.1) is None and watch.look(8, LATE + 1 + SLOW_CALL_S) is not None


def test_many_short_calls_in_one_turn_are_no_long_one(run: Run, held: Callable[[], Held]) -> None:
    first, second = held(), held()
    watch = CallWatch(run(first.process_data, second.process_data))
    assert first.begun.wait(LIMIT_S)
    watch.look(7, 0.0)
    watch.look(7, 0.1)
    first.go_on.set()
    assert second.begun.wait(LIMIT_S)
    assert watch.look(7, LATE) is None
    assert watch.look(7, LATE + SLOW_CALL_S) is not None


def test_a_helper_is_looked_at_where_the_compute_thread_is_in_no_call(run: Run, held: Callable[[], Held]) -> None:
    operator = held()
    watch = CallWatch(run(operator.go_on.wait))
    assert [watch.look(7, at) for at in (0.0, 1.0, LATE)] == [None] * 3, "a wait of the engine is no call"
    run(operator.prepare, name="prepare")
    assert operator.begun.wait(LIMIT_S)
    watch.look(7, LATE)
    assert watch.look(7, LATE + SLOW_CALL_S) is not None


def test_a_call_is_told_of_once_and_again_when_it_has_grown() -> None:
    told = Told()
    lasted = (SLOW_CALL_S - 0.1, SLOW_CALL_S, SLOW_CALL_S + 1, SLOW_CALL_S * GROWTH, SLOW_CALL_S * GROWTH + 1)
    assert [told.is_news("process_data", seconds) for seconds in lasted] == [False, True, False, True, False]
    assert told.is_news("commit", SLOW_CALL_S)
