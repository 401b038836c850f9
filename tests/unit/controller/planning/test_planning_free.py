"""Tasks that can have no replica, and count as alive: no planner pays for them, and all plan as brute force does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from graphs import best_by_budget, graph, shape, small_topologies

from bench.random_topologies import RandomTopology
from riprap.controller.planning.bounds import upper_bounds
from riprap.controller.planning.domains import FailureDomain, each_alone, expected_fidelity, plan_expected
from riprap.controller.planning.fidelity import fidelity_of, internal_completeness
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.greedy import plan_greedy
from riprap.controller.planning.paths import best_extension, largest_tree, plans_up_to
from riprap.controller.planning.planner import Planner
from riprap.controller.planning.rates import StreamRates, task_graph

PLANNERS = ("auto", "exact", "dp", "greedy", "structure_aware")
MADE = small_topologies(12, tasks=11, seed=61)


def free_sinks(made: RandomTopology) -> TaskGraph:
    return task_graph(made.shape, made.rates, made.joins, frozenset(made.shape.sinks))


def free_anywhere(made: RandomTopology) -> TaskGraph:
    """A third of all tasks, a whole operator now and then among them."""
    drawn = np.flatnonzero(np.random.default_rng(made.graph.size).random(made.graph.size) < 0.35)
    return replace(made.graph, free=frozenset(drawn.tolist()))


@pytest.mark.parametrize("kind", [free_sinks, free_anywhere])
@pytest.mark.parametrize("made", MADE, ids=repr)
def test_nobody_pays_for_a_free_task_and_the_optimal_planners_are_optimal(made: RandomTopology, kind: object) -> None:
    one: TaskGraph = kind(made)  # type: ignore[operator]
    best = best_by_budget(one)
    assert len(best) == one.replaceable + 1 and best[-1] == pytest.approx(1)
    for algorithm in PLANNERS:
        planner = Planner(one, algorithm)  # type: ignore[arg-type]
        for budget in range(one.replaceable, -1, -2):
            plan = planner.plan(budget)
            assert not plan.tasks & one.free and len(plan.tasks) <= budget, (algorithm, budget)
            assert plan.fidelity == pytest.approx(fidelity_of(one, plan.tasks))
            assert plan.fidelity <= best[budget] + 1e-9 <= plan.bound + 2e-9, (algorithm, budget)
            if algorithm in ("dp", "exact", "auto"):
                assert plan.fidelity == pytest.approx(best[budget]), (algorithm, budget)


@pytest.mark.parametrize("made", MADE[:6], ids=repr)
def test_growing_and_bounds_know_of_them(made: RandomTopology) -> None:
    for one in (free_sinks(made), free_anywhere(made)):
        plans, values = plans_up_to(one, one.replaceable)
        assert not any(plan & one.free for plan in plans)
        assert values == pytest.approx([fidelity_of(one, plan) for plan in plans]) and values[-1] == pytest.approx(1)
        limits = upper_bounds(one, range(one.replaceable + 1))
        assert all(most <= limit + 1e-9 for most, limit in zip(best_by_budget(one), limits))
        assert not best_extension(one, frozenset(), one.replaceable) & one.free


def test_a_free_destination_saves_its_replica() -> None:
    stages, edges = {"a": 2, "b": 2, "c": 1}, [("a", "b", "one_to_one"), ("b", "c", "merge")]
    paid = graph(stages, edges)
    free = replace(paid, free=frozenset({4}))
    assert (largest_tree(paid), largest_tree(free)) == (3, 2)
    assert [Planner(paid).plan(budget).fidelity for budget in (2, 3)] == [0, 0.5]
    assert not Planner(paid).plan(2).tasks, "the destination alone puts nothing out"
    assert Planner(free).plan(2).tasks == {0, 2} and Planner(free).plan(2).fidelity == 0.5
    assert Planner(free).plan(9).tasks == {0, 1, 2, 3}
    assert internal_completeness(free, free.alive({0, 2})) == pytest.approx(0.5)


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dp", "greedy", "structure_aware"])
def test_where_no_task_can_have_a_replica_the_plan_is_empty(algorithm: str) -> None:
    edges = [("a", "b", "merge")]
    one = task_graph(shape({"a": 3, "b": 1}, edges), free=frozenset({"a", "b"}))
    plan = Planner(one, algorithm).plan(2)  # type: ignore[arg-type]
    assert (plan.tasks, plan.fidelity, plan.bound) == (frozenset(), 1, 1)


IDLE = {
    "beside": ({"a": 2, "b": 1, "c": 1, "d": 1}, [("a", "b", "full"), ("b", "c", "full"), ("b", "d", "merge"),
               ("c", "d", "split")], {"a->b": [[2], [1]], "c->d": [[0]]}),
    "ahead": ({"a": 3, "b": 2, "c": 1, "d": 1}, [("a", "b", "full"), ("b", "d", "full"), ("c", "d", "merge")],
              {"b->d": [[0], [0]]}),
}  # fmt: skip
"""Branches that carried nothing while a run was measured, as those for rare events do."""


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dp", "greedy", "structure_aware"])
@pytest.mark.parametrize("branch", IDLE)
def test_a_branch_that_carries_nothing_hides_none_that_does(branch: str, algorithm: str) -> None:
    parallelism, edges, links = IDLE[branch]
    one = graph(parallelism, edges, StreamRates(links=links))
    best = best_by_budget(one)
    for budget in range(one.size + 1):
        plan = Planner(one, algorithm).plan(budget)  # type: ignore[arg-type]
        assert plan.fidelity <= best[budget] + 1e-9 and plan.bound >= best[budget] - 1e-9
        if algorithm in ("auto", "exact", "dp"):
            assert plan.fidelity == pytest.approx(best[budget], abs=1e-3)
    assert plan.fidelity == pytest.approx(1)


def test_a_task_without_traffic_comes_before_one_that_is_free() -> None:
    one = replace(
        graph({"a": 2, "b": 1}, [("a", "b", "merge")], StreamRates(sources={"a": [1, 0]})), free=frozenset({0})
    )
    assert plan_greedy(one, 2) == {1, 2}, "a.0 costs as little when it fails"


def test_a_part_of_a_graph_keeps_its_free_tasks() -> None:
    whole = replace(graph({"a": 2, "b": 2}, [("a", "b", "one_to_one")]), free=frozenset({0, 3}))
    part, tasks = whole.part([1], whole.outputs)
    assert part.free == {1} and tasks.tolist() == [2, 3] and part.replaceable == 1


@pytest.mark.parametrize("made", small_topologies(4, tasks=8, seed=62), ids=repr)
def test_the_expected_output_beside_brute_force(made: RandomTopology) -> None:
    one = free_sinks(made)
    home = np.random.default_rng(63).integers(0, 2, one.size)
    racks = tuple(FailureDomain(f"r{n}", frozenset(np.flatnonzero(home == n).tolist()), n + 1.0) for n in range(2))
    paid = sorted(set(range(one.size)) - one.free)
    for domains in (racks, each_alone(one)):
        away = {task: next(d.name for d in domains if task not in d.tasks) for task in paid}
        for budget in range(0, one.replaceable + 1, 2):
            plan, bound = plan_expected(one, budget, domains)
            sets = itertools.combinations(paid, budget)
            most = max(expected_fidelity(one, domains, {task: away[task] for task in chosen}) for chosen in sets)
            reached = expected_fidelity(one, domains, {task: away[task] for task in plan})
            assert not plan & one.free and len(plan) <= budget
            assert 0.9 * most <= reached <= most + 1e-9 <= bound + 2e-9
    assert expected_fidelity(one, each_alone(one), dict.fromkeys(paid, "elsewhere")) == pytest.approx(1)


def test_who_hears_nothing_puts_nothing_out() -> None:
    """However measured rates lie: all alive keep everything, and each sender's share is that of what counts."""
    edges = [("l", "j", "full"), ("r", "j", "full"), ("j", "z", "full")]
    stages, rng = {"l": 2, "r": 2, "j": 3, "z": 2}, np.random.default_rng(64)
    for joins in ((), ("j",)):
        for _ in range(40):
            sizes = {f"{a}->{b}": (stages[a], stages[b]) for a, b, _ in edges}
            links = {
                name: (rng.integers(0, 9, size) * (rng.random(size) < 0.5)).tolist() for name, size in sizes.items()
            }
            links["l->j"][0][0] = links["r->j"][0][0] = links["j->z"][0][0] = 1
            made = graph(stages, edges, StreamRates(links=links), joins)
            assert fidelity_of(made, frozenset(range(made.size))) == pytest.approx(1)
            assert made.loads[:2].tolist() == [sum(row) for row in links["l->j"]]
            best = best_by_budget(made)
            for algorithm in ("dp", "exact"):
                assert Planner(made, algorithm).plan(5).fidelity == pytest.approx(best[5])  # type: ignore[arg-type]
