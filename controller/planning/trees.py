"""Minimal complete trees: the smallest sets of tasks that put out something by themselves (PPA, definition 1).

A tree ends at one sink task; a task of an independent operator needs one of its senders, a join one in each stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from riprap.codec.errors import RiprapError
from riprap.controller.planning.graph import StreamShares, TaskGraph

TREES_MAX = 20_000
Trees = dict[int, float]
"""Sets of tasks as bits of an integer -> the fidelity that each adds where it is alive."""


class TooManyTrees(RiprapError):
    """A graph has more MC-trees than a planner that lists them can take."""


def count_trees(graph: TaskGraph) -> int:
    """The number of MC-trees, as ways to choose them: two branches of a join may choose the same task, and then two
    ways can be one set."""
    ways = [0] * graph.size
    for group, streams in zip(graph.operators, graph.inputs):
        for local in range(group.count):
            branches = [sum(ways[sender] for sender in senders_of(stream, local)) for stream in streams]
            ways[group.first + local] = _combined(branches, group.correlated) if streams else 1
    return sum(ways[task] for task in np.flatnonzero(graph.outputs))


def _combined(branches: list[int], correlated: bool) -> int:
    found = 1
    for number in branches:
        found *= number
    return found if correlated else sum(branches)


def senders_of(stream: StreamShares, local: int) -> list[int]:
    """The tasks that send to an operator's task of that place, on one edge."""
    return [sender for sender, _ in shares_of(stream, local)]


def shares_of(stream: StreamShares, local: int) -> list[tuple[int, float]]:
    """(sender, share of the receiver's input) on one edge, of an operator's task of that place."""
    at = np.searchsorted(stream.heard, local)
    if at == len(stream.heard) or stream.heard[at] != local:
        return []
    first = stream.starts[at]
    stop = stream.starts[at + 1] if at + 1 < len(stream.starts) else len(stream.shares)
    links = slice(first, stop)
    return list(zip(stream.links.senders[links].tolist(), stream.shares[links].tolist()))


class Grown(NamedTuple):
    """A tree that ends at a task: what it adds to the task's fidelity, and the trees that end at its senders, by their
    task and set, that it is grown from; of several ways to the same set, the first."""

    value: float
    branches: tuple[tuple[int, int], ...]


def trees_of(graph: TaskGraph, most: int = TREES_MAX) -> Trees:
    """All MC-trees as sets, and what each adds to OF once all its tasks are alive: OF is the sum over the trees within
    a set. TooManyTrees beyond `most` ways."""
    ends, found = grown_trees(graph, most), Trees()
    for task in np.flatnonzero(graph.outputs).tolist():
        for tree, grown in ends[task].items():
            found[tree] = found.get(tree, 0.0) + grown.value * float(graph.outputs[task])
    return found


def grown_trees(graph: TaskGraph, most: int = TREES_MAX) -> list[dict[int, Grown]]:
    """By task, the trees that end at it as sets; MC-trees are those of the sink tasks. TooManyTrees beyond `most`
    ways to choose one of these."""
    ways = count_trees(graph)
    if ways > most:
        raise TooManyTrees(
            f"the graph has {ways:,} minimal complete trees, more than {most:,}", "use --algorithm structure_aware"
        )
    ends: list[dict[int, Grown]] = []
    for group, streams in zip(graph.operators, graph.inputs):
        for local in range(group.count):
            branches = [_branch(stream, local, ends) for stream in streams]
            ends.append(_grown(group.first + local, branches, group.correlated))
    return ends


_Branch = tuple[tuple[int, int], float]
"""A tree of a sender, by its task and set, and what it adds to the fidelity of a stream."""


def _branch(stream: StreamShares, local: int, ends: list[dict[int, Grown]]) -> list[_Branch]:
    return [
        ((sender, tree), grown.value * share)
        for sender, share in shares_of(stream, local)
        for tree, grown in ends[sender].items()
    ]


def _grown(task: int, branches: list[list[_Branch]], correlated: bool) -> dict[int, Grown]:
    if not branches:
        return {1 << task: Grown(1.0, ())}
    chosen: Iterable[tuple[_Branch, ...]] = product(*branches) if correlated else zip(chain(*branches))
    found: dict[int, Grown] = {}
    for parts in chosen:
        tree, value = 1 << task, 1.0
        for (_, bits), share in parts:
            tree |= bits
            value *= share
        known = found.get(tree)
        places = known.branches if known else tuple(place for place, _ in parts)
        found[tree] = Grown(value + (known.value if known else 0.0), places)
    return found


def tasks_of(tree: int) -> list[int]:
    """The numbers of the tasks in a set of bits."""
    found = []
    while tree:
        low = tree & -tree
        found.append(low.bit_length() - 1)
        tree ^= low
    return found
