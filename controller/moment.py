"""A job at one moment of the controller, as all of its decisions see it: the facts known, and the events to log."""

from __future__ import annotations

from typing import Any

from riprap.controller.actions import Log
from riprap.controller.checkpointing import CHECKPOINTS
from riprap.controller.cluster import Cluster
from riprap.controller.job import LedJob
from riprap.controller.last_words import ReadLastWords
from riprap.controller.phases import EndReason, Phase
from riprap.controller.reports import EXITED, WorkerReport


class Moment:
    """A job, and the cluster, at one time; `logs` collects the events.

    `last_words` is asked before a job is failed: it may be complete without anybody having been told.
    """

    def __init__(self, job: LedJob, cluster: Cluster, now: float, last_words: ReadLastWords) -> None:
        self.job = job
        self.cluster = cluster
        self.now = now
        self.last_words = last_words
        self.logs: list[Log] = []

    def log(self, event: str, **fields: Any) -> None:
        """Append to the job's event log."""
        self.logs.append(
            Log(self.job.spec.run_dir, event, {"job": self.job.spec.name, "monotonic": self.now, **fields})
        )

    def log_checkpoint(self, event: str, **fields: Any) -> None:
        """Append to the job's log of checkpoints, from which it is resumed."""
        self.logs.append(checkpoint_log(self.job, self.now, event, **fields))

    def log_savepoint(self, directory: str, checkpoint: int) -> None:
        """Write down that a savepoint is whole, and of which topology it is: only now it is one."""
        from riprap.backupserver.savepoint import FORMAT, MANIFEST  # brings NumPy

        fields = {"format": FORMAT, "job": self.job.spec.name, "checkpoint": checkpoint}
        fields["topology"] = self.job.spec.topology
        self.logs.append(Log(directory, "savepoint", fields, MANIFEST, synced=True))

    def fail(self, reason: EndReason, message: str, remedy: str) -> None:
        """End the job loudly; one that is complete all the same ends as that."""
        if self.job.phase in (Phase.RUNNING, Phase.RECOVERING) and self._take_last_words():
            self.log("completed_unheard", reason=reason, error=message)
            self.job.move(Phase.FINISHING, self.now)
            return
        if resume := self.job.spec.resume:
            remedy = f"{remedy.rstrip('.')}; go on where it ended with: {resume}"
        self.job.error, self.job.remedy = f"{reason}: {message}", remedy
        self.job.move(Phase.FAILED, self.now)

    def _take_last_words(self) -> bool:
        """True when every sink has left its last words, and they add up; what they say then counts as heard."""
        spec = self.job.spec
        words = [
            said for writer in self.job.sink_writers if (said := self.last_words(spec.run_dir, writer)) is not None
        ]
        if len(words) < len(spec.sinks) or self.job.expected.shortfall([said.account for said in words]):
            return False
        for worker, incarnation, account, stats in words:
            unheard = WorkerReport(spec.name, str(worker), incarnation, EXITED)
            row = self.job.rows.setdefault((worker, incarnation), unheard)
            row.done, row.stats, (row.epoch, row.accounted) = True, stats, account
        return True


def checkpoint_log(job: LedJob, now: float, event: str, **fields: Any) -> Log:
    """An entry of a job's log of checkpoints."""
    fields = {"job": job.spec.name, "monotonic": now, **fields}
    return Log(job.spec.run_dir, event, fields, CHECKPOINTS, synced=True)
