"""Small graphs of tasks, and a planner that tries every set."""

from __future__ import annotations

import itertools

import numpy as np

from bench.random_topologies import RandomTopology, Specification, random_topology
from riprap.configs.shape import EdgeSection, Shape, placed
from riprap.controller.planning.fidelity import output_fidelity
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.rates import StreamRates, task_graph

Edges = list[tuple[str, str, str]]


def shape(parallelism: dict[str, int], edges: Edges) -> Shape:
    return Shape(parallelism, placed(EdgeSection(*edge) for edge in edges))


def graph(
    parallelism: dict[str, int], edges: Edges, rates: StreamRates | None = None, joins: tuple[str, ...] = ()
) -> TaskGraph:
    return task_graph(shape(parallelism, edges), rates, frozenset(joins))


def best_by_budget(graph: TaskGraph) -> list[float]:
    """By number of replicas, the largest OF of all sets of at most so many tasks, with the free ones alive."""
    sets = np.array(list(itertools.product([False, True], repeat=graph.size))).T
    paid = ~graph.mask(graph.free)[:, None]
    found, sizes = output_fidelity(graph, sets | ~paid), (sets & paid).sum(axis=0)
    return [float(found[sizes <= budget].max()) for budget in range(graph.size - len(graph.free) + 1)]


def small_topologies(count: int, tasks: int = 12, seed: int = 1) -> list[RandomTopology]:
    """Generated ones of at most so many tasks: all kinds, with joins, skew and shortcuts among them."""
    rng, found = np.random.default_rng(seed), []
    kinds = itertools.cycle(itertools.product(("structured", "full", "mixed"), (0.0, 0.5), (0.0, 1.0), (0.0, 0.4)))
    while len(found) < count:
        kind, joins, zipf, shortcuts = next(kinds)
        made = random_topology(rng, Specification(kind, (3, 5), (1, 4), zipf, joins, shortcuts))
        while not 5 <= made.graph.size <= tasks:
            made = random_topology(rng, Specification(kind, (3, 5), (1, 4), zipf, joins, shortcuts))
        found.append(made)
    return found


FIG_1 = (
    {"o1": 2, "o2": 2, "o3": 2, "o4": 4},
    [("o1", "o3", "one_to_one"), ("o2", "o3", "one_to_one"), ("o3", "o4", "full")],
)
"""PPA Fig. 1, whose text states its numbers of trees; these edges have as many."""
FIG_2 = ({"o1": 2, "o2": 2, "o3": 1}, [("o1", "o3", "merge"), ("o2", "o3", "merge")])
FIG_2_RATES = StreamRates(sources={"o1": [2, 1], "o2": [3, 2]})
"""PPA Fig. 2: rates that its two losses fit."""
