"""The answer to a client about a job: phase, workers, failures, and the statistics of every incarnation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.codec.errors import RiprapError
from riprap.codec.ids import WorkerId
from riprap.controller.cluster import Cluster
from riprap.controller.injection import hits_of
from riprap.controller.job import LedJob
from riprap.controller.phases import Phase
from riprap.controller.placement import unsatisfied


def describe(job: LedJob, controller: str, cluster: Cluster) -> dict[str, Any]:
    """The answer to `status`. All moments are on the controller's clock, except failures and faults of another
    `clock`; `started_at` is None where that is another's.

    `hosts` has the labels of each host that can be given work or has some, `placement_unsatisfied` the shortcomings of
    the spread that the topology asks for, a sentence each; `round` counts the rollbacks; `past` holds the last
    statistics of dead incarnations under `WORKER#INCARNATION`.
    """
    current = {(worker, task.assignment.incarnation) for worker, task in job.tasks.items()}
    return {
        "job": job.spec.name,
        "phase": str(job.phase),
        "error": job.error,
        "remedy": job.remedy,
        "controller": controller,
        "workers": {str(worker): _worker(job, worker) for worker in job.tasks},
        "hosts": _hosts(job, cluster),
        "placement_unsatisfied": unsatisfied(job.spec.rules, cluster.hosts(), job.placed()),
        "past": {
            f"{worker}#{inc}": row.stats for (worker, inc), row in job.rows.items() if (worker, inc) not in current
        },
        "failures": [dict(failure) for failure in job.failures],
        "injected": [hit for order in job.injected for hit in hits_of(order)],
        "round": job.round,
        "checkpoint": job.durable_marks.completed if job.checkpoints is not None else None,
        "run_dir": job.spec.run_dir,
        "run": job.spec.topology.get("run", ""),
        "servers": list(_servers(job.spec.topology)),
        "started_at": job.started_at if job.clock == cluster.clock else None,
    }


def told_end(job: LedJob) -> dict[str, str]:
    """The phase of a job and why it has ended, as far as that is durable."""
    over = job.phase is job.told_phase
    return {"phase": str(job.told_phase), "error": job.error if over else "", "remedy": job.remedy if over else ""}


def _hosts(job: LedJob, cluster: Cluster) -> dict[str, dict[str, str]]:
    assigned = {task.assignment.host: task.assignment.instance for task in job.tasks.values() if task.assignment.host}
    known = {**assigned, **cluster.usable_hosts()}
    return {host: dict(cluster.labels_of(host, instance)) for host, instance in sorted(known.items())}


def _servers(topology: Mapping[str, Any]) -> Sequence[str]:
    """The backup servers that keep the job's records."""
    servers = (topology.get("backup") or {}).get("servers")
    return servers if isinstance(servers, list) else ()


def describe_unreadable(name: str, error: RiprapError, controller: str) -> dict[str, Any]:
    """The same of a job that was set aside."""
    why = {"error": f"set aside: {error.args[0]}", "remedy": error.remedy}
    known = {"job": name, "phase": str(Phase.UNREADABLE), **why, "controller": controller}
    return {**known, "workers": {}, "hosts": {}, "past": {}, "failures": [], "run_dir": "", "started_at": None}


def _worker(job: LedJob, worker: WorkerId) -> dict[str, Any]:
    seen, task, row = job.view.workers[worker], job.tasks[worker], job.row(worker)
    return {
        "incarnation": seen.incarnation,
        "state": seen.state,
        "host": seen.host,
        "restarts": task.restarts,
        "pid": row.pid if row else 0,
        "epoch": row.epoch if row else 0,
        "items": row.items if row else 0,
        "call": row.call if row else "",
        "call_line": row.call_line if row else "",
        "call_ms": row.call_ms if row else 0,
        "stats": row.stats if row else {},
    }
