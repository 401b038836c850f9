"""Active replicas while a job runs: which copy of a destination writes, and other replicas (PPA V-B, V-C).

New ones begin before old ones end, a few at a time, so no task that keeps its replica is without it, and the tasks that
lose theirs are covered until the others are. The set that is to run is durable (record.py); what of it is done already
is seen from the reports, so that any leader goes on with it.

Of other tasks their receivers ask one copy for its output. A destination has none, so its writer is decided here.
"""

from __future__ import annotations

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.controller.job import LedJob
from riprap.controller.moment import Moment

SWAPS_MAX = 2
"""Replicas that begin at once: each takes its share of the processors until it has caught up."""


def wanted_copies(job: LedJob, tasks: list[str]) -> frozenset[WorkerId]:
    """The replicas of tasks that a client names; ConfigError for one that can have none, or a job that changes none."""
    if not job.spec.adapts:
        raise replicas_are_fixed(job.spec.name)
    able = {str(worker.primary): worker for worker in job.tasks if worker.copy}
    if unknown := [name for name in tasks if name not in able]:
        raise ConfigError(f"{unknown[0]} of job {job.spec.name} can have no replica", f"name some of {', '.join(able)}")
    return frozenset(able[name] for name in tasks)


def replicas_are_fixed(job: str) -> ConfigError:
    """The refusal of other replicas for a job that has said of none that they may change."""
    return ConfigError(
        f"the replicas of job {job} are those that it began with", "set fault_tolerance.adapt to true, and run it anew"
    )


def adapt(run: Moment) -> None:
    """Begin replicas that are to run, and end those that are not: all once the others have caught up, and before, as
    many as there are too many."""
    job, tasks, dead = run.job, run.job.tasks, run.job.detector.suspicions(run.now)
    for worker in _leaving(job):
        if worker in dead or not job.is_up(worker):
            _end(run, worker)  # it is not missed, but who believes it to be up may wait for it
    missing = [worker for worker in tasks if worker in job.replicas and tasks[worker].off]
    begun = [worker for worker in job.running if worker in job.replicas]
    late = [worker for worker in begun if not _has_caught_up(job, worker)]
    leaving = _leaving(job)
    if not late:
        spare = len(begun) + len(leaving) - len(job.replicas)
        for worker in leaving[: max(0, spare)] if missing else leaving:
            _end(run, worker)
    for worker in missing[: max(0, SWAPS_MAX - len(late))]:
        tasks[worker].begin()
        run.log("replica_begins", worker=str(worker))


def give_up(run: Moment, worker: WorkerId, reason: str) -> None:
    """Do without a replica that has begun while the job ran and does not come up; it may be asked for again."""
    run.job.replicas -= {worker}
    run.job.tasks[worker].end()
    run.job.tasks[worker].fruitless.clear()
    run.log("replica_given_up", worker=str(worker), reason=reason)


def promote(run: Moment) -> None:
    """Have a copy that is up write the output of a destination whose writer was lost.

    Nothing waits until that is durable, for copies write the same. A leader that does not know of it decides anew, and
    a copy that is not to write any more ends, to begin again on standby.
    """
    job = run.job
    for worker in job.running:
        writer = job.writers.get(worker.primary)
        if writer is not None and job.tasks[writer].lost_at is not None and job.is_up(worker):
            job.writers[worker.primary] = worker


def _leaving(job: LedJob) -> list[WorkerId]:
    """The replicas that run, and are not to."""
    return [worker for worker in job.running if worker.copy and worker not in job.replicas]


def _has_caught_up(job: LedJob, worker: WorkerId) -> bool:
    """True of a replica that has closed a window since it began."""
    row = job.row(worker)
    return row is not None and job.is_up(worker) and bool(row.stats.get("caught_up_at"))


def _end(run: Moment, worker: WorkerId) -> None:
    run.job.tasks[worker].end()
    run.log("replica_ends", worker=str(worker))
