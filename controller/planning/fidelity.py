"""Output fidelity and internal completeness of a topology of which only some tasks are alive (PPA III-A).

Fidelity is 1 - information loss. `alive` is (tasks) or (tasks, sets): booleans, or numbers in [0, 1]; a result has one
number for each set. A task whose input has no traffic puts nothing out, and weighs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from riprap.controller.planning.graph import TaskGraph

BATCH_NUMBERS = 1 << 22
"""Numbers of a matrix of many sets at a time: 32 MB."""


def fidelities(graph: TaskGraph, alive: np.ndarray) -> np.ndarray:
    """By task, the fidelity of its output, as `alive` is shaped: equations 1 to 3 of the paper, source to sink."""
    found = np.array(alive, float)
    for group, streams in zip(graph.operators, graph.inputs):
        if streams:
            found[group.tasks] *= received([stream.gather(found) for stream in streams], group.correlated)
    return found


def received(streams: list[np.ndarray], correlated: bool) -> np.ndarray:
    """The fidelity of a task's input from those of its streams, which are shares of the whole unless `correlated`."""
    found = streams[0]
    for stream in streams[1:]:
        found = found * stream if correlated else found + stream
    return found


def output_fidelity(graph: TaskGraph, alive: np.ndarray) -> np.ndarray:
    """OF, equation 4: the share of the final output that is still put out; a scalar array for one set."""
    return graph.outputs @ fidelities(graph, alive)


def fidelity_of(graph: TaskGraph, tasks: set[int] | frozenset[int]) -> float:
    """OF when `tasks` are alive and all others have failed that are not free."""
    return float(output_fidelity(graph, graph.alive(tasks)))


def output_fidelities(graph: TaskGraph, sets: Iterable[np.ndarray]) -> np.ndarray:
    """OF of many sets, each (tasks); some at a time, so that memory stays bounded."""
    waiting, parts = iter(sets), []
    while batch := list(islice(waiting, max(1, BATCH_NUMBERS // graph.size))):
        parts.append(output_fidelity(graph, np.stack(batch, axis=1)))
    return np.concatenate(parts) if parts else np.zeros(0)


def contributing(graph: TaskGraph, tasks: frozenset[int]) -> frozenset[int]:
    """Those of `tasks` that some complete tree among them needs; the others could as well fail."""
    alive = graph.alive(tasks)
    found = graph.mask(tasks) & (fidelities(graph, alive) > 0) & (influence(graph, alive) > 0)
    return frozenset(np.flatnonzero(found).tolist())


def internal_completeness(graph: TaskGraph, alive: np.ndarray) -> np.ndarray:
    """IC: the items that all tasks process, over those they process without a failure; joins count as unions.

    Bellavista et al., "Adaptive fault-tolerance for dynamic resource provisioning" (EDBT 2014), as PPA VI-B uses it.
    """
    found = np.array(alive, float)
    for group in graph.operators:
        streams = [stream for stream in graph.substreams if graph.operators[stream.downstream] is group]
        if streams:
            arriving = np.zeros((group.count, *found.shape[1:]))
            for stream in streams:
                rates = stream.rates.reshape(-1, *(1,) * (found.ndim - 1))
                np.add.at(arriving, stream.receivers - group.first, rates * found[stream.senders])
            loads = graph.loads[group.tasks].reshape(-1, *(1,) * (found.ndim - 1))
            found[group.tasks] *= np.divide(arriving, loads, out=np.zeros_like(arriving), where=loads > 0)
    return (graph.loads @ found) / graph.loads.sum()


def influence(graph: TaskGraph, alive: np.ndarray) -> np.ndarray:
    """By task, the derivative of OF by the fidelity of its output, for one set: (tasks)."""
    found = fidelities(graph, alive)
    slopes = graph.outputs.copy()
    for place in reversed(range(len(graph.operators))):
        group, streams = graph.operators[place], graph.inputs[place]
        gathered = [stream.gather(found) for stream in streams]
        for number, stream in enumerate(streams):
            passed = slopes[group.tasks] * alive[group.tasks]
            if group.correlated:
                for other, value in enumerate(gathered):
                    passed = passed * value if other != number else passed
            slopes += stream.scatter(passed, graph.size)
    return slopes


def passing(graph: TaskGraph) -> np.ndarray:
    """By task, the derivative of OF by its being alive, all alive: no set loses less without it than (1 - alive) times
    this, and its operator's tasks together carry at most their sum."""
    everyone = np.ones(graph.size)
    return influence(graph, everyone) * fidelities(graph, everyone)
