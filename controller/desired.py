"""The workers that an agent should run, and the view for them. It is decided whole; the wire carries the changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from riprap.controller.cluster import KnownAgent
from riprap.controller.injection import orders_for
from riprap.controller.job import LedJob
from riprap.controller.messages import Message
from riprap.controller.phases import TERMINAL
from riprap.controller.reports import EXITED, UP

RESEND_S = 0.5  # an agent that has not applied what it was told by then is told again

Hosted = Mapping[str, Mapping[str, int]]
"""Job -> worker -> the incarnation that may run, on one agent."""


def hosted_by_agents(jobs: Iterable[LedJob]) -> Mapping[str, Hosted]:
    """The incarnations that each agent may run, by the agents' instances."""
    hosted: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for job in jobs:
        if job.phase in TERMINAL and (job.durable is None or job.durable.phase in TERMINAL):
            continue
        for worker, task in job.tasks.items():
            if job.may_run(worker):
                hosted[task.assignment.instance][job.spec.name][str(worker)] = task.assignment.incarnation
    return hosted


def desired_jobs(agent: KnownAgent, jobs: Mapping[str, LedJob], hosted: Hosted) -> dict[str, Any]:
    """The jobs that concern an agent, each with the incarnations that it may run; it kills whatever else it runs."""
    running = {row.job for row in agent.report.rows if row.state != EXITED}
    desired = {}
    for name, job in jobs.items():
        ended = job.phase in TERMINAL and (job.durable is None or job.durable.phase in TERMINAL)
        if ended or (name not in hosted and name not in running):
            continue
        workers = dict(hosted.get(name, {}))
        desired[name] = {
            "submission": job.spec.submission,
            "run_dir": job.spec.run_dir,
            "topology": job.spec.topology,
            "workers": workers,
            "stopping": job.stopping(),
            "faults": orders_for(job, agent.report.instance),
            "view": _view(agent, job, workers),
        }
    return desired


def _view(agent: KnownAgent, job: LedJob, workers: Collection[str]) -> dict[str, Any]:
    """The view that the agent's workers need of the job, under the revision at which that last changed."""
    view = job.view.of(_interest(agent, job.spec.name, workers))
    told = agent.told.get(job.spec.name, {}).get("view")
    return told if told is not None and {**told, "revision": 0} == {**view, "revision": 0} else view


def _interest(agent: KnownAgent, job: str, workers: Collection[str]) -> set[str] | None:
    """The workers that its workers must know, and they themselves; None for all of them."""
    names = set(workers)
    for row in agent.report.rows:
        if row.job == job and row.state == UP:
            if row.peers is None:
                return None
            names.update(row.peers)
    return names


def tell(agent: KnownAgent, jobs: Mapping[str, LedJob], hosted: Hosted, term: int, now: float) -> Message | None:
    """The message that the agent needs now, None when it has (or will soon have) applied the last one."""
    desired = desired_jobs(agent, jobs, hosted)
    heard = agent.report.sequence if agent.report.term == term else 0
    if desired != agent.told or agent.sequence == 0:
        # One that was silent for so long that it was forgotten here takes nothing that looks older than what it has.
        agent.told, agent.sequence = desired, max(agent.sequence, heard) + 1
    else:
        applied = heard == agent.sequence
        if applied or now - agent.told_at < RESEND_S:
            return None
    agent.told_at = now
    return {"type": "desired", "term": term, "sequence": agent.sequence, "jobs": desired}
