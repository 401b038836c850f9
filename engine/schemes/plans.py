"""The controller half of the schemes: what to do about lost workers, as pure functions of a job's submission.

Nothing of a job is imported here: a controller is everybody's, and a module of one user could end it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller.checkpointing import CHECKPOINTING
from riprap.controller.steps import Plan, Rollback, Step, Unrecoverable, restart_lost
from riprap.controller.view import View
from riprap.engine.schemes.names import SPREAD


def plan_for(submitted: dict[str, Any]) -> Plan:
    """Whoever is lost starts again: what it needs it has from the backup servers and from its neighbours. Of a job that
    trains with its processors coded, a processor has its state from the sink's feedback, a source its place from the
    sink, and the sink its state from the backup servers alone (LEC III-A). Under barriers all go back to the last whole
    checkpoint (ABS).
    """
    options = submitted.get("fault_tolerance") or {}
    if options.get("scheme") in CHECKPOINTING:
        return restart_alone_or_roll_back(submitted) if options.get("recovery") == "local" else roll_back
    trains = "columns" in (submitted.get("schema") or ())
    spread = trains and options.get("scheme") in SPREAD
    if not spread or (submitted.get("restorable") and submitted["backup"]["servers"]):
        return restart_lost
    sinks = frozenset(submitted.get("sinks", ()))

    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        for worker in sorted(lost):
            if str(worker) in sinks:
                raise Unrecoverable(
                    worker,
                    "the sink was lost, and nothing was kept to restore it from",
                    "run the job again with backup.servers of 1 or more and a sink that defines snapshot and restore",
                )
        return restart_lost(view, lost)

    return plan


def roll_back(view: View, lost: Collection[WorkerId]) -> list[Step]:
    """Those that were lost start again, and all others begin anew in their processes."""
    return [*restart_lost(view, lost), Rollback()]


def restart_alone_or_roll_back(submitted: dict[str, Any]) -> Plan:
    """Whoever is lost goes back to the last whole checkpoint alone, for its neighbours have all that it needs. All go
    back where one of these is lost too, or was so since that checkpoint.
    """
    joined: dict[str, set[str]] = {}
    for edge in submitted["edges"]:
        joined.setdefault(edge["from"], set()).add(edge["to"])
        joined.setdefault(edge["to"], set()).add(edge["from"])

    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        for worker in sorted(lost):
            for other in sorted({*lost, *view.unsettled} - {worker}):
                if other.stage in joined.get(worker.stage, ()):
                    why = f"{other}, whom {worker} is joined to, was lost since the last whole checkpoint too"
                    return [*restart_lost(view, lost), Rollback(why)]
        return restart_lost(view, lost)

    return plan
