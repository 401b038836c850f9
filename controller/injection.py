"""Decides when the faults that a job was submitted with are injected; the agents of the workers carry them out."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller.cluster import Cluster
from riprap.controller.faults import Fault, JobProgress, is_due
from riprap.controller.job import LedJob
from riprap.controller.moment import Moment
from riprap.controller.phases import TERMINAL
from riprap.controller.reports import EXITED, WorkerReport
from riprap.controller.victims import is_group, names_hosts, workers_in


def order_faults(run: Moment) -> None:
    """Order each fault once, when its moment has come and its target runs; of a group, those of it that run then.

    An order is durable before an agent gets it, so that a new leader does not give it again. It holds the incarnations
    to be hit (`hits`) by the instances of their agents. One that is to be killed is hit by no further fault.
    """
    job = run.job
    given = {order["number"] for order in job.injected}
    for number, fault in enumerate(job.spec.faults):
        if number in given or not is_due(fault.when, progress_of(job, run.now)):
            continue
        rows = [row for row in victims(job, fault.target, run.cluster) if not _is_to_be_killed(job, row)]
        if not rows:
            continue
        hits: dict[str, dict[str, int]] = defaultdict(dict)
        for row in rows:
            hits[job.tasks[row.id].assignment.instance][row.worker] = row.incarnation
        order = {"number": number, "action": fault.action, "at": run.now, "clock": run.cluster.clock}
        job.injected.append(order | {"hits": dict(hits)})


def _is_to_be_killed(job: LedJob, row: WorkerReport) -> bool:
    kills = (hit for order in job.injected if order["action"] == "kill" for hit in hits_of(order))
    return any((hit["worker"], hit["incarnation"]) == (row.worker, row.incarnation) for hit in kills)


def log_orders(run: Moment) -> None:
    """Log the orders that have become durable in this leadership, as agents get them: those of the ones before are
    logged. Who was lost meanwhile is not hit."""
    job = run.job
    if job.durable is None or job.durable.phase in TERMINAL:
        return
    for order in job.durable.injected:
        if order["number"] in job.faults_logged:
            continue
        job.faults_logged.add(order["number"])
        fault = job.spec.faults[order["number"]]
        hits = {instance: dict(_hits_on(job, order, instance)) for instance in order["hits"]}
        next(one for one in job.injected if one["number"] == order["number"])["hits"] = hits
        for name, number in itertools.chain(*map(dict.items, hits.values())):
            run.log("fault_injected", incarnation=number, fault=str(fault), action=fault.action, target=name)
        if not any(hits.values()):
            run.log("fault_not_injected", fault=str(fault))


def victims(job: LedJob, target: str, cluster: Cluster) -> list[WorkerReport]:
    """The last reports of those workers of a target that run."""
    names = [target]
    if is_group(target):
        hosts = {str(worker): task.assignment.host for worker, task in job.tasks.items()}
        names = workers_in(target, hosts, cluster.hosts())
    rows = (job.row(WorkerId.parse(name)) for name in names)
    return [row for row in rows if row is not None and row.pid and row.state != EXITED]


def note_faults_that_never_came(run: Moment) -> None:
    """Log the faults that were not injected, now that the job has ended."""
    given = {order["number"] for order in run.job.injected}
    for number, fault in enumerate(run.job.spec.faults):
        if number not in given:
            run.log("fault_not_injected", fault=str(fault))


def progress_of(job: LedJob, now: float) -> JobProgress:
    """Progress of the job, as its sinks last said; of the first item also those say that were lost."""
    rows = [row for row in job.sink_rows if row is not None]
    if len(rows) < len(job.spec.sinks):
        return JobProgress()
    every = (row for (worker, _), row in job.rows.items() if worker.primary in job.spec.sinks)
    began = min((at for row in every if (at := row.stats.get("first_emit_at"))), default=None)
    seconds = -1.0 if began is None else now - began
    return JobProgress(min(row.epoch for row in rows), sum(row.accounted for row in rows), seconds)


def orders_for(job: LedJob, instance: str) -> list[dict[str, Any]]:
    """The durable orders for the workers that an agent runs now."""
    if job.durable is None:
        return []
    orders = []
    for order in job.durable.injected:
        fault: Fault = job.spec.faults[order["number"]]
        for name, incarnation in _hits_on(job, order, instance):
            given = {"incarnation": incarnation, "number": order["number"]}
            given |= {"with_agent": True} if names_hosts(fault.target) else {}
            orders.append(given | {"fault": replace(fault, target=name).fields()})
    return orders


def _hits_on(job: LedJob, order: Mapping[str, Any], instance: str) -> Iterator[tuple[str, int]]:
    """The workers of an agent that an order hits, with their incarnations; without those that are others by now."""
    for name, incarnation in order["hits"].get(instance, {}).items():
        assignment = job.tasks[WorkerId.parse(name)].assignment
        if (assignment.incarnation, assignment.instance) == (incarnation, instance):
            yield name, incarnation


def hits_of(order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An order as an answer to a client: an entry for each worker that it hits."""
    head = {name: value for name, value in order.items() if name != "hits"}
    for workers in order["hits"].values():
        yield from (head | {"worker": worker, "incarnation": number} for worker, number in workers.items())
