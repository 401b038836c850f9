"""Rates that a running job has: what its links carried between two answers of the controller (`riprap adapt`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.configs.shape import StageEdge
from riprap.configs.topology import Topology
from riprap.controller.planning.rates import StreamRates

Workers = Mapping[str, Mapping[str, Any]]
"""As in the answer to `status`."""


def rates_between(before: Workers, after: Workers, topology: Topology) -> StreamRates:
    """The items of each link from one answer to the other.

    An edge is left out where a receiving task has not told its links in both by the same process, or nothing came.
    """
    found = {
        edge.name: matrix for edge in topology.shape.data_edges if (matrix := _matrix(edge, topology, before, after))
    }
    return StreamRates(links=found)


def _matrix(edge: StageEdge, topology: Topology, before: Workers, after: Workers) -> list[list[float]]:
    """By sending and receiving task."""
    senders, columns = range(topology.stages[edge.upstream].parallelism), []
    for task in topology.tasks(edge.downstream):
        came = _came(topology.copies_with(task) or (task,), edge.index, before, after)
        if came is None:
            return []
        columns.append([float(came.get(sender, 0)) for sender in senders])
    return [list(row) for row in zip(*columns)] if any(map(any, columns)) else []


def _came(copies: tuple[WorkerId, ...], edge: int, before: Workers, after: Workers) -> dict[int, int] | None:
    """By sending task what came to the first copy of a task of which both answers tell; None where there is none."""
    for name in map(str, copies):
        old, new = before.get(name, {}), after.get(name, {})
        told = [(one.get("stats") or {}).get("carried") or [] for one in (old, new)]
        if all(told) and old.get("incarnation") == new.get("incarnation"):
            first, last = ({sender: items for of, sender, items in links if of == edge} for links in told)
            return {sender: items - first.get(sender, 0) for sender, items in last.items()}
    return None
