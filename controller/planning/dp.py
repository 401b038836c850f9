"""Algorithm 1: the best plan of all, as a union of MC-trees, by raising the usage task by task (PPA IV-A).

Mended: a candidate that nothing extends any more leaves the set of candidates, but stays the plan if it is the best.
"""

from __future__ import annotations

from riprap.codec.errors import RiprapError
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.trees import Trees, tasks_of, trees_of

CANDIDATES_MAX = 200_000


class TooManyPlans(RiprapError):
    """The dynamic program has more candidates than fit."""


def plan_dp(graph: TaskGraph, budget: int) -> frozenset[int]:
    """The tasks of an optimal plan, of at most `budget` tasks; it may leave some of the budget unused.

    TooManyTrees or TooManyPlans when the graph is too large for it: its cost grows as 2 to the number of trees.
    """
    trees = trees_of(graph)
    best, most = 0, 0.0
    exhausted_at = {0: max((tree.bit_count() for tree in trees), default=0)}
    seen = {0}
    for usage in range(1, budget + 1):
        for plan in list(exhausted_at):
            spare = usage - plan.bit_count()
            if spare > exhausted_at[plan]:
                del exhausted_at[plan]
                continue
            for tree in trees:
                extended = plan | tree
                if extended.bit_count() != usage or extended in seen:
                    continue
                seen.add(extended)
                if len(seen) > CANDIDATES_MAX:
                    raise TooManyPlans(
                        f"the dynamic program has more than {CANDIDATES_MAX:,} candidates",
                        "use --algorithm auto or structure_aware",
                    )
                exhausted_at[extended] = max(((tree & ~extended).bit_count() for tree in trees), default=0)
                value = worth(trees, extended)
                if value > most + 1e-12:
                    best, most = extended, value
    return frozenset(tasks_of(best))


def worth(trees: Trees, plan: int) -> float:
    """OF of a set of tasks: the sum over the trees within it."""
    return sum(value for tree, value in trees.items() if tree & ~plan == 0)
