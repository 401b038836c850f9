"""The controller's pure core: reports, membership, requests and ticks in, actions out.

It has no clock, no socket and no ZooKeeper. Every input is taken, then every job gets a pass (`reconcile.py`), then
its decisions are turned into actions: first the records to make durable, then what agents must be told. Same inputs,
same actions.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.trust.paths import problem_with_path
from riprap.controller.actions import Action, Persist, Purge, Reply, Send, SumUp
from riprap.controller.checkpointing import CHECKPOINTING
from riprap.controller.checkpoints import Marks
from riprap.controller.cluster import Cluster
from riprap.controller.desired import hosted_by_agents, tell
from riprap.controller.handover import Handover
from riprap.controller.horizon import FIRST
from riprap.controller.injection import victims
from riprap.controller.job import LedJob
from riprap.controller.jobspec import JobSpec, check_size
from riprap.controller.last_words import ReadLastWords, nothing_said
from riprap.controller.moment import checkpoint_log
from riprap.controller.phases import ACTIVE, STOPPING, TERMINAL, Phase, name_is_taken
from riprap.controller.reconcile import Pass
from riprap.controller.record import UNASSIGNED, JobRecord
from riprap.controller.replicas import wanted_copies
from riprap.controller.reports import EXITED, AgentReport, WorkerReport
from riprap.controller.status import describe, describe_unreadable, told_end
from riprap.controller.steps import Plan, PlanFor, Step
from riprap.controller.victims import check_group, hosts_in, is_group
from riprap.controller.view import View

logger = logging.getLogger(__name__)

TAKEOVER_S = 3.0  # how long a new leader waits for agents' first reports, and logs, before it goes on without
RETRY_S = 0.1  # between two tries to write a record


class Later(Exception):
    """A request that has to wait until what was decided before it is durable; it is to be made again then."""


class Core:
    """The state of one leadership, from the election to its loss.

    `clock` is the one that `now` is on, in all calls. `term` grows from leader to leader. `stored` are the jobs found
    in ZooKeeper, whose records this leader has already marked with its term, so that no older leader can change them.
    `members` maps hosts to agent instances.
    """

    def __init__(
        self,
        term: int,
        controller: str,
        plan_for: PlanFor,
        stored: Mapping[str, tuple[JobSpec, JobRecord]],
        members: Mapping[str, str],
        now: float,
        last_words: ReadLastWords = nothing_said,
        clock: str = "",
    ) -> None:
        self.term = term
        self.controller = controller
        self._plan_for = plan_for
        self._last_words = last_words
        self.cluster = Cluster(members, clock)
        self._handover = Handover()
        self.jobs: dict[str, LedJob] = {}
        self.unreadable: dict[str, RiprapError] = {}
        self._forgetting: dict[str, list[tuple[Any, dict[str, str]]]] = {}  # unreadable jobs: whom to answer
        """The reason why a job was set aside: nothing is decided about it, and no other job notices."""
        for name, (spec, record) in stored.items():
            self.jobs[name] = LedJob(spec, _stored_plan(plan_for, spec), record, now)
            self.jobs[name].durable = record
        self._takeover_until: float | None = now + TAKEOVER_S

    @property
    def takes_over(self) -> bool:
        """True when it still waits for the agents' first reports, and for logs; its answers about jobs are stale until
        then."""
        return self._takeover_until is not None

    def members(self, members: Mapping[str, str], now: float) -> list[Action]:
        """The whole membership has changed to this."""
        self.cluster.set_members(members)
        return self._settle(now)

    def report(self, report: AgentReport, now: float) -> list[Action]:
        """An agent reported all that it knows, and nothing else waits."""
        self.hear(report, now)
        return self._settle(now)

    def hear(self, report: AgentReport, now: float) -> None:
        """An agent reported all that it knows; the next input that is answered with actions decides about it."""
        if not self.cluster.hear(report, now):
            return
        for row in report.rows:
            job = self.jobs.get(row.job)
            if job is not None:
                job.hear(report.instance, row)
        for job in self.jobs.values():
            job.unheard.discard(report.instance)
            job.trim()
        for name, revision in report.revisions.items():
            job = self.jobs.get(name)
            if job is not None:  # a former leader's views must look older than ours
                job.revision = max(job.revision, revision + (report.term != self.term))

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        self.cluster.forget_silent(now)
        return [*self._handover.step(self.cluster, now), *self._settle(now)]

    def due_in(self, now: float) -> float:
        """Seconds until a checkpoint is due; infinite where none is awaited."""
        if self.takes_over:
            return math.inf
        return min((job.checkpoint_due_in(now) for job in self.jobs.values()), default=math.inf)

    def slept(self, seconds: float) -> None:
        """The controller did not run for so long; nobody's silence in that time counts."""
        for job in self.jobs.values():
            job.detector.observer_slept(seconds)

    def persisted(self, name: str, record: JobRecord, now: float) -> list[Action]:
        """A record that was to be written is durable, with its log."""
        job = self.jobs.get(name)
        if job is None:
            return []
        job.durable, job.writing = record, None
        job.checkpoint_logged = max(job.checkpoint_logged, job.to_be_logged(record))
        return self._settle(now)

    def persist_failed(self, name: str, now: float) -> list[Action]:
        """ZooKeeper did not confirm a write, or its log has no room; it is tried again soon, and nothing that depends
        on it happens before."""
        job = self.jobs.get(name)
        if job is not None:
            job.writing, job.retry_at = None, now + RETRY_S
        return []

    def set_aside(self, name: str, error: RiprapError) -> None:
        """Take out a job whose record cannot be read or acted on, and keep the reason."""
        logger.error("job %s is set aside, and the others go on: %s", name, error)
        self.jobs.pop(name, None)
        self.unreadable[name] = error

    def submit(self, ticket: Any, spec: JobSpec, now: float) -> list[Action]:
        """Take a job; answered when it is durable. The same job again is the same job; RiprapError for a clash.

        Raises Later for one that takes the place of another whose end is not durable yet.
        """
        name = spec.name
        if name in self.unreadable:
            raise _refusal(name, self.unreadable[name])
        known = self.jobs.get(name)
        if known is not None and known.purging:
            raise ConfigError(f"job {name} is being forgotten", "submit it again in a moment")
        if known is None or (known.phase in TERMINAL and known.spec.submission != spec.submission):
            if known is not None and not known.is_over:
                raise Later
            check_size(spec.topology)
            job = LedJob(spec, self._plan_for(spec.topology), self._successor(spec, now), now)
            self.jobs[name] = job
        elif not known.spec.asks_the_same(spec):
            raise name_is_taken(name, known.phase)
        self.jobs[name].tickets.append((ticket, {"job": name}))
        return self._settle(now)

    def cancel(self, ticket: Any, name: str, now: float) -> list[Action]:
        """Stop a job; answered when the decision is durable. No effect on a job that ends already; the answer says how
        one has `ended`."""
        job = self._job(name)
        ended = _ended(job)
        if job.phase not in TERMINAL and job.phase not in (Phase.CANCELLING, Phase.FINISHING):
            job.move(Phase.CANCELLING, now)
        job.tickets.append((ticket, {"job": name, "ended": ended}))
        return self._settle(now)

    def drain(self, ticket: Any, name: str, now: float) -> list[Action]:
        """End a stream without end, with all committed; answered when the decision is durable. ConfigError for others.

        No effect on a job that ends already; the answer says how one has `ended`.
        """
        job = self._job(name)
        ended = _ended(job)
        if job.phase not in TERMINAL and job.phase not in STOPPING:
            job.drain()
        job.tickets.append((ticket, {"job": name, "ended": ended}))
        return self._settle(now)

    def adapt(self, ticket: Any, name: str, tasks: list[str], now: float) -> list[Action]:
        """Have these tasks of a job have a replica, and no others; answered when the decision is durable. ConfigError
        for a job that has ended, or cannot."""
        job = self._job(name)
        copies = wanted_copies(job, tasks)
        if job.phase not in ACTIVE:
            raise ConfigError(f"job {name} is {job.phase}", "ask while it runs")
        job.replicas = copies
        job.tickets.append((ticket, {"job": name}))
        return self._settle(now)

    def savepoint(self, ticket: Any, name: str, directory: str, stop: bool, now: float) -> list[Action]:
        """Make the next checkpoint of a job a savepoint, and cancel it then if `stop` and asked for until it is whole.

        ConfigError if it makes none.
        """
        job = self._job(name)
        if problem := problem_with_path(directory):
            raise ConfigError(f"the directory {directory!r}: {problem}", "name another one")
        if job.checkpoints is None:
            raise ConfigError(
                f"job {name} makes no checkpoints, so there is no savepoint of it",
                f"set fault_tolerance.scheme to {CHECKPOINTING[0]}",
            )
        if job.phase not in TERMINAL and directory in (job.parting, *job.checkpoints.made):
            return [Reply(ticket, {"job": name})]  # it is about to be seen, and the job may be ending with it
        if job.phase not in (Phase.RUNNING, Phase.RECOVERING):
            raise ConfigError(f"job {name} is {job.phase}", "ask while it runs")
        if stop and job.horizon is not None and job.horizon.drained:
            raise ConfigError(
                f"the stream of job {name} is drained, so it ends by itself; who began from a savepoint would read on",
                f"await its end, or `riprap cancel {name}`",
            )
        if lacking := job.checkpoints.lacking.pop(directory, None):
            raise ConfigError(
                f"no savepoint of {name}, which goes on: {', '.join(lacking[:8])} could not write to {directory}",
                "name a directory with room where all hosts may write; `savepoint_failed` in events.jsonl says why",
            )
        job.checkpoints.want(directory, stop, now)
        return [Reply(ticket, {"job": name}), *self._settle(now)]

    def forget(self, ticket: Any, name: str) -> list[Action]:
        """Remove a job that has ended, or cannot be read; answered when its nodes are gone. ConfigError for others."""
        if name in self.unreadable:
            asked = self._forgetting.setdefault(name, [])
            asked.append((ticket, {"job": name}))
            return [Purge(name)] if len(asked) == 1 else []
        job = self._job(name)
        if job.phase not in TERMINAL:
            raise ConfigError(f"job {name} is {job.phase}", f"`riprap cancel {name}` first")
        if not job.is_over:
            self._forgetting.setdefault(name, []).append((ticket, {"job": name}))
            return []
        job.tickets.append((ticket, {"job": name}))
        if job.purging:
            return []
        job.purging = True
        return [Purge(name)]

    def purged(self, name: str) -> list[Action]:
        """The nodes of a job are gone."""
        self.unreadable.pop(name, None)
        job = self.jobs.pop(name, None)
        asked = [*self._forgetting.pop(name, []), *(job.tickets if job else [])]
        return [Reply(*ticket) for ticket in asked]

    def purge_failed(self, name: str) -> list[Action]:
        """ZooKeeper did not confirm it; whoever asked will ask again."""
        self._forgetting.pop(name, None)
        job = self.jobs.get(name)
        if job is not None:
            job.purging = False
            job.tickets.clear()
        return []

    def kill(self, ticket: Any, name: str, worker: str) -> list[Action]:
        """Have the worker's agent SIGKILL its present incarnation; or those of a group (victims.py), with the agents
        where it names hosts. ConfigError when none runs."""
        job = self._job(name)
        if is_group(worker):
            return self._kill_group(ticket, job, worker)
        try:
            row = job.row(WorkerId.parse(worker))
        except (ValueError, KeyError):
            row = None
        if row is None or row.state == EXITED:
            if ended := _ended(job):
                raise ConfigError(f"{worker} of job {name} does not run now, as that is {ended}", "see `riprap jobs`")
            names = ", ".join(map(str, job.tasks))
            raise ConfigError(f"{worker} of job {name} does not run now", f"choose one of {names} that does")
        return [_kill(job, row), Reply(ticket, {"incarnation": row.incarnation, "pid": row.pid})]

    def _kill_group(self, ticket: Any, job: LedJob, target: str) -> list[Action]:
        hosts = self.cluster.hosts()
        check_group(target, {worker.stage for worker in job.tasks}, hosts)
        rows, agents = victims(job, target, self.cluster), hosts_in(target, hosts)
        if not rows and not agents:
            raise ConfigError(f"no worker of {target} of job {job.spec.name} runs now", "see `riprap status`")
        usable = self.cluster.usable_hosts()
        sends = [_kill(job, row) for row in rows]
        sends += [Send(usable[host], {"type": "kill_agent"}) for host in agents]
        return [*sends, Reply(ticket, {"workers": [row.worker for row in rows], "hosts": agents})]

    def rotate(self, ticket: Any, secret: bytes, now: float) -> None:
        """Have the agents keep the secret to come; a later tick answers, with `hosts` and those `without`."""
        self._handover.begin(ticket, secret, self.cluster, now)

    def status(self, name: str) -> dict[str, Any]:
        """All that is known of a job; raises ConfigError when there is none of that name."""
        if name in self.unreadable:
            return describe_unreadable(name, self.unreadable[name], self.controller)
        job = self._job(name)
        if job.final is not None and job.is_over:
            return job.final
        return describe(job, self.controller, self.cluster) | told_end(job)

    def list_jobs(self) -> list[dict[str, Any]]:
        """All jobs: name, phase, run directory, error, and the command that goes on with one that failed."""
        rows = []
        for job in self.jobs.values():
            resume = job.spec.resume if job.told_phase in (Phase.FAILED, Phase.CANCELLED) else ""
            told = told_end(job)
            row = {"job": job.spec.name, "phase": told["phase"], "run_dir": job.spec.run_dir}
            rows.append(row | {"error": told["error"], "resume": resume})
        for name, error in self.unreadable.items():
            row = {"job": name, "phase": str(Phase.UNREADABLE), "run_dir": "", "error": str(error.args[0])}
            rows.append(row | {"resume": ""})
        return rows

    def phases(self) -> dict[str, str]:
        """The phase of every job."""
        aside = dict.fromkeys(self.unreadable, str(Phase.UNREADABLE))
        return {name: str(job.told_phase) for name, job in self.jobs.items()} | aside

    def agents(self) -> dict[str, Any]:
        """The agents that can be given work, by host, with the labels of each."""
        result = {}
        for host, instance in self.cluster.usable_hosts().items():
            report = self.cluster.agents[instance].report
            workers = [f"{row.job}/{row.worker}" for row in report.rows if row.state != EXITED]
            about = {"instance": instance, "pid": report.pid, "address": report.address, "workers": workers}
            result[host] = about | {"labels": dict(self.cluster.labels_of(host, instance))}
        return result

    def _job(self, name: str) -> LedJob:
        job = self.jobs.get(name)
        if name in self.unreadable:
            raise _refusal(name, self.unreadable[name])
        if job is None:
            known = ", ".join(self.jobs) or "none"
            raise ConfigError(f"there is no job {name}", f"choose one of the known jobs: {known}")
        return job

    def _successor(self, spec: JobSpec, now: float) -> JobRecord:
        """A blank record; incarnations go on from those of a former job of that name, whose processes may linger.

        Of one that was forgotten, agents still tell for a while.
        """
        known = self.jobs.get(spec.name)
        tasks = {w: task.assignment.incarnation for w, task in known.tasks.items()} if known is not None else {}
        for agent in self.cluster.agents.values():
            for row in agent.report.rows:
                if row.job == spec.name:
                    tasks[row.id] = Incarnation(max(tasks.get(row.id, 0), row.incarnation))
        blank = {worker: UNASSIGNED._replace(incarnation=number) for worker, number in tasks.items()}
        horizon = FIRST if spec.endless else None
        marks = Marks(spec.checkpoint, max(spec.checkpoint, spec.checkpoints_before))
        return JobRecord(started_at=now, clock=self.cluster.clock, tasks=blank, horizon=horizon, checkpoints=marks)

    def _settle(self, now: float) -> list[Action]:
        """Decide about every job, then act."""
        if self._taking_over(now):
            return self._log_what_was_decided(now)
        actions: list[Action] = []
        load = Counter(
            task.assignment.host
            for job in self.jobs.values()
            if job.phase not in TERMINAL
            for task in job.tasks.values()
        )
        for name, job in list(self.jobs.items()):
            try:
                actions += self._decide(job, load, now)
            except Exception as error:  # one job's must not take the leader of all down, nor its successors
                logger.exception("deciding about job %s failed", name)
                self.set_aside(name, RiprapError(f"the controller fails at it: {error!r}", "see the controller's log"))
        hosted = hosted_by_agents(self.jobs.values())
        for instance, agent in self.cluster.agents.items():
            message = tell(agent, self.jobs, hosted.get(instance, {}), self.term, now)
            if message is not None:
                actions.append(Send(instance, message))
        return actions

    def _decide(self, job: LedJob, load: Counter[str], now: float) -> list[Action]:
        actions: list[Action] = [*Pass(job, self.cluster, load, now, self._last_words).run()]
        if job.purging:
            return actions
        if job.phase in TERMINAL and job.final is None:
            job.final = describe(job, self.controller, self.cluster)
        return [*actions, *self._make_durable(job, now), *self._end(job)]

    def _end(self, job: LedJob) -> list[Action]:
        """Make a job's durable end known, once in this leadership; and remove the job if that was asked for."""
        if job.final is None or not job.is_over:
            return []
        actions: list[Action] = [] if job.ended else [SumUp(job.spec, job.final)]
        job.ended = True
        if job.spec.name in self._forgetting:
            job.purging = True
            actions.append(Purge(job.spec.name))
        return actions

    def _taking_over(self, now: float) -> bool:
        """True to hold still because agents have not reported yet: their processes are not known; and because what a
        former leader has decided is not logged yet, which workers must not hear of before."""
        if self._takeover_until is None:
            return False
        tasks = [task for job in self.jobs.values() if job.phase not in TERMINAL for task in job.tasks.values()]
        assigned = {task.assignment.instance for task in tasks if task.assignment.host and not task.fenced}
        is_known = not self.cluster.unheard(assigned) and not self._unlogged()
        if is_known or now > self._takeover_until:
            self._takeover_until = None
        return self.takes_over

    def _unlogged(self) -> list[LedJob]:
        """The jobs with a durable decision that may not be in their log."""
        return [job for job in self.jobs.values() if job.durable is not None and job.to_be_logged(job.durable)]

    def _log_what_was_decided(self, now: float) -> list[Action]:
        """Have that logged, or logged once more: a former leader may have been lost before it was."""
        return [action for job in self._unlogged() for action in self._make_durable(job, now)]

    def _make_durable(self, job: LedJob, now: float) -> list[Action]:
        record, log = job.record(), None
        if checkpoint := job.to_be_logged(record):
            log = checkpoint_log(job, now, "completed", checkpoint=checkpoint, **job.checkpoint_fields)
        if job.durable is not None and job.durable.decides() == record.decides() and log is None:
            replies: list[Action] = [Reply(*ticket) for ticket in job.tickets]
            job.tickets.clear()
            return replies
        if job.writing is not None or now < job.retry_at:
            return []
        job.writing = record
        return [Persist(job.spec, record, job.durable is None, log)]


def _ended(job: LedJob) -> str:
    """The phase of a job that has ended; nothing of others."""
    return str(job.phase) if job.phase in TERMINAL else ""


def _kill(job: LedJob, row: WorkerReport) -> Send:
    message = {"type": "kill", "job": job.spec.name, "worker": row.worker, "incarnation": row.incarnation}
    return Send(job.tasks[row.id].assignment.instance, message)


def _refusal(name: str, error: RiprapError) -> ConfigError:
    return ConfigError(f"job {name} is set aside: {error.args[0]}", error.remedy)


def _stored_plan(plan_for: PlanFor, spec: JobSpec) -> Plan:
    """The plan of a job found in ZooKeeper; one that this version cannot plan for fails at its first loss, not us."""
    try:
        return plan_for(spec.topology)
    except RiprapError as error:
        refusal = error
    except Exception as error:  # an older version, or another, took it
        refusal = RiprapError(f"its topology cannot be planned for: {error!r}", "submit it again under another name")

    def refuse(view: View, lost: Collection[WorkerId]) -> list[Step]:
        raise refusal

    return refuse
