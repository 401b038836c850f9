"""The failure detector: observations with their times in, suspicions with a reason out; it owns no clock.

Three sources: the agent's exit report (at once), the end of the agent's ZooKeeper session (its host is gone), and a
beat that stands still (stopped, hung in compiled code that holds Python's lock, or unreachable with its agent). What
the worker's compute thread does is no evidence: one that computes for long lives.
"""

from __future__ import annotations

from dataclasses import dataclass

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.phases import FailureReason


@dataclass(slots=True)
class _Watched:
    incarnation: Incarnation
    agent: str
    beat: int | None = None  # None until the worker is up: before, its start-up deadline watches it
    beat_at: float = 0.0
    reason: FailureReason | None = None


class Detector:
    """Watches the current incarnation of each worker of a job.

    A suspicion, once raised, stays until the next incarnation is watched; what is heard of other incarnations is
    ignored.
    """

    def __init__(self, heartbeat_timeout_s: float) -> None:
        self.heartbeat_timeout_s = heartbeat_timeout_s
        self._watched: dict[WorkerId, _Watched] = {}

    def watch(self, worker: WorkerId, incarnation: Incarnation, agent: str) -> None:
        """Watch this incarnation, held by that instance of an agent; no effect when it is watched already."""
        known = self._watched.get(worker)
        if known is None or known.incarnation < incarnation:
            self._watched[worker] = _Watched(incarnation, agent)

    def beat(self, worker: WorkerId, incarnation: Incarnation, beat: int, now: float) -> None:
        """The worker is up and has beaten `beat` times; only an advance proves that it lives."""
        watched = self._current(worker, incarnation)
        if watched is not None and (watched.beat is None or beat > watched.beat):
            watched.beat, watched.beat_at = beat, now

    def exited(self, worker: WorkerId, incarnation: Incarnation, status: int | None) -> None:
        """The agent saw the process end; `status` is an exit code, minus a signal, or None while unknown."""
        killed = status is not None and status < 0
        self._suspect(worker, incarnation, FailureReason.KILLED if killed else FailureReason.EXITED)

    def not_started(self, worker: WorkerId, incarnation: Incarnation) -> None:
        """The agent could not start the process."""
        self._suspect(worker, incarnation, FailureReason.NOT_STARTED)

    def agent_gone(self, agent: str) -> None:
        """The session of that instance of an agent ended: every worker that it held is lost."""
        for worker, watched in self._watched.items():
            if watched.agent == agent:
                self._suspect(worker, watched.incarnation, FailureReason.HOST_GONE)

    def observer_slept(self, seconds: float) -> None:
        """The observer itself did not run for so long; silence in that time is no evidence."""
        for watched in self._watched.values():
            watched.beat_at += seconds

    def suspicions(self, now: float) -> dict[WorkerId, FailureReason]:
        """All workers suspected at `now`, in the order in which they were first watched."""
        for watched in self._watched.values():
            silent = watched.beat is not None and now - watched.beat_at > self.heartbeat_timeout_s
            if silent and watched.reason is None:
                watched.reason = FailureReason.HEARTBEAT
        return {worker: w.reason for worker, w in self._watched.items() if w.reason is not None}

    def _current(self, worker: WorkerId, incarnation: Incarnation) -> _Watched | None:
        watched = self._watched.get(worker)
        return watched if watched is not None and watched.incarnation == incarnation else None

    def _suspect(self, worker: WorkerId, incarnation: Incarnation, reason: FailureReason) -> None:
        watched = self._current(worker, incarnation)
        if watched is not None and watched.reason is None:
            watched.reason = reason
