"""What an agent is told: all that should run on it and what its workers should know, every time in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.cluster import Agent
from controller.job import Job
from controller.messages import Message
from controller.phases import TERMINAL
from controller.reports import EXITED

RESEND_S = 0.5  # an agent that has not applied what it was told by then is told again


def desired_jobs(agent: Agent, jobs: Iterable[Job]) -> dict[str, Any]:
    """The jobs that concern an agent, each with the incarnations that it may run; it kills whatever else it runs."""
    instance = agent.report.instance
    running = {row.job for row in agent.report.rows if row.state != EXITED}
    desired = {}
    for job in jobs:
        if job.phase in TERMINAL and (job.durable is None or job.durable.phase in TERMINAL):
            continue
        mine = [worker for worker, task in job.tasks.items() if task.assignment.instance == instance]
        workers = {str(worker): job.tasks[worker].assignment.incarnation for worker in mine if job.may_run(worker)}
        if not workers and job.spec.name not in running:
            continue
        desired[job.spec.name] = {
            "run_dir": job.spec.run_dir,
            "topology": job.spec.topology,
            "workers": workers,
            "stopping": job.stopping(),
            "view": job.view.message(),
        }
    return desired


def tell(agent: Agent, jobs: Iterable[Job], term: int, now: float) -> Message | None:
    """The message that the agent needs now, None when it has (or will soon have) applied the last one."""
    desired = desired_jobs(agent, jobs)
    if desired != agent.told or agent.sequence == 0:
        agent.told, agent.sequence = desired, agent.sequence + 1
    else:
        applied = agent.report.term == term and agent.report.sequence == agent.sequence
        if applied or now - agent.told_at < RESEND_S:
            return None
    agent.told_at = now
    return {"type": "desired", "term": term, "sequence": agent.sequence, "jobs": desired}
