"""Algorithm 5: plans each sub-topology by its kind, and extends whichever gains most per new task (PPA IV-C3).

Mended: the tasks of an extension are counted as used; a budget below the number of operators still gets a plan where a
tree skips operators; and gains are compared in OF of the whole, which multiplies across full edges.
"""

from __future__ import annotations

from dataclasses import dataclass

from riprap.controller.planning.fidelity import fidelity_of
from riprap.controller.planning.full import FullPlanner
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.paths import best_extension
from riprap.controller.planning.structured import StructuredPlanner
from riprap.controller.planning.units import Subtopology, subtopologies


def plan_structure_aware(graph: TaskGraph, budget: int) -> frozenset[int]:
    """A plan of at most `budget` tasks; it may leave some of the budget unused.

    TooManyTrees when a unit of a sub-topology has more segments than can be listed.
    """
    parts = [_Part(one) for one in subtopologies(graph)]
    plan = _first(graph, parts, budget)
    while added := _extension(graph, parts, plan, budget - len(plan)):
        plan |= added
    return plan


@dataclass(eq=False)
class _Part:
    """A sub-topology with its planner, which is asked again only after its plan has changed or the budget shrunk."""

    part: Subtopology

    def __post_init__(self) -> None:
        self._planner = (FullPlanner if self.part.full else StructuredPlanner)(self.part.graph)
        self._own = {int(task): number for number, task in enumerate(self.part.tasks)}
        self._asked: tuple[frozenset[int], frozenset[int], int] | None = None

    def extend(self, plan: frozenset[int], most: int) -> frozenset[int]:
        """The new tasks, in numbers of the whole graph, that extend its part of a plan."""
        mine = frozenset(self._own[task] for task in plan if task in self._own)
        if self._asked is None or self._asked[0] != mine or (self._asked[2] > most and len(self._asked[1]) > most):
            self._asked = (mine, self._planner.extend(mine, most), most)
        return frozenset(int(self.part.tasks[task]) for task in self._asked[1])


def _first(graph: TaskGraph, parts: list[_Part], budget: int) -> frozenset[int]:
    """A minimal plan of each part, or the best tree of the whole where that gains more per task, or they do not fit."""
    together: frozenset[int] = frozenset()
    for part in parts:
        together |= part.extend(frozenset(), budget)
    tree = best_extension(graph, frozenset(), budget)
    return max((one for one in (together, tree) if len(one) <= budget), key=lambda one: _density(graph, one))


def _density(graph: TaskGraph, plan: frozenset[int]) -> float:
    return (fidelity_of(graph, plan) - fidelity_of(graph, frozenset())) / len(plan) if plan else 0.0


def _extension(graph: TaskGraph, parts: list[_Part], plan: frozenset[int], most: int) -> frozenset[int]:
    """The best extension of any part; a tree across parts only where none of them gains by itself."""
    now = fidelity_of(graph, plan)
    gains = {}
    for part in parts:
        added = part.extend(plan, most)
        if 0 < len(added) <= most and (gain := fidelity_of(graph, plan | added) - now) > 1e-12:
            gains[added] = gain / len(added)
    if gains:
        return max(gains, key=lambda added: gains[added])
    return best_extension(graph, plan, most)
