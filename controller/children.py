"""All workers of one agent: brings what runs in line with what the leader wants, and learns how each ends."""

from __future__ import annotations

import logging
import os
import select
import time
from pathlib import Path

from codec.events import EventLog
from controller import channel
from controller.child import Child
from controller.reports import EXITED, WorkerReport
from controller.spawner import Exited, Spawner, Started, await_end
from controller.wish import Wish

logger = logging.getLogger(__name__)

Key = tuple[str, str, int]  # job, worker, incarnation

EXITED_ROWS_MAX = 32  # of one job
EXITED_ROWS_S = 60.0  # how long they are reported after the leader has dropped their job
STATUS_WAIT_S = 0.005  # the zygote tells the exit status within a millisecond of the pidfd, unless the host is busy
ORPHANS_WAIT_S = 1.0  # the kernel kills a dead zygote's workers at once


class Children:
    """Owned by the agent's thread; the leader's last wish is kept, so that each exit can bring the next start."""

    def __init__(self, spawner: Spawner, host: str, address: str) -> None:
        self._spawner = spawner
        self._host = host
        self._address = address
        self._wanted: dict[str, Wish] = {}
        self._alive: dict[Key, Child] = {}
        self._exited: dict[Key, WorkerReport] = {}
        self._statuses: dict[int, int] = {}
        self._events: dict[str, EventLog] = {}
        self._zygote_dead = False

    def want(self, jobs: dict[str, Wish]) -> None:
        """The leader's whole wish: jobs with the incarnations that may run here, their views, and whether to stop."""
        self._wanted = jobs
        self._converge()

    def kill(self, job: str, worker: str, incarnation: int) -> None:
        """SIGKILL that incarnation, if it runs here; its exit is reported like any other."""
        child = self._alive.get((job, worker, incarnation))
        if child is not None:
            child.kill()

    def sources(self) -> list[int]:
        """The descriptors that are readable when `hear` has something to do."""
        fds = [child.channel.fileno() for child in self._alive.values()]
        return fds + [child.pidfd for child in self._alive.values() if child.pidfd >= 0]

    def hear(self) -> bool:
        """Take what workers and zygote have to say; whether more than progress has changed."""
        if self._zygote_dead:
            self._spawner.replace()
            self._zygote_dead = False
            self._converge()
        changed = self._hear_zygote()
        for child in list(self._alive.values()):
            changed |= child.hear()
            child.flush()
        exited = self._reap()
        if exited:
            self._converge()
        return changed or exited

    def rows(self) -> list[WorkerReport]:
        """All incarnations to report."""
        return [*self._exited.values(), *(child.report for child in self._alive.values())]

    def revisions(self) -> dict[str, int]:
        """The newest view that a worker of each job was sent."""
        result: dict[str, int] = {}
        for (job, _, _), child in self._alive.items():
            result[job] = max(result.get(job, 0), child.revision)
        return result

    def shed(self) -> None:
        """The report has become too large to send: drop the statistics of the dead, or else of the living."""
        for row in list(self._exited.values()) or [child.report for child in self._alive.values()]:
            row.stats = {}

    def close(self) -> None:
        """Kill all workers and wait for their end."""
        await_end([child.pidfd for child in self._alive.values() if child.pidfd >= 0], ORPHANS_WAIT_S)

    def _converge(self) -> None:
        for key, child in self._alive.items():
            if key[2] != self._wish(key):
                child.kill()
        for name, job in self._wanted.items():
            for worker, incarnation in job.workers.items():
                key = (name, worker, incarnation)
                child_or_none = self._alive.get(key)
                if child_or_none is not None:
                    child_or_none.show(job.view)
                    if job.stopping:
                        child_or_none.stop()
                elif key not in self._exited and not job.stopping and not self._lives(name, worker):
                    self._start(key, job)
        self._forget()

    def _wish(self, key: Key) -> int | None:
        """The incarnation of that worker that may run here."""
        job = self._wanted.get(key[0])
        return job.workers.get(key[1]) if job else None

    def _lives(self, job: str, worker: str) -> bool:
        """Whether an older incarnation has not ended yet; its end will bring us back here."""
        return any(key[:2] == (job, worker) for key in self._alive)

    def _start(self, key: Key, job: Wish) -> None:
        if self._zygote_dead:
            return
        name, worker, incarnation = key
        report = WorkerReport(name, worker, incarnation)
        log = Path(job.run_dir, "logs", f"{worker}.log")
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a"):
                pass
        except OSError as error:
            report.state, report.error = EXITED, f"its log cannot be written: {error}"
            report.remedy = "choose a run directory that the agent may write to"
            self._exited[key] = report
            return
        ours, theirs = channel.pair()
        spec = {"job": name, "worker": worker, "incarnation": incarnation, "host": self._host, "address": self._address}
        channel.send(ours, {"type": "spec", **spec, "topology": job.topology, "run_dir": job.run_dir})
        self._alive[key] = child = Child(report, ours, self._spawner.start(str(log), theirs))
        child.show(job.view)

    def _hear_zygote(self, wait_s: float = 0.0) -> bool:
        """Take the zygote's events; True when it is dead, or tells how a worker ended that was reported already."""
        events = self._spawner.events(wait_s)
        if events is None:
            self._bury_zygote()
            return True
        changed = False
        for event in events:
            match event:
                case Started(order, pid, pidfd):
                    child = next((c for c in self._alive.values() if c.order == order), None)
                    if child is None:
                        os.close(pidfd)
                    else:
                        child.started(pid, pidfd)
                case Exited(pid, status):
                    changed |= self._note_status(pid, status)
        return changed

    def _note_status(self, pid: int, status: int) -> bool:
        """Keep how a process ended until its pidfd tells; True when that was so long ago that it has been reported."""
        for report in self._exited.values():
            if report.pid == pid and report.status is None:
                report.status = status
                return True
        self._statuses[pid] = status
        return False

    def _bury_zygote(self) -> None:
        """The zygote is dead: so are its workers, and orders that it had not carried out never will be."""
        self._zygote_dead = True
        logger.warning("the zygote died; its %d workers died with it", len(self._alive))
        await_end([child.pidfd for child in self._alive.values() if child.pidfd >= 0], ORPHANS_WAIT_S)
        for key, child in list(self._alive.items()):
            if child.pidfd < 0:
                self._bury(key, child, None)

    def _reap(self) -> bool:
        """Note every worker whose pidfd says that it has ended."""
        poll = select.poll()
        by_pidfd = {child.pidfd: (key, child) for key, child in self._alive.items() if child.pidfd >= 0}
        for pidfd in by_pidfd:
            poll.register(pidfd, select.POLLIN)
        ended = [by_pidfd[pidfd] for pidfd, _ in poll.poll(0)] if by_pidfd else []
        for key, child in ended:
            if child.report.pid not in self._statuses and not self._zygote_dead:
                self._hear_zygote(STATUS_WAIT_S)
            self._bury(key, child, self._statuses.pop(child.report.pid, None))
        return bool(ended)

    def _bury(self, key: Key, child: Child, status: int | None) -> None:
        if self._alive.pop(key, None) is None:
            return
        child.hear()  # its last words
        child.exited(status)
        self._exited[key] = child.report
        self._log(key, child.report)

    def _log(self, key: Key, report: WorkerReport) -> None:
        job = self._wanted.get(key[0])
        if job is None:
            return
        fields = {
            "job": key[0],
            "worker": key[1],
            "incarnation": key[2],
            "status": report.status,
            "pid_was": report.pid,
        }
        try:
            if key[0] not in self._events:
                self._events[key[0]] = EventLog(Path(job.run_dir, "events.jsonl"))
            self._events[key[0]].write("exited", monotonic=report.exited_at, **fields)
        except OSError as error:
            logger.warning("the exit of %s is not logged: %s", report.worker, error)

    def _forget(self) -> None:
        """Drop the oldest rows of the dead, and those of jobs that nobody asks for any more."""
        now = time.monotonic()
        for job in {key[0] for key in self._exited}:
            rows = [key for key in self._exited if key[0] == job]
            if job not in self._wanted:
                drop = [key for key in rows if now - (self._exited[key].exited_at or 0.0) > EXITED_ROWS_S]
            else:
                drop = rows[:-EXITED_ROWS_MAX]
            for key in drop:
                del self._exited[key]
        for job in self._events.keys() - self._wanted.keys() - {key[0] for key in self._alive}:
            self._events.pop(job).close()
