"""Errors of the paper's pseudo-code: for each, a case that goes wrong as it is written there."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import best_by_budget, graph, small_topologies

from bench.random_topologies import RandomTopology, Specification, random_topology
from riprap.controller.planning.dp import plan_dp
from riprap.controller.planning.fidelity import fidelity_of
from riprap.controller.planning.full import FullPlanner
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.greedy import alone_failed, plan_greedy
from riprap.controller.planning.rates import StreamRates
from riprap.controller.planning.structure_aware import plan_structure_aware
from riprap.controller.planning.structured import StructuredPlanner
from riprap.controller.planning.units import subtopologies

CHAIN = ({"a": 2, "b": 2, "c": 1}, [("a", "b", "one_to_one"), ("b", "c", "merge")])


def test_algorithm_1_keeps_a_plan_that_nothing_extends() -> None:
    """As written it drops a candidate once the slack exceeds all missing trees, the best of all at last."""
    made = graph(*CHAIN)
    assert [len(plan_dp(made, budget)) for budget in range(made.size + 1)] == [0, 0, 0, 3, 3, 5]
    skewed = graph({"a": 1, "b": 3, "c": 3}, [("a", "b", "split"), ("b", "c", "one_to_one")])
    assert fidelity_of(skewed, plan_dp(skewed, 4)) == pytest.approx(1 / 3), (
        "3 tasks, and a slack of 1 that is too small"
    )


def test_algorithm_2_takes_the_tasks_whose_failure_costs_most() -> None:
    made = graph({"a": 3, "b": 1}, [("a", "b", "merge")], StreamRates(sources={"a": [1, 2, 5]}))
    assert alone_failed(made) == pytest.approx([7 / 8, 6 / 8, 3 / 8, 0])
    assert plan_greedy(made, 2) == {3, 2}


def test_algorithm_2_knows_nothing_of_trees() -> None:
    made = graph(
        {"a": 4, "b": 4, "c": 1, "d": 1}, [("a", "b", "one_to_one"), ("b", "c", "merge"), ("c", "d", "one_to_one")]
    )
    assert fidelity_of(made, plan_greedy(made, 6)) == 0 < fidelity_of(made, plan_structure_aware(made, 6))


def test_algorithm_3_unites_the_plan_with_the_candidate() -> None:
    """As written it intersects them."""
    made = graph(*CHAIN)
    planner = StructuredPlanner(made)
    first = planner.extend(frozenset(), 5)
    second = planner.extend(first, 5 - len(first))
    assert len(first) == 3 and len(second) == 2 and not first & second
    assert fidelity_of(made, first | second) == pytest.approx(1)
    assert planner.extend(first | second, 5) == frozenset()


def test_algorithm_3_counts_what_is_left_of_the_budget() -> None:
    """As written a candidate may be as large as what is used already: nothing at first, too much at last."""
    made = graph(*CHAIN)
    planner = StructuredPlanner(made)
    assert planner.extend(frozenset(), 2) == frozenset()
    assert planner.extend(planner.extend(frozenset(), 3), 1) == frozenset()


def test_algorithm_3_crosses_units_by_connected_segments() -> None:
    edges = [("a", "b", "merge"), ("b", "c", "split"), ("c", "d", "merge")]
    made = graph({"a": 4, "b": 2, "c": 4, "d": 2}, edges, StreamRates(sources={"a": [1, 2, 3, 5]}))
    found = StructuredPlanner(made).extend(frozenset(), 4)
    assert len(found) == 4 and fidelity_of(made, found) > 0


def test_algorithm_4_takes_the_best_of_each_operator_then_the_best_of_all() -> None:
    rates = StreamRates(sources={"a": [1, 3]}, links={"a->b": [[0.1, 0.9], [0.3, 2.7]]})
    made = graph({"a": 2, "b": 2}, [("a", "b", "full")], rates)
    planner = FullPlanner(made)
    assert planner.extend(frozenset(), 1) == frozenset(), "a tree needs one of each"
    assert planner.extend(frozenset(), 2) == {1, 3}
    assert planner.extend(frozenset({1, 3}), 2) == {0}, "a.0 carries a quarter, b.0 a tenth"


def test_algorithm_5_plans_below_the_number_of_operators_where_a_tree_skips_some() -> None:
    """As written a budget below the number of operators gets an empty plan."""
    stages = {"a": 2, "b": 2, "c": 2, "d": 2, "z": 1}
    edges = [("a", "b", "one_to_one"), ("b", "c", "one_to_one"), ("c", "z", "merge"), ("d", "z", "merge")]
    made = graph(stages, edges)
    plan = plan_structure_aware(made, 2)
    assert fidelity_of(made, plan) == best_by_budget(made)[2] > 0


def test_algorithm_5_compares_gains_of_the_whole() -> None:
    """In OF of the parts a further tree of the first gains 1/8 per task, a task of the second 1/10; in OF of the whole,
    which is their product, the second is the better by far."""
    made = graph({"a": 4, "b": 4, "c": 10}, [("a", "b", "one_to_one"), ("b", "c", "full")])
    plan = plan_structure_aware(made, 5)
    assert fidelity_of(made, plan) == pytest.approx(1 / 4 * 3 / 10) == best_by_three_of_c(made)


def best_by_three_of_c(made: TaskGraph) -> float:
    return fidelity_of(made, frozenset({0, 4, 8, 9, 10}))


@pytest.mark.parametrize("made", small_topologies(24, seed=31), ids=repr)
def test_algorithm_5_counts_what_it_uses(made: RandomTopology) -> None:
    """As written the usage never grows, and neither does the plan end."""
    last = 0.0
    for budget in range(made.graph.size + 1):
        plan = plan_structure_aware(made.graph, budget)
        assert len(plan) <= budget
        last = fidelity_of(made.graph, plan)
    assert last == pytest.approx(1)


def test_structure_aware_is_near_dp() -> None:
    ratios = []
    for made in small_topologies(16, tasks=10, seed=32):
        best = best_by_budget(made.graph)
        found = [fidelity_of(made.graph, plan_structure_aware(made.graph, n)) for n in range(made.graph.size + 1)]
        ratios += [one / most for one, most in zip(found, best) if most > 0]
    assert np.mean(ratios) >= 0.95


def test_structure_aware_beats_greedy_with_few_replicas() -> None:
    """PPA VI-C, Fig. 14; a replication ratio of 0.1."""
    rng, aware, greedy = np.random.default_rng(33), 0.0, 0.0
    for _ in range(8):
        made = random_topology(rng, Specification("structured", parallelism=(5, 15), zipf=0.1)).graph
        aware += fidelity_of(made, plan_structure_aware(made, made.size // 10))
        greedy += fidelity_of(made, plan_greedy(made, made.size // 10))
    assert aware > 3 * greedy


def test_a_general_topology_is_planned_by_its_parts() -> None:
    edges = [("a", "b", "merge"), ("b", "c", "full"), ("c", "d", "full")]
    made = graph({"a": 4, "b": 2, "c": 3, "d": 2}, edges)
    assert [part.full for part in subtopologies(made)] == [False, True]
    assert fidelity_of(made, plan_structure_aware(made, 4)) == best_by_budget(made)[4]
