"""All workers of one agent: starts and kills them as the leader wants, and learns how each ends."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from riprap.codec.events import EventLog
from riprap.codec.files import bound_log
from riprap.codec.ids import fence_of, name_of, records_of
from riprap.codec.trust.keys import WorkerKeys, own_authority
from riprap.codec.trust.paths import check_folder, is_under, open_to_append
from riprap.codec.trust.rotation import keyring
from riprap.controller import channel
from riprap.controller.child import Child
from riprap.controller.effects import Effects
from riprap.controller.endings import crash_place, ended_itself
from riprap.controller.messages import Message
from riprap.controller.reports import EXITED, WorkerReport
from riprap.controller.spawner import Exited, Spawner, Started, await_end
from riprap.controller.starts import Starts
from riprap.controller.wish import Wish

logger = logging.getLogger(__name__)

Key = tuple[str, str, int]  # job, worker, incarnation

PAST_ROWS_MAX = 32  # of one job: exits of incarnations that the leader has replaced already
LOG_BYTES_MAX, LOGS_EVERY_S = 1 << 26, 10.0  # of a worker's log, and how often it is looked at
PAST_ROWS_S = 60.0  # how long they are reported after the leader has dropped their job
TASKS_PER_SPARE = 4  # some of a host's tasks die at once, and then wait for no fork
SPARES_MAX = 16
STATUS_WAIT_S = 0.005  # the zygote tells the exit status within a millisecond of the pidfd, unless the host is busy
ORPHANS_WAIT_S = 1.0  # the kernel kills a dead zygote's workers at once


def die_at_once() -> None:
    """End this process as if its host had lost power; its workers end with it."""
    os.kill(os.getpid(), signal.SIGKILL)


class Children:
    """Owned by the agent's thread; the leader's last wish is kept, so that each exit can bring the next start."""

    def __init__(
        self, spawner: Spawner, host: str, address: str, root: str = "/", die: Callable[[], None] = die_at_once
    ) -> None:
        self.die = die
        """Ends the agent; for faults that hit a whole host."""
        self._spawner = spawner
        self._root = root
        self._servers = keyring().servers
        self._host = host
        self._address = address
        self._wanted: dict[str, Wish] = {}
        self._alive: dict[Key, Child] = {}
        self._exited: dict[Key, WorkerReport] = {}
        self._starts = Starts()
        self._spares = spawner.spares
        self._epoll = select.epoll()
        self._by_channel: dict[int, Key] = {}
        self._by_pidfd: dict[int, Key] = {}
        self._statuses: dict[int, int] = {}
        self._events: dict[str, EventLog] = {}
        self._zygote_dead = False
        self._logs_at = 0.0  # not before
        self._effects = Effects()
        self._injected: set[tuple[str, str, int, int]] = set()  # job, worker, number and incarnation of those that were

    def want(self, jobs: dict[str, Wish]) -> bool:
        """Take the leader's whole wish: jobs with the incarnations that may run here, views, and an order to stop.

        True when it is more than other views.
        """
        before, self._wanted = self._wanted, jobs
        self._starts.ask_for({name: job.submission for name, job in jobs.items()})
        self._injected = {done for done in self._injected if done[0] in jobs}
        self._converge()
        self._spawner.keep_spares(self._spares_needed())
        return [wish.orders for wish in before.values()] != [wish.orders for wish in jobs.values()]

    def kill(self, job: str, worker: str, incarnation: int) -> None:
        """SIGKILL that incarnation, if it runs here; its exit is reported like any other."""
        child = self._alive.get((job, worker, incarnation))
        if child is not None:
            child.kill()

    def learn_keys(self) -> None:
        """Tell all workers, and those to come, the keys that the backup servers may have now; ConfigError."""
        self._servers = keyring().servers
        for child in self._alive.values():
            child.tell_keys(list(self._servers))

    def fileno(self) -> int:
        """Readable when a worker has something to say, or has ended."""
        return self._epoll.fileno()

    def hear(self) -> bool:
        """Take the messages of workers and zygote; True when more than progress has changed."""
        if self._zygote_dead:
            self._spawner.replace()
            self._zygote_dead = False
            self._converge()
        changed = self._hear_zygote()
        ready = [fd for fd, _ in self._epoll.poll(0)]
        for fd in ready:
            if fd in self._by_channel:
                changed |= self._hear(self._alive[self._by_channel[fd]])
        for child in self._alive.values():
            child.flush()
        self._bound_logs()
        exited = self._reap([self._by_pidfd[fd] for fd in ready if fd in self._by_pidfd])
        if exited:
            self._converge()
        return changed or exited

    def _hear(self, child: Child) -> bool:
        """Take a worker's messages; True when the leader waits for what they say.

        A checkpoint waits for the last of its parts, so the others may be reported with that.
        """
        before = child.report.checkpoint
        changed, job, checkpoint = child.hear(), child.report.job, child.report.checkpoint
        if checkpoint == before:
            return changed
        siblings = (one.report for one in self._alive.values() if one.report.job == job)
        return changed or all(row.checkpoint >= checkpoint for row in siblings)

    def _bound_logs(self) -> None:
        """Keep the logs of long runs from filling the disk, whatever the user's code prints."""
        now = time.monotonic()
        if now < self._logs_at:
            return
        self._logs_at = now + LOGS_EVERY_S
        for name, worker, _ in self._alive:
            if name in self._wanted:
                with contextlib.suppress(OSError):
                    bound_log(_log_of(self._wanted[name], worker), LOG_BYTES_MAX)

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
        self._epoll.close()

    def _converge(self) -> None:
        for key, child in self._alive.items():
            if key[2] != self._wish(key):
                child.kill()
        hits_agent = False
        for name, job in self._wanted.items():
            for worker, incarnation in job.workers.items():
                key = (name, worker, incarnation)
                child_or_none = self._alive.get(key)
                if child_or_none is not None:
                    child_or_none.show(self._shown(job.view))
                    hits_agent |= self._inject(name, job, child_or_none)
                    if job.stopping:
                        child_or_none.stop()
                elif not job.stopping and not self._lives(name, worker) and self._starts.may(*key):
                    self._start(key, job)
        self._forget()
        if hits_agent:
            self.die()

    def _inject(self, name: str, job: Wish, child: Child) -> bool:
        """Carry out the faults that are ordered for a worker, each once; True when one is for the agent as well."""
        hits_agent = False
        for order in job.faults:
            mine = (order.fault.target, order.incarnation) == (child.report.worker, child.report.incarnation)
            victim = child.victim()
            key = (name, order.fault.target, order.number, order.incarnation)
            if mine and victim is not None and key not in self._injected:
                self._injected.add(key)
                self._effects.inject(order.fault, victim)
                hits_agent |= order.with_agent
        return hits_agent

    def _wish(self, key: Key) -> int | None:
        """The incarnation of that worker that may run here."""
        job = self._wanted.get(key[0])
        return job.workers.get(key[1]) if job else None

    def _lives(self, job: str, worker: str) -> bool:
        """True when an older incarnation has not ended yet; its end will bring us back here."""
        return any(key[:2] == (job, worker) for key in self._alive)

    def _spares_needed(self) -> int:
        """A share of the tasks that this agent hosts, and never fewer than it began with."""
        tasks = sum(len(job.workers) for job in self._wanted.values())
        return max(self._spares, min(SPARES_MAX, tasks // TASKS_PER_SPARE))

    def _start(self, key: Key, job: Wish) -> None:
        if self._zygote_dead:
            return
        name, worker, incarnation = key
        self._starts.note(*key)
        self._exited.pop(key, None)  # of another submission
        fence = fence_of(job.topology.get("attempt", 1), incarnation)
        records = records_of(name, str(job.topology.get("run") or ""))
        keys = WorkerKeys(own_authority().life(name_of(records, worker), fence), self._servers)
        report = WorkerReport(name, worker, incarnation, public_key=keys.own.public.decode())
        log = _log_of(job, worker)
        try:
            self._check_place(job.run_dir)
            log.parent.mkdir(parents=True, exist_ok=True)
            check_folder(Path(job.run_dir))  # it may have been made meanwhile, and not by us
            check_folder(log.parent)
            os.close(open_to_append(log))
        except OSError as error:
            report.state, report.error = EXITED, f"its log cannot be written: {error}"
            report.remedy = "choose a run directory of the agent's user, that the agent may write to"
            self._exited[key] = report
            return
        ours, theirs = channel.pair()
        spec = {"job": name, "worker": worker, "incarnation": incarnation, "host": self._host, "address": self._address}
        about = {"topology": job.topology, "run_dir": job.run_dir, "keys": keys.texts()}
        about["checkpoint"] = job.view.get("checkpoint", (0, 0))[1]  # what it is restored from
        channel.send(ours, {"type": "spec", **spec, **about})
        self._alive[key] = child = Child(report, ours, self._spawner.start(str(log), theirs))
        self._watch(self._by_channel, ours.fileno(), key)
        child.show(self._shown(job.view))

    def _shown(self, view: Message) -> Message:
        """A view, except that a savepoint is an ordinary checkpoint where no job may write here."""
        savepoint = view.get("savepoint", "")
        outside = savepoint and not is_under(savepoint, self._root)
        return {name: value for name, value in view.items() if name != "savepoint"} if outside else view

    def _check_place(self, run_dir: str) -> None:
        """OSError unless a job may write there."""
        if not is_under(run_dir, self._root):
            raise OSError(errno.EPERM, f"this agent's jobs write under {self._root}", run_dir)
        check_folder(Path(run_dir))

    def _watch(self, keys: dict[int, Key], fd: int, key: Key) -> None:
        keys[fd] = key
        self._epoll.register(fd, select.EPOLLIN)

    def _unwatch(self, keys: dict[int, Key], fd: int) -> None:
        if keys.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _hear_zygote(self, wait_s: float = 0.0) -> bool:
        """Take the zygote's events; True when it is dead, or tells the end of a worker that was reported already."""
        events = self._spawner.events(wait_s)
        if events is None:
            self._bury_zygote()
            return True
        changed = False
        for event in events:
            match event:
                case Started(order, pid, pidfd):
                    key = next((key for key, child in self._alive.items() if child.order == order), None)
                    if key is None:
                        os.close(pidfd)
                    else:
                        self._alive[key].started(pid, pidfd)
                        self._watch(self._by_pidfd, pidfd, key)
                case Exited(pid, status):
                    changed |= self._note_status(pid, status)
        return changed

    def _note_status(self, pid: int, status: int) -> bool:
        """Keep how a process ended until its pidfd tells; True when that was so long ago that it has been reported."""
        for report in self._exited.values():
            if report.pid == pid and report.status is None:
                report.status = status
                self._find_crash(report)
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

    def _reap(self, ended: list[Key]) -> bool:
        """Note the workers whose pidfd says that they have ended."""
        for key in ended:
            child = self._alive[key]
            if child.report.pid not in self._statuses and not self._zygote_dead:
                self._hear_zygote(STATUS_WAIT_S)
            self._bury(key, child, self._statuses.pop(child.report.pid, None))
        return bool(ended)

    def _bury(self, key: Key, child: Child, status: int | None) -> None:
        if self._alive.pop(key, None) is None:
            return
        child.hear()  # its last words
        self._unwatch(self._by_channel, child.channel.fileno())
        self._unwatch(self._by_pidfd, child.pidfd)
        child.exited(status)
        self._find_crash(child.report)
        self._exited[key] = child.report
        self._log(key, child.report)

    def _find_crash(self, report: WorkerReport) -> None:
        """Note where a process stood when a signal of its own making ended it, for those who cannot read its log."""
        job = self._wanted.get(report.job)
        if job is not None and ended_itself(report.status):
            report.crashed_at = crash_place(_log_of(job, report.worker)) if (report.status or 0) < 0 else ""

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
        """Drop old rows of the dead; never that of an incarnation still wished for, whose end the leader may not know.

        A job that nobody asks for any more keeps its rows for a while.
        """
        now = time.monotonic()
        for job in {key[0] for key in self._exited}:
            rows = [key for key in self._exited if key[0] == job]
            if job not in self._wanted:
                drop = [key for key in rows if now - (self._exited[key].exited_at or 0.0) > PAST_ROWS_S]
            else:
                drop = [key for key in rows if key[2] != self._wish(key)][:-PAST_ROWS_MAX]
            for key in drop:
                del self._exited[key]
        for job in self._events.keys() - self._wanted.keys() - {key[0] for key in self._alive}:
            self._events.pop(job).close()


def _log_of(job: Wish, worker: str) -> Path:
    return Path(job.run_dir, "logs", f"{worker}.log")
