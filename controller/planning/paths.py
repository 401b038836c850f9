"""The fast heuristic: a plan that grows by the best tree per number of new tasks, found by a dynamic program.

By task and number k of new tasks, the most that one further branch towards it can add to the fidelity of its output:
the largest product of shares along the way, source to sink, with what already arrives there. Each step takes the tree
with the largest gain of OF per new task. Not in the paper, whose Algorithm 3 takes segments of units instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riprap.controller.planning.fidelity import fidelities, fidelity_of, influence, output_fidelity, received
from riprap.controller.planning.graph import StreamShares, TaskGraph
from riprap.controller.planning.trees import shares_of

NEW_TASKS_MAX = 64
"""The largest extension considered: the trees of real topologies are as large as they have operators."""
NOTHING = 1e-15
"""A gain that is rounding alone."""


def plans_up_to(
    graph: TaskGraph, budget: int, spared: np.ndarray | None = None
) -> tuple[list[frozenset[int]], np.ndarray]:
    """By number of replicas, 0 to `budget`: a plan of at most so many, and its OF, which never falls.

    Tasks that are `spared` (tasks, booleans), by default the free ones, live without a replica. Every plan is extended
    by the best tree of each size, as Algorithm 1 does with all trees, and the best plan of each number is kept.
    """
    spared = graph.spared if spared is None else spared
    plans = [frozenset[int]()] * (budget + 1)
    values = np.zeros(budget + 1)
    values[:] = float(output_fidelity(graph, spared))
    largest = largest_tree(graph)
    for number in range(budget):
        if number and plans[number] is plans[number - 1]:
            continue
        extended = _extensions(graph, plans[number], spared, budget, largest)
        sets = np.stack([graph.mask(plan) | spared for plan in extended], axis=1) if extended else spared[:, None]
        for plan, value in zip(extended, output_fidelity(graph, sets)):
            better = values[len(plan) :] < value - NOTHING
            for place in np.flatnonzero(better) + len(plan):
                plans[place], values[place] = plan, value
    return plans, values


def _extensions(
    graph: TaskGraph, plan: frozenset[int], spared: np.ndarray, budget: int, largest: int
) -> list[frozenset[int]]:  # fmt: skip
    """The plan with the best tree of each number of new tasks that gains anything, where that fits the budget.

    Trees are found beyond what is left, as the search counts a task twice that two branches of a join share.
    """
    if not largest:
        return []  # no task can have a replica
    search, worth = _searched(graph, graph.mask(plan) | spared, min(largest, NEW_TASKS_MAX))
    found = (
        plan | search.tree(task, spent)
        for spent, task in enumerate(worth.argmax(axis=0).tolist())
        if worth[task, spent] > NOTHING
    )
    return [extended for extended in found if len(extended) <= budget]


def best_extension(graph: TaskGraph, plan: frozenset[int], most: int) -> frozenset[int]:
    """The new tasks, at most `most`, that add most to OF per task as one further tree; none when nothing gains."""
    extended = _extensions(graph, plan, graph.spared, len(plan) + most, largest_tree(graph))
    if not extended:
        return frozenset()
    gains = output_fidelity(graph, np.stack([graph.alive(one) for one in extended], axis=1)) - fidelity_of(graph, plan)
    best = int(np.argmax(gains / [len(one - plan) for one in extended]))
    return extended[best] - plan if gains[best] > NOTHING else frozenset()


def _searched(graph: TaskGraph, alive: np.ndarray, most: int) -> tuple[_Search, np.ndarray]:
    """The search, and by task and number of new tasks what they gain of OF."""
    search = _Search(graph, alive, most)
    return search, search.gains * influence(graph, alive)[:, None]


def largest_tree(graph: TaskGraph) -> int:
    """The most tasks that an MC-tree can have, free ones apart; one that two branches of a join share counts twice."""
    sizes = (~graph.spared).astype(np.int64)
    for group, streams in zip(graph.operators, graph.inputs):
        branches = [stream.largest(sizes, weighted=False) for stream in streams]
        if branches:
            sizes[group.tasks] += np.sum(branches, axis=0) if group.correlated else np.max(branches, axis=0)
    return int(sizes.max())


@dataclass(frozen=True)
class _Stream:
    """One input stream of an operator during a search: what arrives, and the most that k new tasks add to it."""

    shares: StreamShares
    arriving: np.ndarray
    added: np.ndarray
    """(tasks of the operator, k)."""


class _Search:
    """The dynamic program, from sources to sinks; `gains` is (tasks, k), the fidelity added by k new tasks."""

    def __init__(self, graph: TaskGraph, alive: np.ndarray, most: int) -> None:
        self._graph, self._alive, self._most = graph, alive, most
        self._values = fidelities(graph, alive)
        self.gains = np.zeros((graph.size, most + 1))
        self._streams: list[list[_Stream]] = []
        for group, streams in zip(graph.operators, graph.inputs):
            entering = [self._stream(stream) for stream in streams]
            self._streams.append(entering)
            new = ~alive[group.tasks]
            if not entering:
                self.gains[group.tasks, 1][new] = 1
                continue
            reached = self._reached(entering, group.correlated)
            now = received([stream.arriving for stream in entering], group.correlated)
            gains = self.gains[group.tasks]
            gains[~new] = np.maximum(0, reached[~new] - now[~new, None])
            gains[new, 1:] = reached[new, :-1]

    def _stream(self, shares: StreamShares) -> _Stream:
        return _Stream(shares, shares.gather(self._values), shares.largest(self.gains))

    def _reached(self, streams: list[_Stream], correlated: bool) -> np.ndarray:
        """(tasks of the operator, k): the fidelity of the whole input with k new tasks upstream."""
        if not correlated:
            arriving = np.sum([stream.arriving for stream in streams], axis=0)
            return arriving[:, None] + np.max([stream.added for stream in streams], axis=0)
        found = streams[0].arriving[:, None] + streams[0].added
        for stream in streams[1:]:
            found = _product(found, stream.arriving[:, None] + stream.added)
        return found

    def tree(self, task: int, spent: int) -> set[int]:
        """The new tasks of the branches that gain `gains[task, spent]`."""
        found: set[int] = set()
        todo = [(task, spent)]
        while todo:
            task, spent = todo.pop()
            if not self._alive[task]:
                found.add(task)
                spent -= 1
            if spent > 0:
                todo += self._branches(task, spent)
        return found

    def _branches(self, task: int, spent: int) -> list[tuple[int, int]]:
        place = int(self._graph.operator_of[task])
        group, streams = self._graph.operators[place], self._streams[place]
        local = task - group.first
        if not streams:
            return []
        if not group.correlated:
            best = max(streams, key=lambda stream: float(stream.added[local, spent]))
            return self._sender(best, local, spent)
        found = []
        for stream, part in zip(streams, _allocation(streams, local, spent)):
            found += self._sender(stream, local, part)
        return found

    def _sender(self, stream: _Stream, local: int, spent: int) -> list[tuple[int, int]]:
        if spent < 1 or stream.added[local, spent] <= 0:
            return []
        links = shares_of(stream.shares, local)
        sender, _ = max(links, key=lambda link: link[1] * float(self.gains[link[0], spent]))
        return [(sender, spent)]


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(tasks, k): the largest product of one number of each side whose numbers of new tasks sum to k."""
    found = np.zeros_like(left)
    for spent in range(left.shape[1]):
        found[:, spent:] = np.maximum(found[:, spent:], left[:, spent : spent + 1] * right[:, : left.shape[1] - spent])
    return found


def _allocation(streams: list[_Stream], local: int, spent: int) -> list[int]:
    """By stream of a join, the new tasks that it gets of `spent`."""
    tables = [(stream.arriving[local] + stream.added[local])[None, : spent + 1] for stream in streams]
    prefixes = [tables[0]]
    for table in tables[1:]:
        prefixes.append(_product(prefixes[-1], table))
    parts = []
    for number in range(len(streams) - 1, 0, -1):
        ways = prefixes[number - 1][0, : spent + 1] * tables[number][0, spent::-1]
        before = int(np.argmax(ways))
        parts.append(spent - before)
        spent = before
    return [spent, *reversed(parts)]
