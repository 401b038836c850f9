"""One entry for all planners: a plan, the output that it keeps in the worst case, and a bound that no plan exceeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from riprap.controller.planning.bounds import ROUNDING, upper_bounds
from riprap.controller.planning.cuts import Factor, best_split, factors
from riprap.controller.planning.dp import plan_dp
from riprap.controller.planning.exact import SECONDS_MAX, has_solver, solve
from riprap.controller.planning.fidelity import fidelity_of
from riprap.controller.planning.full_tree import FullTree, is_full_tree
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.greedy import plan_greedy
from riprap.controller.planning.paths import plans_up_to
from riprap.controller.planning.structure_aware import plan_structure_aware

Algorithm = Literal["auto", "exact", "dp", "greedy", "structure_aware"]
OF_THE_PAPER: Mapping[str, Callable[[TaskGraph, int], frozenset[int]]] = {
    "dp": plan_dp,
    "greedy": plan_greedy,
    "structure_aware": plan_structure_aware,
}
AUTO_VARIABLES_MAX = 20_000
"""The most tasks of a factor times budgets for which `auto` has programs solved: a few seconds of them."""
AUTO_TASKS_MAX = 6000
"""The largest factor for which it has one solved."""
AUTO_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class ReplicationPlan:
    """The tasks with an active replica, OF when all others have failed, and a number that OF of no plan exceeds."""

    tasks: frozenset[int]
    fidelity: float
    bound: float

    @property
    def gap(self) -> float:
        """The part of the bound that the plan may be missing; 0 where it is certainly the best."""
        return (self.bound - self.fidelity) / self.bound if self.bound - self.fidelity > ROUNDING else 0.0


class Planner:
    """Plans a graph for any budget; what one budget needed is kept for the next."""

    def __init__(self, graph: TaskGraph, algorithm: Algorithm = "auto") -> None:
        self.graph, self.algorithm = graph, algorithm
        self._curves = [_FactorCurve(factor, algorithm == "exact") for factor in factors(graph)]

    def plan(self, budget: int) -> ReplicationPlan:
        """The plan for at most `budget` replicas; ConfigError for `exact` without scipy, and RiprapError for `dp` on a
        graph that is too large for it."""
        budget = min(budget, self.graph.replaceable)
        if self.algorithm in OF_THE_PAPER:
            tasks = OF_THE_PAPER[self.algorithm](self.graph, budget)
            reached = fidelity_of(self.graph, tasks)
            bound = reached if self.algorithm == "dp" else max(reached, self._of_factors(budget).bound)
            return ReplicationPlan(tasks, reached, bound)
        if budget == self.graph.replaceable:
            return ReplicationPlan(frozenset(range(self.graph.size)) - self.graph.free, 1.0, 1.0)
        return self._of_factors(budget)

    def _of_factors(self, budget: int) -> ReplicationPlan:
        single = len(self._curves) == 1
        for curve in self._curves:
            curve.reach(budget, budget if single else 0)
        _, given = best_split([curve.values(budget) for curve in self._curves], budget)
        tasks: set[int] = set()
        for curve, spent in zip(self._curves, given[budget]):
            tasks |= {int(curve.factor.tasks[task]) for task in curve.plan(spent)}
        reached = fidelity_of(self.graph, tasks)
        scale = float(np.prod([curve.factor.scale for curve in self._curves]))
        limits, _ = best_split([curve.bounds(budget) for curve in self._curves], budget)
        bound = min(1.0, scale * float(limits[budget]))
        completing = frozenset(tasks if reached else ())  # one factor alone puts nothing out
        return ReplicationPlan(completing, reached, max(reached, bound))


class _FactorCurve:
    """By budget, the best plan known of a factor, its OF and its bound; filled as far as it was asked for."""

    def __init__(self, factor: Factor, always_exact: bool) -> None:
        self.factor, self._always_exact = factor, always_exact
        self._plans: dict[int, frozenset[int]] = {}
        self._values: dict[int, float] = {}
        self._bounds: dict[int, float] = {}
        self._exact: set[int] = set()

    def reach(self, budget: int, first: int) -> None:
        """Know all budgets up to `budget`, those from `first` on as well as can be."""
        graph = self.factor.graph
        last = min(budget, graph.replaceable)
        if any(number not in self._values for number in range(last + 1)):
            self._grown(last)
        wanted = range(min(first, last), last + 1)
        few = graph.size <= AUTO_TASKS_MAX and (len(wanted) == 1 or graph.size * len(wanted) <= AUTO_VARIABLES_MAX)
        if self._always_exact or (few and has_solver()):
            for number in wanted:
                self._solved(number)

    def values(self, budget: int) -> np.ndarray:
        """OF by budget."""
        return self._up_to(budget, self._values)

    def bounds(self, budget: int) -> np.ndarray:
        """The bounds by budget: a bound of more replicas is one of fewer, too."""
        return np.minimum.accumulate(self._up_to(budget, self._bounds)[::-1])[::-1]

    def plan(self, budget: int) -> frozenset[int]:
        """The plan of a budget."""
        return self._plans[min(budget, self.factor.graph.replaceable)]

    def _up_to(self, budget: int, found: dict[int, float]) -> np.ndarray:
        return np.array([found[number] for number in range(min(budget, self.factor.graph.replaceable) + 1)])

    def _grown(self, last: int) -> None:
        graph = self.factor.graph
        if is_full_tree(graph):
            tree = FullTree(graph, last)
            plans, limits = [tree.plan(number) for number in range(last + 1)], tree.bounds
            values = np.array([fidelity_of(graph, plan) for plan in plans])
        else:
            plans, values = plans_up_to(graph, last)
            limits = upper_bounds(graph, range(last + 1))
        for number in range(last + 1):
            value, limit = float(values[number]), float(limits[number])
            self._plans[number], self._values[number] = plans[number], value
            self._bounds[number] = limit if limit > value + ROUNDING else value
        self._exact.clear()

    def _solved(self, number: int) -> None:
        if number in self._exact or self._values[number] == self._bounds[number]:
            return
        self._exact.add(number)
        longest = SECONDS_MAX if self._always_exact else AUTO_SECONDS_MAX
        found = solve(self.factor.graph, number, seconds_max=longest)
        if found.fidelity > self._values[number]:
            self._plans[number], self._values[number] = found.tasks, found.fidelity
        self._bounds[number] = max(self._values[number], min(self._bounds[number], found.bound))
