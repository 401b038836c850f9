"""One job in the leader's memory: decided assignments, the reports about them, and the view that follows."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.checkpoints import CheckpointPace, Coordinator
from riprap.controller.checkpoints import Marks as CheckpointMarks
from riprap.controller.completeness import Expected
from riprap.controller.detector import Detector
from riprap.controller.horizon import FIRST, Granting, Horizon
from riprap.controller.jobspec import JobSpec
from riprap.controller.labels import HostLabels
from riprap.controller.phases import STOPPING, TERMINAL, Phase, check_move
from riprap.controller.record import UNASSIGNED, Assignment, JobRecord
from riprap.controller.reports import EXITED, WorkerReport
from riprap.controller.reports import UP as REPORTED_UP
from riprap.controller.steps import Plan
from riprap.controller.view import DOWN, OFF, STARTING, UNHEARD, UP, View, WorkerView

PAST_ROWS_MAX = 256
FAILURES_MAX = 200


@dataclass(slots=True)
class DecidedTask:
    """One worker, as decided. Incarnations grow by one with each assignment."""

    assignment: Assignment = UNASSIGNED
    wanted: bool = True
    """The next incarnation is to be assigned, once a host can take it."""
    announced: bool = True
    """Its peers may see it as up when it is ready."""
    fenced: bool = False
    """The assigned incarnation is shut out."""
    assigned_at: float = 0.0
    lost_at: float | None = None
    """The time since which it is being replaced; None while it is up, or before its first incarnation was lost."""
    lost_in: HostLabels = field(default_factory=dict)
    """The labels of the host on which it was last lost."""
    off: bool = False
    """A replica that is not to run now; it is fenced too."""
    joins: bool = False
    """A replica that may have begun while the job ran, until it is up: nobody waits for it."""
    restarts: int = 0
    fruitless: deque[float] = field(default_factory=deque)
    """The times at which incarnations died without having processed an item, since the last that did."""

    def begin(self) -> None:
        """A replica is to run. Its very first incarnation is none with the number 1: it goes on from what another copy
        has saved."""
        self.off, self.joins, self.wanted, self.announced, self.lost_at = False, True, True, True, None
        self.assignment = self.assignment._replace(incarnation=Incarnation(max(1, self.assignment.incarnation)))

    def end(self) -> None:
        """A replica is not to run any more."""
        self.off, self.fenced, self.joins, self.wanted, self.lost_at = True, True, False, False, None


class LedJob:
    """All that the leader knows of a job. A pass (`reconcile.py`) changes it, the core its `durable` and `writing`."""

    def __init__(self, spec: JobSpec, plan: Plan, record: JobRecord, now: float) -> None:
        self.spec = spec
        self.plan = plan
        self.phase = record.phase
        self.phase_at = now
        self.error = record.error
        self.remedy = record.remedy
        self.started_at = record.started_at
        self.failures: list[dict[str, Any]] = [dict(failure) for failure in record.failures]
        self.final = record.final
        self.purging = False
        """True when its nodes are being removed."""
        self.ended = False
        """True when its end was made known."""
        self.clock = record.clock
        """The clock of `started_at`."""
        self.injected: list[dict[str, Any]] = [dict(order) for order in record.injected]
        self.faults_logged = {order["number"] for order in record.injected}
        """The faults whose orders this leader has logged, or found."""
        self.horizon, self._granting = record.horizon, Granting(now)
        self.round = record.round
        pace = CheckpointPace.of(spec.topology)
        self.checkpoints = Coordinator(pace, record.checkpoints or CheckpointMarks(), now) if pace else None
        self.checkpoint_logged = 0
        """The newest checkpoint that is logged as whole, as far as this leader knows."""
        self.checkpoint_seen = 0
        """The newest that it has seen to be durable."""
        self.checkpoint_fields: dict[str, Any] = {}
        """The log entry of the checkpoint that is decided and not durable yet."""
        self.parting = record.parting
        """The directory of the savepoint that the job ends with, once that is durable; empty for none."""
        self.replicas = spec.replicas if record.replicas is None else record.replicas
        """Those that are to run (replicas.py)."""
        copied = {worker.primary for worker in spec.workers if worker.copy} & spec.sinks
        self.writers = {sink: sink for sink in copied} | {copy.primary: copy for copy in record.writers}
        """Of each destination with a replica, the copy that writes its output."""
        self.tasks = {worker: self._restored(worker, record.tasks.get(worker), now) for worker in spec.workers}
        self.unheard = {task.assignment.instance for task in self.tasks.values()}
        """The agents to which a former leader gave workers, as far as they have not reported to this one."""
        self.unsettled = set(record.unsettled)
        self.durable: JobRecord | None = None
        self.writing: JobRecord | None = None
        self.retry_at = 0.0
        self.revision = 0
        self.view = View(0, self.phase)
        self.rows: dict[tuple[WorkerId, Incarnation], WorkerReport] = {}
        self.detector = Detector(spec.limits.heartbeat_timeout_s)
        self.committed = -1
        """Epochs that the sinks have committed together, as far as was heard."""
        self.stalled_s, self.watched_at = 0.0, now
        """The time since the last of them in which all workers were up, as of `watched_at`."""
        self.misplaced = ""
        """The shortcomings of its placement, as this leader last logged them."""
        self.tickets: list[tuple[Any, Any]] = []
        """Clients to answer, each with its result, when what is decided now is durable."""
        self.refresh_view()

    def _restored(self, worker: WorkerId, assignment: Assignment | None, now: float) -> DecidedTask:
        if assignment is None or not assignment.host:
            task = DecidedTask(assignment or UNASSIGNED)
            if worker.copy and worker not in self.replicas:
                task.end()
            return task
        restarts = sum(failure["worker"] == str(worker) for failure in self.failures)
        joins = bool(worker.copy) and self.spec.adapts and self.phase not in (Phase.SUBMITTED, Phase.DEPLOYING)
        return DecidedTask(assignment, wanted=False, assigned_at=now, restarts=restarts, joins=joins)

    def move(self, phase: Phase, now: float) -> None:
        """Go to another phase; raises IllegalMove when the table does not list the move."""
        self.phase = check_move(self.phase, phase)
        self.phase_at = now

    def row(self, worker: WorkerId) -> WorkerReport | None:
        """The last report of the worker's assigned incarnation."""
        return self.rows.get((worker, self.tasks[worker].assignment.incarnation))

    def is_up(self, worker: WorkerId) -> bool:
        """True when the assigned incarnation is ready and not shut out."""
        row = self.row(worker)
        return row is not None and row.state == REPORTED_UP and not self.tasks[worker].fenced

    @property
    def sink_writers(self) -> list[WorkerId]:
        """Those who write the output, one for each sink."""
        return [self.writers.get(sink, sink) for sink in self.spec.sinks]

    @property
    def sink_rows(self) -> list[WorkerReport | None]:
        """Their last reports."""
        return [self.row(writer) for writer in self.sink_writers]

    def hear(self, instance: str, row: WorkerReport) -> None:
        """Keep a row of an agent's report, if its incarnation was given to that agent or is a past one."""
        task = self.tasks.get(row.id)
        incarnation = Incarnation(row.incarnation)
        if task is None or incarnation > task.assignment.incarnation:
            return
        if incarnation == task.assignment.incarnation and instance != task.assignment.instance:
            return
        self.rows[row.id, incarnation] = row

    def placed(self) -> dict[WorkerId, str]:
        """The hosts of the tasks that need no other one."""
        decided = self.tasks.items()
        return {
            worker: task.assignment.host
            for worker, task in decided
            if task.assignment.host and not task.wanted and not task.off
        }

    @property
    def running(self) -> list[WorkerId]:
        """The tasks, and those of their replicas that are to run."""
        return [worker for worker, task in self.tasks.items() if not task.off]

    def record(self) -> JobRecord:
        """The decisions so far."""
        tasks = {worker: task.assignment for worker, task in self.tasks.items()}
        failures = tuple(dict(failure) for failure in self.failures[-FAILURES_MAX:])
        injected = tuple(dict(order) for order in self.injected)
        head = (self.phase, self.error, self.remedy, tasks, self.started_at)
        marks = self.checkpoints.marks if self.checkpoints is not None else None
        clock, unsettled = self.clock, frozenset(self.unsettled)
        replicas = self.replicas if self.replicas != self.spec.replicas else None
        later = (self.horizon, self.round, marks, unsettled, replicas)
        writers = frozenset(writer for writer in self.writers.values() if writer.copy)
        return JobRecord(*head, failures, self.final, injected, clock, *later, writers, self.parting)

    def may_run(self, worker: WorkerId) -> bool:
        """True when an agent may hold the worker's process: its assignment is durable and not shut out."""
        task = self.tasks[worker]
        return self.durable is not None and not task.fenced and self.durable.tasks.get(worker) == task.assignment

    @property
    def is_over(self) -> bool:
        """True when its end is durable."""
        return self.durable is not None and self.durable.phase in TERMINAL

    @property
    def told_phase(self) -> Phase:
        """The phase as clients are told it, of an end once that is durable: before, a next leader may go on with a job
        on whose end somebody has acted."""
        if self.phase not in TERMINAL or self.is_over:
            return self.phase
        return Phase.SUBMITTED if self.durable is None else self.durable.phase

    def stopping(self) -> bool:
        """True when the decision to stop the workers is durable."""
        return self.durable is not None and self.durable.phase in STOPPING

    def grant(self, now: float) -> None:
        """Let the sources of a stream without end go further, when they come near their limit; or decide its end."""
        if self.horizon is None:
            return
        rows = {worker: self.row(worker) for worker in self.running}
        sources = [row for worker, row in rows.items() if worker.stage in self.spec.sources]
        awaited = rows.values() if self.spec.goes_on else sources
        are_heard = all(row is not None and row.stats for row in awaited)
        if are_heard or not self.spec.goes_on or self.horizon.windows > FIRST.windows:
            self.horizon = self._granting.after(self.horizon, max((r.epoch for r in sources if r), default=0), now)
        if self.horizon.drained and are_heard:
            self.horizon = self.horizon._replace(final=True)

    def hear_of_end(self) -> None:
        """Keep the end that an earlier attempt decided, as soon as a worker that was restored behind it says so.

        Once this attempt has granted windows of its own, nobody can have known of an end before.
        """
        if self.horizon is None or self.horizon.final or self.horizon.windows > FIRST.windows:
            return
        ends = (row.stats.get("last_window") for worker in self.tasks if (row := self.row(worker)) is not None)
        end = max((end for end in ends if end.__class__ is int), default=0)
        if end >= self.horizon.windows:
            self.horizon = Horizon(end, final=True, drained=True)

    @property
    def expected(self) -> Expected:
        """The commits that complete it: no sink can be done before the horizon is final."""
        if self.horizon is None:
            return self.spec.expected
        return replace(self.spec.expected, windows=self.horizon.windows + (not self.horizon.final))

    @property
    def at_end(self) -> bool:
        """True when all destinations have closed the last window: nothing is left but to make that safe."""
        windows = self.expected.windows
        return all(row is not None and not row.done and row.epoch == windows for row in self.sink_rows)

    def drain(self) -> None:
        """End the stream with the last window granted, once it is known where the sources are; ConfigError for one that
        has an end of its own."""
        if self.horizon is None:
            raise ConfigError(
                f"the stream of job {self.spec.name} has an end of its own", f"`riprap cancel {self.spec.name}` ends it"
            )
        self.horizon = self.horizon._replace(drained=True)
        if self.checkpoints is not None:
            self.checkpoints.forget_ends()

    def refresh_view(self) -> None:
        """Give the view its next revision if anything that peers may see has changed, or `revision` was raised."""
        workers = {worker: self._seen(worker) for worker in self.tasks}
        decided = (None, 0) if self.durable is None else (self.durable.horizon, self.durable.round)
        view = View(self.revision, self.phase, workers, *decided, *self._checkpoint_seen())
        if view != self.view or self.revision == 0:
            self.revision += 1
            self.view = replace(view, revision=self.revision)

    @property
    def durable_marks(self) -> CheckpointMarks:
        """The durable part of the checkpoints' marks."""
        return self.durable.checkpoints if self.durable and self.durable.checkpoints else CheckpointMarks()

    def to_be_logged(self, record: JobRecord) -> int:
        """The checkpoint that has to be in the log before a record counts, for a resumed job goes on from there: once
        it counts, workers are told of it, and drop what they have saved before. 0 where nobody will be told."""
        if record.checkpoints is None or record.phase in TERMINAL:
            return 0
        return record.checkpoints.completed if record.checkpoints.completed > self.checkpoint_logged else 0

    def checkpoint_due_in(self, now: float) -> float:
        """Seconds until its next checkpoint is due; infinite where none is awaited."""
        if self.checkpoints is None or not self.may_trigger:
            return math.inf
        return self.checkpoints.due_in(self.durable_marks, now)

    @property
    def may_trigger(self) -> bool:
        """True while it runs, in the round that is durable."""
        return self.phase is Phase.RUNNING and self.durable is not None and self.durable.round == self.round

    def _checkpoint_seen(self) -> tuple[tuple[int, int] | None, str]:
        if self.checkpoints is None:
            return None, ""
        return self.checkpoints.told(self.durable_marks), self.checkpoints.savepoint

    def _seen(self, worker: WorkerId) -> WorkerView:
        task, row = self.tasks[worker], self.row(worker)
        incarnation, host, _ = task.assignment
        writes = self.writers.get(worker.primary) == worker
        if task.fenced or not host:
            state = OFF if task.off else DOWN
        elif row is not None and row.state == REPORTED_UP and task.announced:
            return WorkerView(incarnation, UP, host, row.ipc, row.tcp, row.public_key, writes)
        elif task.assignment.instance in self.unheard:
            state = UNHEARD
        else:
            state = DOWN if row is not None and row.state == EXITED else STARTING
        return WorkerView(incarnation, state, host, writes=writes)

    def trim(self) -> None:
        """Drop the oldest rows of past incarnations, when there are too many."""
        if len(self.rows) <= PAST_ROWS_MAX:
            return
        current = {(worker, task.assignment.incarnation) for worker, task in self.tasks.items()}
        while len(self.rows) - len(current) > PAST_ROWS_MAX:
            del self.rows[next(key for key in self.rows if key not in current)]
