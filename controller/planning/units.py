"""Splits of a topology: into units, within which MC-trees are few, and into sub-topologies (PPA IV-C1 and IV-C3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from riprap.controller.planning.graph import Substreams, TaskGraph


def merges(stream: Substreams) -> bool:
    """True when a task hears several senders of the edge."""
    return len(np.unique(stream.receivers)) < len(stream.receivers)


def splits(stream: Substreams) -> bool:
    """True when a task sends to several receivers of the edge."""
    return len(np.unique(stream.senders)) < len(stream.senders)


def is_full(graph: TaskGraph, stream: Substreams) -> bool:
    """True when every task sends to every other; so does any edge of which one end has a single task."""
    return len(stream.rates) == graph.operators[stream.upstream].count * graph.operators[stream.downstream].count


def unit_boundaries(graph: TaskGraph) -> set[int]:
    """The edges, by their places, between units: those that merge into a join, and those that merge into a task behind
    which a split follows.

    The paper looks for the split at the same task; behind a chain of one-to-one edges it multiplies trees as well.
    """
    found: set[int] = set()
    split_behind = [False] * len(graph.operators)
    for place in reversed(range(len(graph.operators))):
        leaving = [stream for stream in graph.substreams if stream.upstream == place]
        split_behind[place] = any(
            splits(stream) or (not merges(stream) and split_behind[stream.downstream]) for stream in leaving
        )
        entering = [(number, one) for number, one in enumerate(graph.substreams) if one.downstream == place]
        joins = graph.operators[place].correlated and len(entering) > 1
        if joins or split_behind[place]:
            found |= {number for number, stream in entering if merges(stream)}
    return found


def units(graph: TaskGraph) -> list[list[int]]:
    """The operators of each unit."""
    cut = unit_boundaries(graph)
    kept = (stream for number, stream in enumerate(graph.substreams) if number not in cut)
    return _connected(len(graph.operators), ((stream.upstream, stream.downstream) for stream in kept))


@dataclass(frozen=True, eq=False)
class Subtopology:
    """A part of a graph that is full or structured, and the numbers that its tasks have there."""

    graph: TaskGraph
    tasks: np.ndarray
    full: bool


def subtopologies(graph: TaskGraph) -> list[Subtopology]:
    """The parts of a graph between full edges: structured ones are joined by their other edges; operators of which all
    edges are full make up full ones."""
    structured = [stream for stream in graph.substreams if not is_full(graph, stream)]
    parts = _connected(len(graph.operators), ((stream.upstream, stream.downstream) for stream in structured))
    lone = {part[0] for part in parts if len(part) == 1}
    full = ((one.upstream, one.downstream) for one in graph.substreams if {one.upstream, one.downstream} <= lone)
    of_full = [part for part in _connected(len(graph.operators), full) if part[0] in lone]
    found = [(part, False) for part in parts if len(part) > 1] + [(part, True) for part in of_full]
    return [Subtopology(*graph.part(part, leaving(graph, part)), whole) for part, whole in sorted(found)]


def leaving(graph: TaskGraph, places: Iterable[int]) -> np.ndarray:
    """By task, what it puts out of a part of the graph: the weights of that part's output.

    Rates of links where they leave the part; a sink task's share of the final output, in proportion to its input.
    """
    inside = set(places)
    found = np.where(graph.outputs > 0, graph.loads, 0.0)
    for stream in graph.substreams:
        if stream.upstream in inside and stream.downstream not in inside:
            np.add.at(found, stream.senders, stream.rates)
    return found


def _connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected sets among the numbers below `count`, each in order."""
    root = list(range(count))

    def find(number: int) -> int:
        while root[number] != number:
            number = root[number]
        return number

    for left, right in pairs:
        first, second = sorted((find(left), find(right)))
        root[second] = first
    found: dict[int, list[int]] = {}
    for number in range(count):
        found.setdefault(find(number), []).append(number)
    return list(found.values())
