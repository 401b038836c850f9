"""What every operator that prepares blocks must do; a new one gets these tests by standing in CASES (AF 3.2)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import operators.dataflow
from operators.dataflow.base import DataflowOperator, Items, Place
from operators.dataflow.grep import Grep
from operators.dataflow.word_count import SplitWords

BLOCKS, THREADS = 40, 4
Make = Callable[[], DataflowOperator]


def lines(seed: int) -> tuple[np.ndarray, ...]:
    """A few hundred lines, some of them empty."""
    rng = np.random.default_rng(seed)
    words = ["the", "whale", "Sea", "don't", "x" * int(rng.integers(1, 90)), "a b"]
    text = [" ".join(rng.choice(words, int(n))).encode() for n in rng.integers(0, 9, int(rng.integers(0, 400)))]
    return np.frombuffer(b"".join(text), np.uint8), np.cumsum([0, *map(len, text)], dtype=np.int64)


CASES: dict[str, tuple[Make, Callable[[int], tuple[np.ndarray, ...]]]] = {
    "split-words": (SplitWords, lines),
    "grep": (lambda: Grep("whale"), lines),
    "grep-expression": (lambda: Grep("^the.*[sS]ea"), lines),
}
"""How to make the operator, and the arrays of a block of lines by a seed."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[DataflowOperator, list[Items]]:
    """A started operator, and blocks of its input, read-only as those that come from a link."""
    make, arrays_of = CASES[request.param]
    operator, blocks = make(), []
    operator.start(Place(0, 2, {}, {"next": 3}, 5))
    for seed in range(BLOCKS):
        arrays = arrays_of(seed)
        for array in arrays:
            array.flags.writeable = False
        blocks.append(Items(1 + seed, "", 0, len(arrays[-1]) - 1, arrays))
    return operator, blocks


def bits(items: Items) -> tuple[object, ...]:
    return (*items[:4], *((array.dtype, array.shape, array.tobytes()) for array in items.arrays))


def test_every_operator_that_prepares_has_a_case() -> None:
    found = set()
    for module in pkgutil.iter_modules(operators.dataflow.__path__, "operators.dataflow."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, DataflowOperator) and kind.prepare is not DataflowOperator.prepare:
                found.add(kind)
    assert found == {type(make()) for make, _ in CASES.values()}


def test_prepared_twice_is_the_same_and_leaves_the_operator_as_it_was(
    case: tuple[DataflowOperator, list[Items]],
) -> None:
    operator, blocks = case
    fields = dict(vars(operator))
    first = [bits(operator.prepare(items)) for items in blocks]
    assert [bits(operator.prepare(items)) for items in reversed(blocks)] == first[::-1]
    assert all(prepared[:4] == items[:4] for prepared, items in zip(first, blocks, strict=True))
    assert vars(operator).keys() == fields.keys()
    assert all(vars(operator)[name] is value for name, value in fields.items())
    if operator.state is not None:
        assert operator.state.state_divergence() == 0


def test_results_are_of_their_own(case: tuple[DataflowOperator, list[Items]]) -> None:
    """What is prepared later does not change what was prepared before."""
    operator, blocks = case
    prepared = [operator.prepare(items) for items in blocks]
    kept = [bits(items) for items in prepared]
    for items in blocks:
        operator.prepare(items)
    assert [bits(items) for items in prepared] == kept


def test_prepared_by_several_threads_at_once_is_the_same(case: tuple[DataflowOperator, list[Items]]) -> None:
    operator, blocks = case
    alone = [bits(operator.prepare(items)) for items in blocks]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(3):
            assert [bits(items) for items in pool.map(operator.prepare, blocks)] == alone
