"""Decides when the faults that a job was submitted with are injected; the agents of the workers carry them out."""

from __future__ import annotations

from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller.faults import Fault, JobProgress, is_due
from riprap.controller.job import LedJob
from riprap.controller.moment import Moment
from riprap.controller.reports import EXITED


def order_faults(run: Moment) -> None:
    """Order each fault once, when its moment has come and its target runs.

    An order is durable before an agent gets it, so that a new leader does not give it again.
    """
    job = run.job
    given = {order["number"] for order in job.injected}
    for number, fault in enumerate(job.spec.faults):
        if number in given or not is_due(fault.when, progress_of(job, run.now)):
            continue
        row = job.row(WorkerId.parse(fault.target))
        if row is not None and row.pid and row.state != EXITED:
            order = {"number": number, "worker": fault.target, "incarnation": row.incarnation, "at": run.now}
            job.injected.append(order | {"clock": run.cluster.clock, "action": fault.action})
            fields = {"fault": str(fault), "action": fault.action, "target": fault.target}
            run.log("fault_injected", incarnation=row.incarnation, **fields)


def note_faults_that_never_came(run: Moment) -> None:
    """Log the faults that were not injected, now that the job has ended."""
    given = {order["number"] for order in run.job.injected}
    for number, fault in enumerate(run.job.spec.faults):
        if number not in given:
            run.log("fault_not_injected", fault=str(fault))


def progress_of(job: LedJob, now: float) -> JobProgress:
    """Progress of the job, as its sinks last said."""
    rows = [row for sink in job.spec.sinks if (row := job.row(sink)) is not None]
    if len(rows) < len(job.spec.sinks):
        return JobProgress()
    began = min((at for row in rows if (at := row.stats.get("first_emit_at"))), default=None)
    seconds = -1.0 if began is None else now - began
    return JobProgress(min(row.epoch for row in rows), sum(row.accounted for row in rows), seconds)


def orders_for(job: LedJob, instance: str) -> list[dict[str, Any]]:
    """The durable orders for the workers that an agent runs now."""
    if job.durable is None:
        return []
    orders = []
    for order in job.durable.injected:
        worker = WorkerId.parse(order["worker"])
        assignment = job.tasks[worker].assignment
        if (assignment.incarnation, assignment.instance) == (order["incarnation"], instance):
            fault: Fault = job.spec.faults[order["number"]]
            orders.append({"incarnation": order["incarnation"], "number": order["number"], "fault": fault.fields()})
    return orders
