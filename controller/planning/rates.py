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
    `read->count`, the measured rates: rows are sending tasks, columns receiving ones.
    """

    sources: Mapping[str, Sequence[float]] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


def task_graph(shape: Shape, rates: StreamRates | None = None, correlated: frozenset[str] = frozenset()) -> TaskGraph:
    """The graph of a topology's tasks; `correlated` names the stages that join their input streams.

    ConfigError when no item reaches a destination at these rates.
    """
    rates = rates or StreamRates()
    stages, groups = _ordered(shape), []
    first = 0
    for stage in stages:
        groups.append(TaskGroup(stage, first, shape.parallelism[stage], stage in correlated))
        first += shape.parallelism[stage]
    at = {stage: place for place, stage in enumerate(stages)}
    produced, loads = np.zeros(first), np.zeros(first)
    streams = []
    for stage in stages:
        group = groups[at[stage]]
        if stage in shape.sources:
            loads[group.tasks] = rates.sources.get(stage, 1.0)
            produced[group.tasks] = loads[group.tasks]
        else:
            produced[group.tasks] = loads[group.tasks] * rates.selectivity.get(stage, 1.0)
        for edge in (edge for edge in shape.data_edges if edge.upstream == stage):
            receiving = groups[at[edge.downstream]]
            matrix = _matrix(edge, rates, produced[group.tasks], receiving.count)
            loads[receiving.tasks] += matrix.sum(axis=0)
            firsts = (group.first, receiving.first)
            streams.append(Substreams.of(at[stage], at[edge.downstream], firsts, matrix))
    outputs = np.zeros(first)
    for stage in shape.sinks:
        outputs[groups[at[stage]].tasks] = produced[groups[at[stage]].tasks]
    if not outputs.any():
        raise ConfigError("at these rates no item reaches a destination", "give rates of tasks that lead to one")
    return TaskGraph(tuple(groups), tuple(streams), outputs / outputs.sum(), loads)


def _ordered(shape: Shape) -> list[str]:
    """Stages in topological order; the topology's own order decides among those that could come next."""
    before: dict[str, set[str]] = {stage: set() for stage in shape.parallelism}
    for edge in shape.data_edges:
        before[edge.downstream].add(edge.upstream)
    return list(TopologicalSorter(before).static_order())


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
