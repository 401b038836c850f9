"""The graph of tasks that a planner works on: operators in topological order, and the substreams between their tasks.

Tasks are numbered through, operator by operator (PPA II-A). Rates are in items per second; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.codec.ids import WorkerId

EQUAL = 1e-13
"""Shares that differ by no more are equal but for rounding."""


@dataclass(frozen=True)
class TaskGroup:
    """The tasks of one operator: the numbers `first` to `first + count - 1`."""

    name: str
    first: int
    count: int
    correlated: bool = False
    """A join, whose output lacks all that any one of its input streams lacks (PPA III-A1, correlated-input)."""

    @property
    def tasks(self) -> slice:
        """The numbers of its tasks."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True, eq=False)
class Substreams:
    """All links of one edge between operators; each receiver's links are one of its input streams.

    Senders and receivers are numbers of tasks, rates are positive; links are ordered by receiver, then sender.
    """

    upstream: int
    """The place of the sending operator among the graph's."""
    downstream: int
    senders: np.ndarray
    receivers: np.ndarray
    rates: np.ndarray

    @classmethod
    def of(cls, upstream: int, downstream: int, firsts: tuple[int, int], rates: np.ndarray) -> Substreams:
        """From a matrix of rates (senders, receivers) and the numbers of the first sender and receiver; links without
        traffic carry nothing and are left out."""
        receivers, senders = np.nonzero(rates.T)
        return cls(upstream, downstream, senders + firsts[0], receivers + firsts[1], rates.T[receivers, senders])


@dataclass(frozen=True, eq=False)
class StreamShares:
    """One edge as its receiving operator sees it: the share that each link has of its receiver's input.

    `starts` marks the first link of each receiver in `heard`, which counts from the operator's first task.
    """

    links: Substreams
    shares: np.ndarray
    starts: np.ndarray
    heard: np.ndarray
    count: int
    senders: slice
    """The numbers of the sending operator's tasks."""
    common: np.ndarray | None
    """By sender, its share in the input of any receiver, where all receivers have the same shares; else None."""

    def gather(self, values: np.ndarray) -> np.ndarray:
        """By receiver, the sum of its senders' values (tasks x anything) times their shares."""
        if self.common is not None:
            return np.broadcast_to(self.common @ values[self.senders], (self.count, *values.shape[1:]))
        found = np.zeros((self.count, *values.shape[1:]))
        if len(self.starts):
            shares = self.shares.reshape(-1, *(1,) * (values.ndim - 1))
            found[self.heard] = np.add.reduceat(shares * values[self.links.senders], self.starts, axis=0)
        return found

    def scatter(self, values: np.ndarray, size: int) -> np.ndarray:
        """By task of the graph, of which there are `size`, the sum of its receivers' values times its share in each."""
        if self.common is not None:
            found = np.zeros(size)
            found[self.senders] = self.common * values.sum()
            return found
        first = self.links.receivers[0] - self.heard[0] if len(self.heard) else 0
        return np.bincount(self.links.senders, self.shares * values[self.links.receivers - first], size)

    def largest(self, values: np.ndarray, weighted: bool = True) -> np.ndarray:
        """By receiver, the largest of its senders' values (tasks x anything), times their shares if `weighted`."""
        found = np.zeros((self.count, *values.shape[1:]), values.dtype)
        if self.common is not None:
            shares = self.common.reshape(-1, *(1,) * (values.ndim - 1)) if weighted else 1
            found[:] = (shares * values[self.senders]).max(axis=0)
        elif len(self.starts):
            shares = self.shares.reshape(-1, *(1,) * (values.ndim - 1)) if weighted else 1
            found[self.heard] = np.maximum.reduceat(shares * values[self.links.senders], self.starts, axis=0)
        return found


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Operators in topological order, the substreams between them, and the weight of each task's output.

    `outputs` (tasks, sums to 1) is the share of the final output that leaves each task, 0 for all but sink tasks;
    `loads` (tasks, items/s) is the input of each task, of a source task what it reads. Tasks that are `free` can have
    no replica, and count as alive whatever fails: no plan has any of them, and none pays for them.
    """

    operators: tuple[TaskGroup, ...]
    substreams: tuple[Substreams, ...]
    outputs: np.ndarray
    loads: np.ndarray
    free: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """The number of tasks."""
        return len(self.outputs)

    @property
    def replaceable(self) -> int:
        """The number of tasks that can have a replica: the largest plan."""
        return self.size - len(self.free)

    @cached_property
    def spared(self) -> np.ndarray:
        """The free tasks as booleans (tasks)."""
        return self.mask(self.free)

    @cached_property
    def inputs(self) -> tuple[tuple[StreamShares, ...], ...]:
        """By operator, its input streams; a source has none."""
        return tuple(self._shares_of(place) for place in range(len(self.operators)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """By task, its worker id."""
        return tuple(str(WorkerId(group.name, i)) for group in self.operators for i in range(group.count))

    @cached_property
    def operator_of(self) -> np.ndarray:
        """By task, the place of its operator."""
        return np.repeat(np.arange(len(self.operators)), [group.count for group in self.operators])

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The places of the operators that nothing enters."""
        entered = {stream.downstream for stream in self.substreams}
        return tuple(place for place in range(len(self.operators)) if place not in entered)

    def mask(self, tasks: Iterable[int]) -> np.ndarray:
        """A set of tasks as booleans (tasks)."""
        found = np.zeros(self.size, bool)
        found[list(tasks)] = True
        return found

    def alive(self, plan: Iterable[int]) -> np.ndarray:
        """All that lives when the tasks without a replica fail: those of a plan and the free ones (tasks)."""
        return self.mask(plan) | self.spared

    def part(self, places: Iterable[int], outputs: np.ndarray) -> tuple[TaskGraph, np.ndarray]:
        """The graph of some operators alone, with other `outputs` (tasks of this graph), and its tasks' numbers here.

        What comes from outside always arrives, also where an edge within the part carries nothing, which is left out.
        """
        kept = sorted(places)
        ranges = (self.operators[place].tasks for place in kept)
        tasks = np.concatenate([np.arange(one.start, one.stop) for one in ranges])
        renumbered = np.full(self.size, -1)
        renumbered[tasks] = np.arange(len(tasks))
        groups = []
        for place in kept:
            group = self.operators[place]
            groups.append(TaskGroup(group.name, int(renumbered[group.first]), group.count, group.correlated))
        at = {place: index for index, place in enumerate(kept)}
        streams = [
            Substreams(
                at[one.upstream], at[one.downstream], renumbered[one.senders], renumbered[one.receivers], one.rates
            )
            for one in self.substreams
            if one.upstream in at and one.downstream in at and len(one.rates)
        ]
        weights = outputs[tasks] / (outputs[tasks].sum() or 1.0)  # a part without traffic puts nothing out
        free = frozenset(int(renumbered[task]) for task in self.free if renumbered[task] >= 0)
        return TaskGraph(tuple(groups), tuple(streams), weights, self.loads[tasks], free), tasks

    def _shares_of(self, place: int) -> tuple[StreamShares, ...]:
        group = self.operators[place]
        entering = [stream for stream in self.substreams if stream.downstream == place]
        totals = [self._totals(stream, group) for stream in entering]
        joint = np.sum(totals, axis=0) if entering else np.zeros(group.count)
        return tuple(
            self._share(stream, group, total if group.correlated else joint) for stream, total in zip(entering, totals)
        )

    def _totals(self, stream: Substreams, group: TaskGroup) -> np.ndarray:
        return np.bincount(stream.receivers - group.first, stream.rates, group.count)

    def _share(self, stream: Substreams, group: TaskGroup, totals: np.ndarray) -> StreamShares:
        local = stream.receivers - group.first
        heard, starts = np.unique(local, return_index=True)
        shares, sending = stream.rates / totals[local], self.operators[stream.upstream]
        common = None
        if len(local) == sending.count * group.count:
            matrix = shares.reshape(group.count, -1)
            common = matrix[0] if np.ptp(matrix, axis=0).max() <= EQUAL else None
        return StreamShares(stream, shares, starts, heard, group.count, sending.tasks, common)
