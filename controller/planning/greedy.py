"""Algorithm 2: the tasks whose failure alone would cost the most (PPA IV-B). It knows nothing of complete trees."""

from __future__ import annotations

import numpy as np

from riprap.controller.planning.fidelity import output_fidelities
from riprap.controller.planning.graph import TaskGraph


def plan_greedy(graph: TaskGraph, budget: int) -> frozenset[int]:
    """The `budget` tasks with the lowest OF when each alone fails; of equals the first. None is free."""
    ranked = np.argsort(alone_failed(graph), kind="stable")
    return frozenset(ranked[~graph.spared[ranked]][:budget].tolist())


def alone_failed(graph: TaskGraph) -> np.ndarray:
    """By task, OF when it alone has failed; rounded, so that equals are equal whatever the order of the sums."""
    everyone = frozenset(range(graph.size))
    return np.round(output_fidelities(graph, (graph.alive(everyone - {task}) for task in range(graph.size))), 12)
