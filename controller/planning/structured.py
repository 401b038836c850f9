"""Algorithm 3: extends a plan of a structured topology by the segments that gain most per task (PPA IV-C1).

A segment is an MC-tree within a unit. Mended: a plan grows by the union, the budget is tested for what is left of it,
and one call is one extension.
"""

from __future__ import annotations

from dataclasses import dataclass

from riprap.controller.planning.fidelity import fidelity_of, output_fidelities
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.trees import tasks_of, trees_of
from riprap.controller.planning.units import leaving, units


@dataclass(frozen=True)
class TreeSegment:
    """An MC-tree within a unit, and what it alone keeps of that unit's output."""

    unit: int
    tasks: frozenset[int]
    worth: float


class StructuredPlanner:
    """Extends plans of one structured topology. TooManyTrees when a unit has more segments than can be listed."""

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._segments = [
            segment for number, places in enumerate(units(graph)) for segment in _segments(graph, number, places)
        ]
        self._best_beside = self._indexed()
        self._chains = [self._chain(segment) for segment in self._segments]

    def extend(self, plan: frozenset[int], most: int) -> frozenset[int]:
        """The new tasks, at most `most`, of the candidate with the largest gain of OF per task; none if none gains."""
        now = fidelity_of(self._graph, plan)
        alone = list({segment.tasks - plan: None for segment in self._segments})
        reached = self._reached(plan, [new for new in alone if 0 < len(new) <= most])
        found = {new: value for new, value in reached.items() if value > now + 1e-12}
        chains = [
            self._within(chain, plan, most)
            for segment, chain in zip(self._segments, self._chains)
            if segment.tasks - plan not in found and segment.tasks - plan
        ]
        found |= self._reached(plan, [new for new in dict.fromkeys(chains) if new])
        best = max(found, key=lambda new: ((found[new] - now) / len(new), -len(new)), default=frozenset[int]())
        return best if best and found[best] > now + 1e-12 else frozenset()

    def _reached(self, plan: frozenset[int], candidates: list[frozenset[int]]) -> dict[frozenset[int], float]:
        masks = (self._graph.mask(plan | new) for new in candidates)
        return dict(zip(candidates, output_fidelities(self._graph, masks).tolist()))

    def _indexed(self) -> dict[tuple[int, int], TreeSegment]:
        """By unit and task of another unit, the best segment of the unit that is linked with the task."""
        linked: dict[int, set[int]] = {}
        for stream in self._graph.substreams:
            for sender, receiver in zip(stream.senders.tolist(), stream.receivers.tolist()):
                linked.setdefault(sender, set()).add(receiver)
                linked.setdefault(receiver, set()).add(sender)
        found: dict[tuple[int, int], TreeSegment] = {}
        for segment in sorted(self._segments, key=lambda one: -one.worth):
            for task in segment.tasks:
                for other in linked.get(task, ()):
                    found.setdefault((segment.unit, other), segment)
        return found

    def _chain(self, segment: TreeSegment) -> list[TreeSegment]:
        """The segment, and by breadth-first search the best connected segment of every unit that can be reached."""
        chain, visited, tasks = [segment], {segment.unit}, set(segment.tasks)
        grown = True
        while grown:
            grown = False
            for unit in range(1 + max(one.unit for one in self._segments)):
                beside = {self._best_beside[unit, task] for task in tasks if (unit, task) in self._best_beside}
                if unit not in visited and beside:
                    best = max(beside, key=lambda one: (one.worth, sorted(one.tasks)))
                    chain.append(best)
                    visited.add(unit)
                    tasks |= best.tasks
                    grown = True
        return chain

    def _within(self, chain: list[TreeSegment], plan: frozenset[int], most: int) -> frozenset[int]:
        """The new tasks of as much of a chain as fits."""
        found: frozenset[int] = frozenset()
        for segment in chain:
            more = found | (segment.tasks - plan)
            if len(more) > most:
                break
            found = more
        return found


def _segments(graph: TaskGraph, number: int, places: list[int]) -> list[TreeSegment]:
    outputs = leaving(graph, places)
    part, tasks = graph.part(places, outputs)
    return [
        TreeSegment(number, frozenset(int(tasks[task]) for task in tasks_of(tree)), round(worth, 12))
        for tree, worth in trees_of(part).items()
    ]
