"""What every operator that prepares blocks must do; a new one gets these tests by standing in CASES (AF 3.2)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest

import riprap.operators
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.panes.timed_lines import TimedLines
from riprap.operators.text.grep import Grep
from riprap.operators.text.top_paths import ReadRequests
from riprap.operators.text.word_count import SplitWords
from riprap.operators.trial.arrays import aligned
from riprap.operators.trial.dataflow import OperatorCase, prepares_in_several_threads, prepares_without_a_trace
from riprap.operators.trial.graph import Call, Outbox

BLOCKS = 40
Make = Callable[[], DataflowOperator]


def lines(seed: int) -> tuple[np.ndarray, ...]:
    """A few hundred lines, some of them empty."""
    rng = np.random.default_rng(seed)
    words = ["the", "whale", "Sea", "don't", "x" * int(rng.integers(1, 90)), "a b"]
    text = [" ".join(rng.choice(words, int(n))).encode() for n in rng.integers(0, 9, int(rng.integers(0, 400)))]
    return np.frombuffer(b"".join(text), np.uint8), np.cumsum([0, *map(len, text)], dtype=np.int64)


def timed_lines(seed: int) -> tuple[np.ndarray, ...]:
    """Up to a few hundred lines of time and key."""
    rng = np.random.default_rng(seed)
    text = [f"{time},{key}".encode() for time, key in rng.integers(-9, 999, (int(rng.integers(0, 400)), 2)).tolist()]
    return np.frombuffer(b"".join(text), np.uint8), np.cumsum([0, *map(len, text)], dtype=np.int64)


def requests(seed: int) -> tuple[np.ndarray, ...]:
    """Up to a few hundred lines of time, server and path."""
    rng = np.random.default_rng(seed)
    text = [
        b"%d,%d,/p%d,q" % (time, server, server % 7) for time, server in rng.integers(0, 999, (seed * 9, 2)).tolist()
    ]
    return np.frombuffer(b"".join(text), np.uint8), np.cumsum([0, *map(len, text)], dtype=np.int64)


CASES: dict[str, tuple[Make, Callable[[int], tuple[np.ndarray, ...]]]] = {
    "split-words": (SplitWords, lines),
    "timed-lines": (TimedLines, timed_lines),
    "requests": (ReadRequests, requests),
    "grep": (lambda: Grep("whale"), lines),
    "grep-expression": (lambda: Grep("^the.*[sS]ea"), lines),
}
"""How to make the operator, and the arrays of a block of lines by a seed."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> OperatorCase:
    """An operator, and blocks of its input."""
    make, arrays_of = CASES[request.param]

    def started() -> DataflowOperator:
        operator = make()
        operator.open(Context(index=0, parallelism=2, upstream={}, downstream={"next": 3}, seed=5))
        return operator

    arrays = [tuple(map(aligned, arrays_of(seed))) for seed in range(BLOCKS)]
    blocks = [Items(1 + seed, "", 0, len(held[-1]) - 1, held) for seed, held in enumerate(arrays)]
    return OperatorCase(started, lambda: Outbox(0, []), [Call("data", items, ()) for items in blocks])


def test_every_operator_that_prepares_has_a_case() -> None:
    found = set()
    for module in pkgutil.walk_packages(riprap.operators.__path__, "riprap.operators."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, DataflowOperator) and kind.prepare is not DataflowOperator.prepare:
                found.add(kind)
    assert found == {type(make()) for make, _ in CASES.values()}


def test_prepared_twice_is_the_same_and_leaves_the_operator_as_it_was(case: OperatorCase) -> None:
    prepares_without_a_trace(case)


def test_prepared_by_several_threads_at_once_is_the_same(case: OperatorCase) -> None:
    for _ in range(3):
        prepares_in_several_threads(case)
