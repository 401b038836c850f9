"""Algorithm 1: the best plan of all, as a union of MC-trees, by raising the usage task by task (PPA IV-A).

Mended: a candidate that nothing extends any more is forgotten, but stays the plan if it is the best. A candidate is
extended by all trees when the usage has reached its size, which makes the same candidates as the paper's order.
"""

from __future__ import annotations

from riprap.codec.errors import RiprapError
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.trees import Trees, tasks_of, trees_of

PAIRS_MAX = 20_000_000
"""Candidates times trees that are looked at: some seconds of them."""


class TooManyPlans(RiprapError):
    """The dynamic program has more candidates than it can go through."""


def plan_dp(graph: TaskGraph, budget: int) -> frozenset[int]:
    """The tasks of an optimal plan, of at most `budget` tasks; it may leave some of the budget unused.

    TooManyTrees or TooManyPlans when the graph is too large for it: its cost grows as 2 to the number of trees.
    """
    trees = _paid(trees_of(graph), graph.free)
    best, most, pairs = 0, 0.0, 0
    by_usage: list[set[int]] = [set() for _ in range(budget + 1)]
    by_usage[0].add(0)
    for usage in range(budget + 1):
        for plan in by_usage[usage]:
            pairs += len(trees)
            if pairs > PAIRS_MAX:
                raise TooManyPlans(
                    f"the dynamic program has more than {PAIRS_MAX:,} pairs of a candidate and a tree to look at",
                    "use --algorithm auto or structure_aware",
                )
            if (value := worth(trees, plan)) > most + 1e-12:
                best, most = plan, value
            for tree in trees:
                extended = plan | tree
                if usage < extended.bit_count() <= budget:
                    by_usage[extended.bit_count()].add(extended)
        by_usage[usage].clear()
    return frozenset(tasks_of(best))


def _paid(trees: Trees, free: frozenset[int]) -> Trees:
    """The trees without the tasks that cost nothing; those that differ in these alone are one."""
    costless, found = sum(1 << task for task in free), Trees()
    for tree, value in trees.items():
        found[tree & ~costless] = found.get(tree & ~costless, 0.0) + value
    return found


def worth(trees: Trees, plan: int) -> float:
    """OF of a set of tasks: the sum over the trees within it."""
    return sum(value for tree, value in trees.items() if tree & ~plan == 0)
