"""Algorithm 4: plans for a topology whose edges are all full (PPA IV-C2)."""

from __future__ import annotations

import numpy as np

from riprap.controller.planning.fidelity import output_fidelities, passing
from riprap.controller.planning.graph import TaskGraph


class FullPlanner:
    """Extends plans of a full topology: the best task of each operator first, then one task at a time.

    The paper ranks an operator's tasks by OF when its others have failed and all else is alive: what passes the task.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        gains = np.round(passing(graph), 12)
        self._ranked = [
            sorted(set(range(group.tasks.start, group.tasks.stop)) - graph.free, key=lambda t: (-float(gains[t]), t))
            for group in graph.operators
        ]
        self._counts = [group.count for group in graph.operators]

    def extend(self, plan: frozenset[int], most: int) -> frozenset[int]:
        """The new tasks of one step, at most `most`; none when they do not suffice or nothing is left."""
        left = [[task for task in ranked if task not in plan] for ranked in self._ranked]
        missing = [tasks[0] for tasks, count in zip(left, self._counts) if len(tasks) == count]  # nobody lives there
        if missing:
            return frozenset(missing if len(missing) <= most else ())
        nexts = [tasks[0] for tasks in left if tasks]
        if not nexts or most < 1:
            return frozenset()
        reached = output_fidelities(self._graph, (self._graph.alive(plan | {task}) for task in nexts))
        return frozenset({nexts[int(np.argmax(reached))]})
