"""What a client is told about a job: phase, workers, failures, and the statistics of every incarnation."""

from __future__ import annotations

from typing import Any

from codec.ids import WorkerId
from controller.job import Job


def describe(job: Job, controller: str) -> dict[str, Any]:
    """The answer to `status`, all times in time.monotonic() seconds of the hosts that took them.

    `past` holds the last statistics of dead incarnations under `WORKER#INCARNATION`.
    """
    current = {(worker, task.assignment.incarnation) for worker, task in job.tasks.items()}
    return {
        "job": job.spec.name,
        "phase": str(job.phase),
        "error": job.error,
        "remedy": job.remedy,
        "controller": controller,
        "workers": {str(worker): _worker(job, worker) for worker in job.tasks},
        "past": {
            f"{worker}#{inc}": row.stats for (worker, inc), row in job.rows.items() if (worker, inc) not in current
        },
        "failures": [dict(failure) for failure in job.failures],
        "run_dir": job.spec.run_dir,
        "started_at": job.started_at,
    }


def _worker(job: Job, worker: WorkerId) -> dict[str, Any]:
    seen, task, row = job.view.workers[worker], job.tasks[worker], job.row(worker)
    return {
        "incarnation": seen.incarnation,
        "state": seen.state,
        "host": seen.host,
        "restarts": task.restarts,
        "pid": row.pid if row else 0,
        "epoch": row.epoch if row else 0,
        "items": row.items if row else 0,
        "stats": row.stats if row else {},
    }
