"""The controller's pure core: reports, membership, requests and ticks in, actions out.

It has no clock, no socket and no ZooKeeper. Every input is taken, then every job gets a pass (`reconcile.py`), then
what that decided is turned into actions: first the records to make durable, then what agents must be told. Same inputs,
same actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from codec.errors import ConfigError, RiprapError
from codec.ids import WorkerId
from controller.actions import Action, Persist, Reply, Send
from controller.cluster import Cluster
from controller.desired import tell
from controller.job import Job
from controller.jobspec import JobSpec
from controller.phases import TERMINAL, Phase
from controller.reconcile import Pass
from controller.record import Record
from controller.reports import EXITED, AgentReport
from controller.status import describe
from controller.steps import Plan, PlanFor, Step
from controller.view import View

TAKEOVER_S = 3.0  # how long a new leader waits for the agents' first reports before it judges by what it has
RETRY_S = 0.1  # between two tries to write a record


class Core:
    """The state of one leadership, from the election to its loss.

    `term` grows from leader to leader. `stored` are the jobs found in ZooKeeper, whose records this leader has
    already marked with its term, so that no older leader can change them. `members` maps hosts to agent instances.
    """

    def __init__(
        self,
        term: int,
        controller: str,
        plan_for: PlanFor,
        stored: Mapping[str, tuple[JobSpec, Record]],
        members: Mapping[str, str],
        now: float,
    ) -> None:
        self.term = term
        self.controller = controller
        self._plan_for = plan_for
        self.cluster = Cluster(members)
        self.jobs: dict[str, Job] = {}
        for name, (spec, record) in stored.items():
            self.jobs[name] = Job(spec, _stored_plan(plan_for, spec), record, now)
            self.jobs[name].durable = record
        self._takeover_until: float | None = now + TAKEOVER_S

    @property
    def takes_over(self) -> bool:
        """Whether it still waits for the agents' first reports; what it says of jobs is stale until then."""
        return self._takeover_until is not None

    def members(self, members: Mapping[str, str], now: float) -> list[Action]:
        """The whole membership has changed to this."""
        self.cluster.set_members(members)
        return self._settle(now)

    def report(self, report: AgentReport, now: float) -> list[Action]:
        """An agent reported all that it knows."""
        if not self.cluster.hear(report, now):
            return []
        for row in report.rows:
            job = self.jobs.get(row.job)
            if job is not None:
                job.hear(report.instance, row)
        for name, revision in report.revisions.items():
            job = self.jobs.get(name)
            if job is not None:  # a former leader's views must look older than ours
                job.revision = max(job.revision, revision + (report.term != self.term))
        return self._settle(now)

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        self.cluster.forget_silent(now)
        return self._settle(now)

    def slept(self, seconds: float) -> None:
        """The controller did not run for so long; nobody's silence in that time counts."""
        for job in self.jobs.values():
            job.detector.observer_slept(seconds)

    def persisted(self, name: str, record: Record, now: float) -> list[Action]:
        """A record that was to be written is durable."""
        job = self.jobs[name]
        job.durable, job.writing = record, None
        return self._settle(now)

    def persist_failed(self, name: str, now: float) -> list[Action]:
        """ZooKeeper did not confirm a write; it is tried again soon, and nothing that depends on it happens before."""
        job = self.jobs[name]
        job.writing, job.retry_at = None, now + RETRY_S
        return []

    def submit(self, ticket: Any, spec: JobSpec, now: float) -> list[Action]:
        """Take a job; answered when it is durable. The same job again is the same job; RiprapError for a clash."""
        name = spec.name
        known = self.jobs.get(name)
        if known is None or (known.phase in TERMINAL and known.spec.submission != spec.submission):
            job = Job(spec, self._plan_for(spec.topology), self._successor(known, now), now)
            self.jobs[name] = job
        elif not known.spec.asks_the_same(spec):
            raise ConfigError(
                f"job {name} is {known.phase} already", f"`riprap cancel {name}`, or submit under another name"
            )
        self.jobs[name].tickets.append((ticket, {"job": name}))
        return self._settle(now)

    def cancel(self, ticket: Any, name: str, now: float) -> list[Action]:
        """Stop a job; answered when the decision is durable. No effect on a job that ends already."""
        job = self._job(name)
        if job.phase not in TERMINAL and job.phase not in (Phase.CANCELLING, Phase.FINISHING):
            job.move(Phase.CANCELLING, now)
        job.tickets.append((ticket, {"job": name}))
        return self._settle(now)

    def kill(self, ticket: Any, name: str, worker: str) -> list[Action]:
        """Have the worker's agent SIGKILL its present incarnation; raises ConfigError when none runs."""
        job = self._job(name)
        try:
            row = job.row(WorkerId.parse(worker))
        except (ValueError, KeyError):
            row = None
        if row is None or row.state == EXITED:
            names = ", ".join(map(str, job.tasks))
            raise ConfigError(f"{worker} of job {name} does not run now", f"choose one of {names} that does")
        message = {"type": "kill", "job": name, "worker": worker, "incarnation": row.incarnation}
        instance = job.tasks[row.id].assignment.instance
        return [Send(instance, message), Reply(ticket, {"incarnation": row.incarnation, "pid": row.pid})]

    def status(self, name: str) -> dict[str, Any]:
        """All that is known of a job; raises ConfigError when there is none of that name."""
        job = self._job(name)
        return job.final or describe(job, self.controller)

    def agents(self) -> dict[str, Any]:
        """The agents that can be given work, by host."""
        result = {}
        for host, instance in self.cluster.usable_hosts().items():
            report = self.cluster.agents[instance].report
            workers = [f"{row.job}/{row.worker}" for row in report.rows if row.state != EXITED]
            result[host] = {"instance": instance, "pid": report.pid, "address": report.address, "workers": workers}
        return result

    def _job(self, name: str) -> Job:
        job = self.jobs.get(name)
        if job is None:
            known = ", ".join(self.jobs) or "none"
            raise ConfigError(f"there is no job {name}", f"choose one of the known jobs: {known}")
        return job

    def _successor(self, known: Job | None, now: float) -> Record:
        """A blank record; incarnations go on from those of an ended job of that name, whose processes may linger."""
        tasks = {w: task.assignment for w, task in known.tasks.items()} if known is not None else {}
        return Record(started_at=now, tasks={w: a._replace(host="", instance="") for w, a in tasks.items()})

    def _settle(self, now: float) -> list[Action]:
        """Decide about every job, then act."""
        if self._taking_over(now):
            return []
        actions: list[Action] = []
        load = Counter(
            task.assignment.host
            for job in self.jobs.values()
            if job.phase not in TERMINAL
            for task in job.tasks.values()
        )
        for job in self.jobs.values():
            actions += Pass(job, self.cluster, load, now).run()
            if job.phase in TERMINAL and job.final is None:
                job.final = describe(job, self.controller)
            actions += self._make_durable(job, now)
        for instance, agent in self.cluster.agents.items():
            message = tell(agent, self.jobs.values(), self.term, now)
            if message is not None:
                actions.append(Send(instance, message))
        return actions

    def _taking_over(self, now: float) -> bool:
        """Whether to hold still because agents have not reported yet: what they run is not known."""
        if self._takeover_until is None:
            return False
        tasks = [task for job in self.jobs.values() if job.phase not in TERMINAL for task in job.tasks.values()]
        assigned = {task.assignment.instance for task in tasks if task.assignment.host and not task.fenced}
        if not self.cluster.unheard(assigned) or now > self._takeover_until:
            self._takeover_until = None
        return self.takes_over

    def _make_durable(self, job: Job, now: float) -> list[Action]:
        record = job.record()
        if job.durable is not None and job.durable.decides() == record.decides():
            replies: list[Action] = [Reply(*ticket) for ticket in job.tickets]
            job.tickets.clear()
            return replies
        if job.writing is not None or now < job.retry_at:
            return []
        job.writing = record
        return [Persist(job.spec, record, create=job.durable is None)]


def _stored_plan(plan_for: PlanFor, spec: JobSpec) -> Plan:
    """The plan of a job found in ZooKeeper; one that this version cannot plan for fails at its first loss, not us."""
    try:
        return plan_for(spec.topology)
    except RiprapError as error:
        refusal = error

    def refuse(view: View, lost: Collection[WorkerId]) -> list[Step]:
        raise refusal

    return refuse
