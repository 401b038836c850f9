"""An upper bound on what any plan of a budget can reach, without solving anything.

Each operator bounds OF by itself: OF is at most what passes the operator's replicated tasks, plus what passes it by.
(OF is a polynomial of the tasks' liveness with positive coefficients, so no set yields more than the derivative at
"all alive" promises.) All operators share the budget, so the lowest of the bounds is raised together.
"""

from __future__ import annotations

import numpy as np

from riprap.controller.planning.fidelity import output_fidelity, passing
from riprap.controller.planning.graph import TaskGraph

STEPS = 50
"""Halvings of the interval in which the bound lies."""
ROUNDING = 2e-9
"""More than bounds are rounded up by."""


def upper_bounds(graph: TaskGraph, budgets: range, spared: np.ndarray | None = None) -> np.ndarray:
    """By budget, a number that OF cannot exceed; tasks that are `spared` (tasks, booleans), by default the free ones,
    live without a replica."""
    spared = graph.spared if spared is None else spared
    carried, past = passing(graph), _past(graph, spared)
    covers = []
    for place, group in enumerate(graph.operators):
        replaceable = np.sort(carried[group.tasks][~spared[group.tasks]])[::-1]
        covers.append(past[place] + np.concatenate([[0.0], np.cumsum(replaceable)]))
    return np.array([_highest(covers, budget) for budget in budgets])


def _past(graph: TaskGraph, spared: np.ndarray) -> np.ndarray:
    """By operator, OF when all of it that is not spared, and nothing else, has failed: what passes it by."""
    alive = np.ones((graph.size, len(graph.operators)))
    for place, group in enumerate(graph.operators):
        alive[group.tasks, place] = spared[group.tasks]
    return output_fidelity(graph, alive)


def _highest(covers: list[np.ndarray], budget: int) -> float:
    """The highest level that all operators reach together; rounded up, never down."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        level = (low + high) / 2
        needed = sum(int(np.searchsorted(cover, level - 1e-12)) for cover in covers)
        low, high = (level, high) if needed <= budget else (low, level)
    return min(1.0, high + 1e-9)
