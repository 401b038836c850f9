"""The controller half of the schemes: what to do about lost workers, as pure functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from codec.ids import WorkerId
from configs.topology import Topology
from controller.steps import Plan, Step, Unrecoverable, restart_lost
from controller.view import View


def restart_processors(topology: Topology) -> Plan:
    """Lost processors are restarted and the links heal the rest; sources and sinks are taken as reliable.

    That is the assumption of LEC III-A for `none`, `erasure` and `replication`.
    """
    reliable = {*topology.sources, *topology.sinks}
    remedy = f"run the job again; scheme {topology.scheme} restores workers of {', '.join(topology.processors)} only"

    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        for worker in sorted(lost):
            if worker.stage in reliable:
                raise Unrecoverable(worker, "the worker was lost, and no scheme of this job can restore it", remedy)
        return restart_lost(view, lost)

    return plan


def plan_for(topology: dict[str, Any]) -> Plan:
    """The plan of the scheme that the topology names."""
    return restart_processors(Topology.from_dict(topology))
