"""Failures of domains: the mean OF, where replicas go, and plans beside brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graphs import graph, small_topologies

from bench.random_topologies import RandomTopology
from riprap.codec.errors import ConfigError
from riprap.controller.planning.domains import (
    FailureDomain,
    each_alone,
    expected_fidelity,
    place_replicas,
    plan_expected,
)
from riprap.controller.planning.graph import TaskGraph

RACKS = (FailureDomain("r1", frozenset({0, 2}), 3), FailureDomain("r2", frozenset({1, 3, 4}), 1))
CHAIN = ({"a": 2, "b": 2, "c": 1}, [("a", "b", "one_to_one"), ("b", "c", "merge")])


def test_the_mean_is_weighted_by_probability() -> None:
    made = graph(*CHAIN)
    assert expected_fidelity(made, RACKS, {}) == pytest.approx(3 / 4 * 0.5 + 1 / 4 * 0)
    assert expected_fidelity(made, RACKS, {0: "r2", 2: "r2"}) == pytest.approx(3 / 4)


def test_a_replica_survives_only_if_its_domain_does() -> None:
    made = graph(*CHAIN)
    beside, apart = {0: "r1", 2: "r1"}, {0: "r2", 2: "r2"}
    assert expected_fidelity(made, RACKS, beside) == expected_fidelity(made, RACKS, {})
    assert expected_fidelity(made, RACKS, apart) > expected_fidelity(made, RACKS, beside)


def test_a_replica_is_never_placed_beside_its_task_and_domains_fill_evenly() -> None:
    domains = [FailureDomain(str(n), frozenset({3 * n, 3 * n + 1, 3 * n + 2})) for n in range(4)]
    found = place_replicas(frozenset(range(12)), domains)
    assert all(task not in domains[int(place)].tasks for task, place in found.items())
    counts = [list(found.values()).count(str(number)) for number in range(4)]
    assert max(counts) - min(counts) <= 2, "the last ones may not go where there is most room"


def test_one_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match="one failure domain"):
        place_replicas(frozenset({0}), RACKS[:1])
    assert place_replicas(frozenset(), RACKS[:1]) == {}


def best(made: TaskGraph, domains: tuple[FailureDomain, ...], budget: int) -> float:
    """Of all sets of tasks, with replicas that never are beside their tasks."""
    sets = itertools.combinations(range(made.size), budget)
    return max(expected_fidelity(made, domains, place_replicas(frozenset(one), domains)) for one in sets)


@pytest.mark.parametrize("made", small_topologies(6, tasks=8, seed=51), ids=repr)
def test_plans_beside_brute_force(made: RandomTopology) -> None:
    rng = np.random.default_rng(52)
    home = rng.integers(0, 3, made.graph.size)
    racks = tuple(FailureDomain(f"r{n}", frozenset(np.flatnonzero(home == n).tolist()), n + 1.0) for n in range(3))
    for domains in (racks, each_alone(made.graph)):
        for budget in range(0, made.graph.size + 1, 2):
            plan, bound = plan_expected(made.graph, budget, domains)
            reached = expected_fidelity(made.graph, domains, place_replicas(plan, domains))
            most = best(made.graph, domains, budget)
            assert len(plan) <= budget and reached <= most + 1e-9 <= bound + 2e-9
            assert reached >= 0.9 * most


def test_a_plan_that_begins_with_another_keeps_it() -> None:
    made = graph(*CHAIN)
    plan, _ = plan_expected(made, 4, each_alone(made), frozenset({0, 2, 4}))
    assert plan > {0, 2, 4} and len(plan) == 4


def test_single_tasks_are_chosen_by_what_their_failure_costs() -> None:
    made = graph(*CHAIN)
    assert plan_expected(made, 1, each_alone(made))[0] == {4}
