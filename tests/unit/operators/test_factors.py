"""Alternating least squares in a loop beside a plain one, with one task and three, that die or not."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.graphs.factors import AlternatingLeastSquares
from riprap.operators.graphs.read_edges import ReadEdges
from riprap.operators.iteration.supersteps import Iteration
from riprap.operators.states import pack_keys
from tests.unit.operators.dataflow_harness import Outbox
from tests.unit.operators.loop_harness import Ring

USERS, ITEMS, RANK, L2 = 20, 15, 3, 0.01


def ratings() -> np.ndarray:
    rng = np.random.default_rng(1)
    truth = rng.random((USERS, 2)) @ rng.random((2, ITEMS)) * 5
    return np.array([(u, i, truth[u, i]) for u in range(USERS) for i in range(ITEMS) if rng.random() < 0.7])


def plain(rated: np.ndarray, first: np.ndarray, steps: int) -> dict[int, np.ndarray]:
    """The factors by vertex, `first` being those of the items, after so many supersteps."""
    factors = {2 * i + 1: first[i] for i in range(ITEMS)}
    for step in range(1, steps + 1):
        users = step % 2 == 1
        found = {}
        for one in range(USERS if users else ITEMS):
            own = rated[rated[:, 0 if users else 1] == one]
            others = np.array([factors[int(2 * i + 1 if users else 2 * u)] for u, i, _ in own])
            normal = others.T @ others + L2 * len(own) * np.eye(RANK)
            found[2 * one + (not users)] = np.linalg.solve(normal, others.T @ own[:, 2])
        factors |= found
    return factors


def filled(tasks: int, fault: str, lowest: int = 0, **options: float) -> Ring:
    """A ring that has all ratings, as a source sends them, of users and items that are numbered from `lowest` on."""
    ring = Ring(lambda: AlternatingLeastSquares(RANK, L2, **options), tasks, 3, fault)
    source, out = ReadEdges(bipartite=True), Outbox(tasks)
    source.open(Context())
    lines = pack_keys([b"%d %d %r" % (u + lowest, i + lowest, float(r)) for u, i, r in ratings()])
    source.process_data(Items(1, "", 0, len(lines[1]) - 1, lines), 0, out)
    for arrays, count, to, _ in out.sent:
        assert to is not None
        ring.tasks[to].process(Items(1, "read", 0, count, tuple(arrays)))
    return ring


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_ratings_that_are_not_finite_are_refused(odd: float) -> None:
    ring = Ring(lambda: AlternatingLeastSquares(RANK, L2), 1, 3, "")
    ring.tasks[0].process(Items(1, "read", 0, 2, (np.array([0, 1]), np.array([1.0, 0.0]), np.array([odd, odd]))))
    with pytest.raises(DataError, match="of the ratings are NaN or infinite"):
        ring.loop(1)


@pytest.mark.parametrize("fault", ["", "deaths"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_factors_are_those_of_a_plain_loop(tasks: int, fault: str) -> None:
    ring = filled(tasks, fault, tolerance=0.0, supersteps=13)
    ring.loop(1)
    operators = [task.operator for task in ring.tasks]
    first = AlternatingLeastSquares(RANK)._first(2 * np.arange(ITEMS) + 1)
    truth = plain(ratings(), first, 12)
    found: dict[int, np.ndarray] = {}
    for operator in operators:
        results = operator.results()
        found |= dict(zip(results["vertices"].tolist(), results["values"], strict=True))
    assert found.keys() == truth.keys()
    for vertex, values in truth.items():
        np.testing.assert_allclose(found[vertex], values, rtol=1e-6, atol=1e-9)


def rmse(ring: Ring) -> float:
    """As its tasks say."""
    operator = ring.tasks[0].operator
    assert isinstance(operator, Iteration)
    return operator.metrics()["rmse"]


def test_users_and_items_may_have_any_numbers() -> None:
    """From about 2^50 on, all began with factors of 0, and stayed there."""
    low, high = (filled(2, "", lowest, supersteps=500) for lowest in (0, 2**52 - USERS))
    for ring in (low, high):
        ring.loop(1)
    assert rmse(high) == pytest.approx(rmse(low), rel=0.2)


def test_a_loop_that_begins_once_more_explains_the_ratings_as_well() -> None:
    """There are many factors that do: it need not find the same."""
    calm, disturbed = (filled(3, fault, tolerance=1e-9, supersteps=2000) for fault in ("", "rollbacks"))
    for ring in (calm, disturbed):
        ring.loop(1)
    assert all(before > 0 for _, before in disturbed.compensated) and not any(at for at, _ in calm.compensated)
    assert rmse(disturbed) == pytest.approx(rmse(calm), rel=0.02)


def test_it_ends_when_the_error_goes_down_no_more_and_says_how_large_it_is() -> None:
    ring = filled(2, "", supersteps=500)
    ring.loop(1)
    operator = ring.tasks[0].operator
    assert isinstance(operator, Iteration) and 4 < operator.state.superstep < 400
    rated = ratings()
    factors: dict[int, np.ndarray] = {}
    for task in ring.tasks:
        results = task.operator.results()
        factors |= dict(zip(results["vertices"].tolist(), results["values"], strict=True))
    errors = [factors[int(2 * u)] @ factors[int(2 * i + 1)] - r for u, i, r in rated]
    assert operator.metrics()["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert operator.metrics()["rmse"] < 0.2 * rated[:, 2].std()
    table = AlternatingLeastSquares.tables([task.operator.results() for task in ring.tasks], {})["factors"]
    assert len(table.columns["number"]) == USERS + ITEMS and table.columns["item"].tolist()[:USERS] == [False] * USERS
