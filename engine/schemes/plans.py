"""The controller half of the schemes: what to do about lost workers, as pure functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from codec.ids import WorkerId
from configs.topology import Topology
from controller.steps import Plan, Step, Unrecoverable, restart_lost
from controller.view import View
from operators.base import Sink
from operators.loading import load_operator


def restart_all(topology: Topology) -> Plan:
    """Whoever is lost is restarted, and the rest follows from the tasks: a processor takes its state from the sink's
    feedback, a source its place from the sink's acknowledgement, a sink its state from the backup servers (LEC III-A).
    """
    if _sinks_are_restorable(topology):
        return restart_lost

    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        for worker in sorted(lost):
            if worker.stage in topology.sinks:
                raise Unrecoverable(
                    worker,
                    "the sink was lost, and nothing was kept to restore it from",
                    "run the job again with backup.servers of 1 or more and a sink that defines snapshot and restore",
                )
        return restart_lost(view, lost)

    return plan


def _sinks_are_restorable(topology: Topology) -> bool:
    if not topology.backup.addresses:
        return False
    sink = load_operator(topology.stages[topology.sinks[0]].operator)
    assert issubclass(sink, Sink), "checked before the job was submitted"
    return sink.snapshot is not Sink.snapshot and sink.restore is not Sink.restore


def plan_for(topology: dict[str, Any]) -> Plan:
    """The plan of the scheme that the topology names. In a general topology whoever is lost starts again: what it
    needs it has from the backup servers and from its neighbours.
    """
    built = Topology.from_dict(topology)
    return restart_all(built) if "columns" in topology.get("schema", {"columns": ()}) else restart_lost
