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

GAIN_MIN = 1e-12
"""A smaller gain is rounding alone."""


@dataclass(frozen=True)
class TreeSegment:
    """An MC-tree within a unit, and what it alone keeps of that unit's output."""

    unit: int
    tasks: frozenset[int]
    worth: float


@dataclass
class _Candidate:
    """The new tasks that a segment asks for, alone or with the chain that it is part of, and their gain of OF.

    `cone` are the tasks that the gain depends on, as bits.
    """

    segment: TreeSegment
    chain: list[TreeSegment]
    cone: int
    new: frozenset[int] = frozenset()
    gain: float = 0.0

    @property
    def rank(self) -> tuple[float, int]:
        """The gain per task, and of equals the fewer tasks."""
        return (self.gain / len(self.new), -len(self.new)) if self.gain > GAIN_MIN else (0.0, 0)


class StructuredPlanner:
    """Extends plans of one structured topology. TooManyTrees when a unit has more segments than can be listed.

    A candidate's gain is kept until the plan changes within its cone, or its tasks are too many for what is left.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._segments = [
            segment for number, places in enumerate(units(graph)) for segment in _segments(graph, number, places)
        ]
        self._best_beside = self._indexed()
        cones = _cones(graph)
        self._candidates = []
        for segment in self._segments:
            chain = self._chain(segment)
            cone = 0
            for task in frozenset[int]().union(*(one.tasks for one in chain)):
                cone |= cones[task]
            self._candidates.append(_Candidate(segment, chain, cone))
        self._plan: frozenset[int] | None = None
        self._most = 0

    def extend(self, plan: frozenset[int], most: int) -> frozenset[int]:
        """The new tasks, at most `most`, of the candidate with the largest gain of OF per task; none if none gains."""
        if not self._candidates:
            return frozenset()  # nothing comes through it
        self._weigh(plan, most)
        best = max(self._candidates, key=lambda one: one.rank)
        return best.new if best.gain > GAIN_MIN else frozenset()

    def _weigh(self, plan: frozenset[int], most: int) -> None:
        """Bring all candidates up to date: each segment alone, and with its chain where it gains nothing alone."""
        changed = sum(1 << task for task in plan ^ (self._plan or frozenset()))
        everything = self._plan is None or most > self._most
        stale = [one for one in self._candidates if everything or one.cone & changed or len(one.new) > most]
        self._plan, self._most = plan, most
        now = fidelity_of(self._graph, plan)
        for one in stale:
            one.new = self._within([one.segment], plan, most)
        self._measure(stale, plan, now)
        chained = [one for one in stale if one.gain <= GAIN_MIN]
        for one in chained:
            one.new = self._within(one.chain, plan, most)
        self._measure(chained, plan, now)

    def _measure(self, candidates: list[_Candidate], plan: frozenset[int], now: float) -> None:
        reached = output_fidelities(self._graph, (self._graph.alive(plan | one.new) for one in candidates))
        for one, value in zip(candidates, reached.tolist()):
            one.gain = value - now

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
            more = found | (segment.tasks - plan - self._graph.free)
            if len(more) > most:
                break
            found = more
        return found


def _cones(graph: TaskGraph) -> list[int]:
    """By task, the tasks that the gain from its being alive depends on, as bits: those before and behind it, and those
    before a join behind it."""
    before = [1 << task for task in range(graph.size)]
    for streams in graph.inputs:
        for stream in streams:
            for sender, receiver in zip(stream.links.senders.tolist(), stream.links.receivers.tolist()):
                before[receiver] |= before[sender]
    behind = [0] * graph.size
    for group, streams in zip(reversed(graph.operators), reversed(graph.inputs)):
        joined = group.correlated and len(streams) > 1
        for stream in streams:
            for sender, receiver in zip(stream.links.senders.tolist(), stream.links.receivers.tolist()):
                behind[sender] |= behind[receiver] | 1 << receiver | (before[receiver] if joined else 0)
    return [one | other for one, other in zip(before, behind)]


def _segments(graph: TaskGraph, number: int, places: list[int]) -> list[TreeSegment]:
    outputs = leaving(graph, places)
    part, tasks = graph.part(places, outputs)
    return [
        TreeSegment(number, frozenset(int(tasks[task]) for task in tasks_of(tree)), round(worth, 12))
        for tree, worth in trees_of(part).items()
    ]
