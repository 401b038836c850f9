"""Output fidelity: the paper's figures, definitions, and items that are routed one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from graphs import FIG_2, FIG_2_RATES, best_by_budget, graph, shape, small_topologies

from riprap.codec.errors import ConfigError
from riprap.controller.planning.fidelity import (
    contributing,
    fidelities,
    fidelity_of,
    influence,
    internal_completeness,
    output_fidelities,
    output_fidelity,
    passing,
)
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.rates import StreamRates, task_graph


def without(graph: TaskGraph, *names: str) -> np.ndarray:
    return ~graph.mask(graph.names.index(name) for name in names)


@pytest.mark.parametrize(("joins", "loss"), [((), 1 / 4), (("o3",), 2 / 5)])
def test_the_losses_of_figure_2(joins: tuple[str, ...], loss: float) -> None:
    made = graph(*FIG_2, FIG_2_RATES, joins)
    assert 1 - output_fidelity(made, without(made, "o2.1")) == pytest.approx(loss)


def test_internal_completeness_takes_joins_for_unions() -> None:
    for joins in ((), ("o3",)):
        made = graph(*FIG_2, FIG_2_RATES, joins)
        assert internal_completeness(made, without(made, "o2.1")) == pytest.approx((6 + 6) / 16)
    assert internal_completeness(made, np.ones(made.size)) == pytest.approx(1)


@pytest.mark.parametrize("made", small_topologies(12, seed=2), ids=repr)
def test_all_keep_all_and_none_keep_nothing_and_more_never_keep_less(made: object) -> None:
    one = made.graph  # type: ignore[attr-defined]
    assert output_fidelity(one, np.ones(one.size)) == pytest.approx(1)
    assert output_fidelity(one, np.zeros(one.size)) == 0
    order = np.random.default_rng(3).permutation(one.size)
    growing = [fidelity_of(one, frozenset(order[:count].tolist())) for count in range(one.size + 1)]
    assert all(less <= more + 1e-12 for less, more in pairwise(growing))
    assert best_by_budget(one) == sorted(best_by_budget(one))


def test_many_sets_at_once_are_as_each_by_itself() -> None:
    rng = np.random.default_rng(4)
    for made in small_topologies(6, seed=5):
        sets = rng.random((made.graph.size, 9)) < 0.6
        each = [float(output_fidelity(made.graph, column)) for column in sets.T]
        assert output_fidelity(made.graph, sets) == pytest.approx(each)
        assert output_fidelities(made.graph, sets.T) == pytest.approx(each)
        assert internal_completeness(made.graph, sets) == pytest.approx(
            [float(internal_completeness(made.graph, column)) for column in sets.T]
        )


def test_the_influence_is_the_derivative() -> None:
    rng, step = np.random.default_rng(6), 1e-6
    for made in small_topologies(8, seed=7):
        alive = rng.random(made.graph.size)
        slopes = influence(made.graph, alive)
        sources = [
            task for place in made.graph.sources for task in range(made.graph.size)[made.graph.operators[place].tasks]
        ]
        for task in sources:
            more = alive.copy()
            more[task] += step
            found = (output_fidelity(made.graph, more) - output_fidelity(made.graph, alive)) / step
            assert found == pytest.approx(slopes[task], abs=1e-4)


def test_each_operator_passes_all_output_where_nothing_goes_past_it() -> None:
    made = graph({"a": 3, "b": 2, "c": 4}, [("a", "b", "full"), ("b", "c", "split")])
    shares = passing(made)
    assert [shares[group.tasks].sum() for group in made.operators] == pytest.approx([1, 1, 1])


def test_contributing_leaves_out_tasks_that_no_complete_tree_needs() -> None:
    made = graph({"a": 2, "b": 2, "c": 1}, [("a", "b", "one_to_one"), ("b", "c", "merge")])
    assert contributing(made, frozenset({0, 1, 2, 4})) == {0, 2, 4}


def routed(made: TaskGraph, alive: np.ndarray, items: int, rng: np.random.Generator) -> tuple[int, int]:
    """Items that reach a destination, and that would without a failure: each edge of a task gets each item once."""
    arrived = expected = 0
    rates = made.loads / made.loads[[t for p in made.sources for t in range(made.size)[made.operators[p].tasks]]].sum()
    sources = [task for place in made.sources for task in range(made.size)[made.operators[place].tasks]]
    for source in rng.choice(sources, items, p=rates[sources]):
        waiting = [(int(source), True)]
        while waiting:
            task, lives = waiting.pop()
            lives = lives and bool(alive[task])
            leaving = [stream for stream in made.substreams if task in stream.senders]
            if not leaving:
                expected += 1
                arrived += lives
            for stream in leaving:
                links = stream.senders == task
                shares = stream.rates[links] / stream.rates[links].sum()
                waiting.append((int(rng.choice(stream.receivers[links], p=shares)), lives))
    return arrived, expected


def test_of_is_the_share_of_items_that_arrive() -> None:
    rng = np.random.default_rng(8)
    made = graph(
        {"a": 4, "b": 2, "u": 3, "c": 4, "d": 1},
        [("a", "b", "merge"), ("u", "c", "full"), ("b", "c", "split"), ("c", "d", "merge")],
        StreamRates(sources={"a": [1, 2, 3, 4], "u": [5, 1, 1]}),
    )
    for _ in range(2):
        alive = rng.random(made.size) < 0.75
        alive[made.names.index("d.0")] = True
        arrived, expected = routed(made, alive, 2000, rng)
        assert output_fidelity(made, alive) == pytest.approx(arrived / expected, abs=0.04)


def test_of_a_join_is_the_share_of_pairs_that_meet() -> None:
    made = graph({"l": 4, "r": 3, "j": 1}, [("l", "j", "merge"), ("r", "j", "merge")], joins=("j",))
    alive = without(made, "l.0", "r.1")
    rng = np.random.default_rng(9)
    left, right = rng.integers(0, 4, 3000), rng.integers(0, 3, 3000)
    pairs = np.mean(left != 0) * np.mean(right != 1)
    assert output_fidelity(made, alive) == pytest.approx(pairs, abs=0.03)


def test_measured_links_and_selectivities_make_the_rates() -> None:
    edges = [("a", "b", "full"), ("b", "c", "merge")]
    measured = StreamRates(sources={"a": [1, 3]}, selectivity={"b": 0.5}, links={"a->b": [[1, 0], [2, 1]]})
    made = task_graph(shape({"a": 2, "b": 2, "c": 1}, edges), measured)
    assert made.loads.tolist() == [1, 3, 3, 1, 2]
    assert fidelities(made, without(made, "a.0"))[made.names.index("b.0")] == pytest.approx(2 / 3)


def test_rates_that_bring_nothing_to_a_destination_are_refused() -> None:
    with pytest.raises(ConfigError, match="no item reaches"):
        graph({"a": 1, "b": 1}, [("a", "b", "full")], StreamRates(selectivity={"b": 0.0}))


def test_a_task_that_hears_nobody_puts_nothing_out() -> None:
    made = graph({"a": 1, "b": 3}, [("a", "b", "one_to_one")])
    assert fidelities(made, np.ones(made.size)).tolist() == [1, 1, 0, 0]
    assert output_fidelity(made, np.ones(made.size)) == 1
