"""Splits into units and sub-topologies, beside their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import graph, small_topologies

from bench.random_topologies import RandomTopology, Specification, random_topology
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.trees import count_trees
from riprap.controller.planning.units import is_full, leaving, merges, splits, subtopologies, unit_boundaries, units


def named(graph: TaskGraph, places: list[int]) -> set[str]:
    return {graph.operators[place].name for place in places}


def test_a_boundary_above_a_merge_with_a_split_behind() -> None:
    edges = [("o1", "o2", "merge"), ("o2", "o3", "split")]
    made = graph({"o1": 4, "o2": 2, "o3": 4}, edges)
    assert [named(made, unit) for unit in units(made)] == [{"o1"}, {"o2", "o3"}]


def test_a_boundary_above_a_merge_into_a_join() -> None:
    edges = [("o1", "o3", "merge"), ("o2", "o3", "one_to_one")]
    stages = {"o1": 4, "o2": 2, "o3": 2}
    joined = graph(stages, edges, joins=("o3",))
    assert [named(joined, unit) for unit in units(joined)] == [{"o1"}, {"o2", "o3"}]
    assert len(units(graph(stages, edges))) == 1, "a union multiplies nothing"


def test_a_split_behind_a_chain_multiplies_as_well() -> None:
    edges = [("a", "b", "merge"), ("b", "c", "one_to_one"), ("c", "d", "split")]
    made = graph({"a": 4, "b": 2, "c": 2, "d": 4}, edges)
    assert [named(made, unit) for unit in units(made)] == [{"a"}, {"b", "c", "d"}]


def structured(count: int, seed: int) -> list[RandomTopology]:
    rng, joins = np.random.default_rng(seed), (0.0, 0.5)
    return [random_topology(rng, Specification(parallelism=(1, 8), joins=joins[n % 2])) for n in range(count)]


@pytest.mark.parametrize("made", structured(16, seed=41), ids=repr)
def test_units_part_the_operators_at_the_boundaries_alone(made: RandomTopology) -> None:
    of = {place: number for number, unit in enumerate(units(made.graph)) for place in unit}
    assert sorted(of) == list(range(len(made.graph.operators)))
    cut = unit_boundaries(made.graph)
    for number, stream in enumerate(made.graph.substreams):
        receiver = made.graph.operators[stream.downstream]
        if number not in cut:
            assert of[stream.upstream] == of[stream.downstream]
            assert not (merges(stream) and receiver.correlated and len(made.shape.in_edges(receiver.name)) > 1)
            behind = [one for one in made.graph.substreams if one.upstream == stream.downstream]
            assert not (merges(stream) and any(map(splits, behind)))
        else:
            assert merges(stream)


@pytest.mark.parametrize("made", structured(16, seed=42), ids=repr)
def test_a_unit_has_few_trees(made: RandomTopology) -> None:
    """The reason for units (PPA IV-C1): at most one for each substream on its widest way, source to sink."""
    for unit in units(made.graph):
        part, _ = made.graph.part(unit, leaving(made.graph, unit))
        assert count_trees(part) <= sum(len(stream.rates) for stream in part.substreams) + part.size


@pytest.mark.parametrize("made", small_topologies(24, seed=43), ids=repr)
def test_sub_topologies_are_full_or_structured_and_part_at_full_edges(made: RandomTopology) -> None:
    parts = subtopologies(made.graph)
    of = {int(task): number for number, part in enumerate(parts) for task in part.tasks}
    assert sorted(of) == list(range(made.graph.size))
    for stream in made.graph.substreams:
        if len(stream.rates) and of[int(stream.senders[0])] != of[int(stream.receivers[0])]:
            assert is_full(made.graph, stream)
    for part in parts:
        assert part.graph.outputs.sum() == pytest.approx(1)
        if part.full:
            assert all(is_full(part.graph, stream) for stream in part.graph.substreams)
        elif len(part.graph.operators) > 1:
            assert any(not is_full(part.graph, stream) for stream in part.graph.substreams)


def test_what_leaves_a_part_weighs_its_tasks() -> None:
    made = graph({"a": 3, "b": 2, "c": 1}, [("a", "b", "merge"), ("b", "c", "full")])
    assert leaving(made, [0, 1])[made.operators[1].tasks].tolist() == [2, 1]
