"""From the shape of a topology to its graph of tasks: each link's rate as measured, or by what sources put out.

A stage's output goes whole over each of its edges. Feedback and loops are left out: what runs back brings nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.configs.shape import Shape, StageEdge, targets
from riprap.controller.planning.graph import Substreams, TaskGraph, TaskGroup


@dataclass(frozen=True)
class StreamRates:
    """The rates of a topology's streams, in items/s. Without any, a source task puts out 1, and stages what they get.

    `sources` has by stage a rate for each task; `selectivity` by stage the items out for one in; `links` by edge, as
    `read->count`, the measured rates: rows are sending tasks, columns receiving ones. A source without a rate of its
    own reads what its measured links carry.
    """

    sources: Mapping[str, Sequence[float]] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


def task_graph(
    shape: Shape, rates: StreamRates | None = None, correlated: frozenset[str] = frozenset(),
    free: frozenset[str] = frozenset(),
) -> TaskGraph:  # fmt: skip
    """The graph of a topology's tasks; `correlated` names the stages that join their input streams, `free` those whose
    tasks can have no replica.

    A task that hears nothing (a join: nothing on one of its streams) puts nothing out, whatever was measured: it
    depends on nobody. ConfigError when no item reaches a destination at these rates.
    """
    rates = rates or StreamRates()
    stages, groups = _ordered(shape), []
    first = 0
    for stage in stages:
        groups.append(TaskGroup(stage, first, shape.parallelism[stage], stage in correlated))
        first += shape.parallelism[stage]
    at = {stage: place for place, stage in enumerate(stages)}
    produced, loads = np.zeros(first), np.zeros(first)
    arrivals: dict[str, list[np.ndarray]] = {stage: [] for stage in stages}
    streams = []
    for stage in stages:
        group = groups[at[stage]]
        hears: np.ndarray = np.ones(group.count, bool)
        if stage in shape.sources:
            loads[group.tasks] = _read(shape, rates, stage)
            produced[group.tasks] = loads[group.tasks]
        else:
            arriving = np.array(arrivals[stage], float)
            hears = (arriving.min(axis=0) if group.correlated else arriving.max(axis=0)) > 0
            produced[group.tasks] = hears * loads[group.tasks] * rates.selectivity.get(stage, 1.0)
        for edge in _edges_from(shape, stage):
            receiving = groups[at[edge.downstream]]
            matrix = _matrix(edge, rates, produced[group.tasks], receiving.count) * hears[:, None]
            arrivals[edge.downstream].append(matrix.sum(axis=0))
            loads[receiving.tasks] += arrivals[edge.downstream][-1]
            firsts = (group.first, receiving.first)
            streams.append(Substreams.of(at[stage], at[edge.downstream], firsts, matrix))
    outputs = np.zeros(first)
    for stage in shape.sinks:
        outputs[groups[at[stage]].tasks] = produced[groups[at[stage]].tasks]
    if not outputs.any():
        raise ConfigError("at these rates no item reaches a destination", "give rates of tasks that lead to one")
    spared = frozenset(task for group in groups if group.name in free for task in range(first)[group.tasks])
    return TaskGraph(tuple(groups), tuple(streams), outputs / outputs.sum(), loads, spared)


def _ordered(shape: Shape) -> list[str]:
    """Stages in topological order; the topology's own order decides among those that could come next."""
    before: dict[str, set[str]] = {stage: set() for stage in shape.parallelism}
    for edge in shape.data_edges:
        before[edge.downstream].add(edge.upstream)
    return list(TopologicalSorter(before).static_order())


def _edges_from(shape: Shape, stage: str) -> list[StageEdge]:
    return [edge for edge in shape.data_edges if edge.upstream == stage]


def _read(shape: Shape, rates: StreamRates, stage: str) -> np.ndarray:
    """The rate of each task of a source: its own, or the most that left it over a measured edge, or 1."""
    if stage in rates.sources:
        return np.array(rates.sources[stage], float)
    links = (edge.name for edge in _edges_from(shape, stage))
    measured = [np.array(rates.links[name], float).sum(axis=1) for name in links if name in rates.links]
    return np.max(measured, axis=0) if measured else np.ones(shape.parallelism[stage])


def _matrix(edge: StageEdge, rates: StreamRates, produced: np.ndarray, receivers: int) -> np.ndarray:
    """The rates of an edge's links: (senders, receivers); a task's output is dealt out evenly unless measured."""
    if edge.name in rates.links:
        return np.array(rates.links[edge.name], float)
    found = np.zeros((len(produced), receivers))
    for sender, rate in enumerate(produced):
        reached = targets(edge, len(produced), receivers, sender)
        if reached:
            found[sender, reached] = rate / len(reached)
    return found
