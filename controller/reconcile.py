"""One pass over one job, from the reports to the decisions.

It is level-triggered: any pass may be the first, as after a change of leader.
The three functions of the phases (`_submitted`, `_active`, `_stopping`) read the job's rows and the cluster, change the
job's decisions, and append to its log. What agents are told follows from the decisions, in `desired.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller import injection, recovery, replicas
from riprap.controller.actions import Log
from riprap.controller.checkpoints import Coordinator, Pending, checkpoint_fields, directory_of_part
from riprap.controller.cluster import Cluster
from riprap.controller.completeness import Account
from riprap.controller.job import LedJob
from riprap.controller.last_words import ReadLastWords
from riprap.controller.moment import Moment
from riprap.controller.phases import ACTIVE, STOPPING, TERMINAL, EndReason, FailureReason, Phase
from riprap.controller.placement import REMEDY, Deal, dealt, unsatisfied
from riprap.controller.record import Assignment
from riprap.controller.reports import EXITED, UP


class Pass(Moment):
    """One pass at one moment; `load` counts the tasks of each host."""

    def __init__(
        self, job: LedJob, cluster: Cluster, load: Counter[str], now: float, last_words: ReadLastWords
    ) -> None:
        super().__init__(job, cluster, now, last_words)
        self.load = load

    def run(self) -> list[Log]:
        """Decide until nothing changes any more; a phase is left at most once in a step, so five steps do."""
        job = self.job
        self._log_savepoint()
        injection.log_orders(self)
        for _ in range(5):
            phase = job.phase
            if phase is Phase.SUBMITTED:
                self._submitted()
            elif phase in ACTIVE:
                self._active()
            elif phase in STOPPING:
                self._stopping()
            if job.phase is phase:
                break
            self.log("phase", phase=job.phase, before=phase, error=job.error)
            if job.phase in TERMINAL:
                injection.note_faults_that_never_came(self)
        job.refresh_view()
        return self.logs

    def _log_savepoint(self) -> None:
        """Say of the checkpoint that is durably decided that it is a savepoint, if it is, in whatever phase."""
        job, durable = self.job, self.job.durable
        if durable is None or durable.phase in TERMINAL or job.durable_marks.completed <= job.checkpoint_seen:
            return
        job.checkpoint_seen = job.durable_marks.completed
        if savepoint := job.checkpoint_fields.get("savepoint") or durable.parting:
            self.log_savepoint(savepoint, job.checkpoint_seen)
        job.checkpoint_fields = {}

    def _submitted(self) -> None:
        timeout_s = self.job.spec.limits.startup_timeout_s
        hosts, spec = self.cluster.hosts(), self.job.spec
        lacking = unsatisfied(spec.rules, hosts, dealt(spec.rules, spec.workers, hosts)) if hosts else []
        is_late = self.now - self.job.phase_at > timeout_s
        if hosts and not (lacking and spec.rules.strict):
            self.job.move(Phase.DEPLOYING, self.now)
        elif is_late and hosts:
            self.fail(EndReason.DEPLOYMENT, f"not placed within {timeout_s:g} s: {'; '.join(lacking)}", REMEDY)
        elif is_late:
            self.fail(
                EndReason.DEPLOYMENT,
                f"no agent has joined within {timeout_s:g} s",
                "start one with `riprap agent`, then submit the job again",
            )

    def _active(self) -> None:
        job = self.job
        self._observe()
        if self._worker_failed():
            return
        job.hear_of_end()
        lost = self._new_losses()
        if job.phase is not Phase.DEPLOYING and self._sinks_done():
            for worker, reason in lost.items():
                recovery.note(self, worker, reason)
            self._finish()
            return
        if lost:
            recovery.recover(self, lost)
        if job.phase in ACTIVE:
            replicas.adapt(self)
            replicas.promote(self)
            self._assign()
            self._advance()
            injection.order_faults(self)
            job.grant(self.now)
            self._checkpoint()
        if job.phase in ACTIVE:  # a job ends for one reason
            recovery.check_deadlines(self)

    def _stopping(self) -> None:
        job = self.job
        self._observe()
        for worker, reason in job.detector.suspicions(self.now).items():
            if reason is FailureReason.EXITED or job.tasks[worker].fenced:
                continue  # which is what they are asked to do, or what is done to them
            recovery.note(self, worker, reason)
            job.tasks[worker].fenced |= reason is FailureReason.HEARTBEAT
        for worker, task in job.tasks.items():
            # All items are committed or given up: neither a hung worker nor a long call is worth waiting for.
            task.fenced |= (row := job.row(worker)) is not None and bool(row.call)
        remaining = [str(worker) for worker in job.tasks if not self._ended(worker)]
        late = self.now - job.phase_at > job.spec.limits.finishing_timeout_s
        if remaining and late:  # nothing is lost with them: who runs when a job has ended is killed
            self.log("not_stopped", workers=remaining, seconds=job.spec.limits.finishing_timeout_s)
        if late or not remaining:
            job.move(Phase.COMPLETED if job.phase is Phase.FINISHING else Phase.CANCELLED, self.now)

    def _observe(self) -> None:
        """Hand what is known of the assigned incarnations to the detector, and fill in the failures' times."""
        job = self.job
        for worker, task in job.tasks.items():
            if not task.assignment.host:
                continue
            incarnation, _, instance = task.assignment
            job.detector.watch(worker, incarnation, instance)
            row = job.row(worker)
            if row is not None and row.state == EXITED:
                if row.pid:
                    job.detector.exited(worker, incarnation, row.status)
                else:
                    job.detector.not_started(worker, incarnation)
            elif row is not None and row.state == UP:
                job.detector.beat(worker, incarnation, row.beat, self.now)
            if self.cluster.gone(task.assignment, self.now):
                job.detector.agent_gone(instance)
        recovery.fill_in_failures(self)

    def _worker_failed(self) -> bool:
        for worker in self.job.tasks:
            row = self.job.row(worker)
            if row is not None and row.error:
                log = f"{self.job.spec.run_dir}/logs/{worker}.log"
                self.fail(
                    EndReason.WORKER, f"{worker}: {row.error}", row.remedy or f"see {log}, then run the job again"
                )
                return True
        return False

    def _sinks_done(self) -> bool:
        return all(row is not None and row.done for row in self.job.sink_rows)

    def _finish(self) -> None:
        """Finish a job whose sinks all say that they are done, if their commits add up."""
        rows = self.job.sink_rows
        short = self.job.expected.shortfall([Account(row.epoch, row.accounted) for row in rows if row is not None])
        if short:
            remedy = f"a report of them is wrong or forged; see {self.job.spec.run_dir}/events.jsonl"
            self.fail(EndReason.INCOMPLETE, f"all sinks say that they are done, but {short}", remedy)
        else:
            self.job.move(Phase.FINISHING, self.now)

    def _new_losses(self) -> dict[WorkerId, FailureReason]:
        """Of a replica that is not to run any more nothing is lost."""
        job, suspicions = self.job, self.job.detector.suspicions(self.now)
        missed = {worker for worker in job.tasks if not worker.copy or worker in job.replicas}
        return {one: reason for one, reason in suspicions.items() if one in missed and not job.tasks[one].fenced}

    def _assign(self) -> None:
        """Give every worker that wants an incarnation to a host."""
        job, instances = self.job, self.cluster.usable_hosts()
        wanted = [(worker, task) for worker, task in job.tasks.items() if task.wanted]
        if not wanted or not instances:
            return
        hosts = self.cluster.speaking(self.now)
        losses = [task.lost_in for task in job.tasks.values() if task.lost_at is not None]
        deal = Deal(job.spec.rules, hosts, job.placed(), self.load, losses)
        begins = not any(task.assignment.host for task in job.tasks.values())
        first = dealt(job.spec.rules, [worker for worker, _ in wanted], hosts, self.load) if begins else {}
        self.load.update(first.values())
        for worker, task in wanted:
            host = first.get(worker) or deal.place(worker, task.assignment.host)
            incarnation = Incarnation(task.assignment.incarnation + 1)
            task.restarts += bool(task.assignment.host)
            task.assignment = Assignment(incarnation, host, instances[host])
            task.wanted, task.fenced, task.assigned_at = False, False, self.now
            job.detector.watch(worker, incarnation, instances[host])
        misplaced = "; ".join(unsatisfied(job.spec.rules, hosts, job.placed()))
        if misplaced and misplaced != job.misplaced:
            self.log("placement_unsatisfied", reason=misplaced)
        job.misplaced = misplaced

    def _advance(self) -> None:
        job = self.job
        up = [worker for worker in job.tasks if job.is_up(worker)]
        for worker in up:
            job.tasks[worker].lost_at, job.tasks[worker].joins = None, False
        if len(up) == len([worker for worker in job.running if not job.tasks[worker].joins]):
            if job.phase is not Phase.RUNNING:
                job.move(Phase.RUNNING, self.now)
        elif job.phase is Phase.RUNNING:
            job.move(Phase.RECOVERING, self.now)

    def _checkpoint(self) -> None:
        """Trigger checkpoints, and decide about the one under way; end a job that was to end with the last."""
        job, coordinator, now = self.job, self.job.checkpoints, self.now
        if coordinator is None:
            return
        if job.durable is not None and job.durable.parting:
            job.move(Phase.CANCELLING, now)
        durable = job.durable_marks
        coordinator.reserve()
        if given_up := coordinator.forget_unawaited(now):
            self.log_checkpoint("aborted", checkpoint=given_up.number, reason="nobody awaits its savepoint any more")
        if not job.may_trigger:
            return
        rows = {str(worker): row for worker in job.tasks if (row := job.row(worker)) is not None}
        lacking = [name for name, row in rows.items() if directory_of_part(row) != coordinator.savepoint]
        if whole := coordinator.hear({name: row.checkpoint for name, row in rows.items()}, now, lacking):
            job.checkpoint_fields = checkpoint_fields(whole, rows.values())
            job.parting = whole.savepoint if whole.ends else ""
            job.unsettled.clear()
        elif coordinator.is_late(now) and (late := coordinator.abort(now, failed=True)):
            self._checkpoint_failed(late, coordinator, rows.keys() - late.saved)
        if job.may_trigger and (number := coordinator.trigger(durable, now, job.at_end)):
            self.log_checkpoint("triggered", checkpoint=number)

    def _checkpoint_failed(self, late: Pending, coordinator: Coordinator, missing: Collection[str]) -> None:
        names, pace = ", ".join(sorted(missing)[:8]), coordinator.pace
        self.log_checkpoint("aborted", checkpoint=late.number, reason=f"not saved in time by {names}")
        if coordinator.failures > pace.failures_max:
            self.fail(
                EndReason.CHECKPOINTS,
                f"{coordinator.failures} checkpoints in a row were not whole within {pace.timeout_s:g} s; the last"
                f" lacked {names}",
                "raise fault_tolerance.timeout_ms or tolerated_failures, or see why they are slow",
            )

    def _ended(self, worker: WorkerId) -> bool:
        """True when no process of the worker is left to wait for (agents start nothing for a job that stops)."""
        row = self.job.row(worker)
        return row is None or row.state == EXITED or self.cluster.gone(self.job.tasks[worker].assignment, self.now)
