"""The incarnations that an agent has started, so that none is started twice, whatever was lost of its reports."""

from __future__ import annotations

from collections.abc import Mapping

JOBS_MAX = 1000  # remembered; each costs an entry a worker


class Starts:
    """The highest incarnation of each worker that was ever started here.

    It outlives the rows that are reported, and leaders. Incarnations of another submission of a job count anew.
    """

    def __init__(self) -> None:
        self._highest: dict[str, dict[str, int]] = {}
        self._submissions: dict[str, str] = {}

    def ask_for(self, submissions: Mapping[str, str]) -> None:
        """The submission of each job that is asked for now; too many others are forgotten, the oldest first."""
        for job, submission in submissions.items():
            known = self._highest.pop(job, {})
            self._highest[job] = known if self._submissions.get(job) == submission else {}
            self._submissions[job] = submission
        for job in [*self._highest][: max(0, len(self._highest) - max(JOBS_MAX, len(submissions)))]:
            del self._highest[job], self._submissions[job]

    def may(self, job: str, worker: str, incarnation: int) -> bool:
        """True when neither that incarnation nor a later one has been started. The job must be asked for."""
        return incarnation > self._highest[job].get(worker, 0)

    def note(self, job: str, worker: str, incarnation: int) -> None:
        """Note that it is being started. Invariant: noted incarnations of a worker grow."""
        assert self.may(job, worker, incarnation), f"{worker} #{incarnation} of {job} was started before"
        self._highest[job][worker] = incarnation
