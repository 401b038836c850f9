"""When a task's next backup is made: backups take a share of the CPU time that the task uses, unless somebody waits."""

from __future__ import annotations

import math
from typing import Protocol

RECORD_S, BYTE_S = 1.2e-3, 1.5e-9
"""A record's cost beside making it: CPU seconds of threads and servers for one that comes alone, and for a byte."""
PAUSE_S = 0.25
IDLE = 4
"""A task that uses little of its CPU earns slowly: it waits no longer than so many pauses, each of that at least."""

SHORTEST_S = 1e-3
"""No look at the clocks is worth more than one each so many seconds."""


class Clock(Protocol):
    """The part of a scheme's port that tells the time (engine/flow/port.py)."""

    def now(self) -> float:
        """Monotonic seconds."""

    def cpu(self) -> float:
        """CPU seconds of this worker."""


class Pacing:
    """The next backup is due once the task has used `cost of the last one / cpu_share` seconds of CPU, but not before
    `least_s`. So what a new incarnation has to compute again takes about as long, however long ago the backup was.

    A pause breaks no bound: what no durable state includes is not acknowledged, so its sender keeps it. Whoever is held
    up by that presses, and the next backup is due at once. A cheap one does not make up for a dear one before it.
    """

    def __init__(self, clock: Clock, cpu_share: float, least_s: float = 0.0) -> None:
        self._clock, self._share, self._least_s = clock, cpu_share, least_s
        self._earned_at = self._latest = self._look_at = 0.0
        self._pressed = False

    def made(self, began: float, size: int) -> None:
        """A backup of so many bytes was made from that moment until now."""
        now = self._clock.now()
        pause_s = (now - began + RECORD_S + size * BYTE_S) / self._share
        self._earned_at = max(self._earned_at, self._clock.cpu() + pause_s)
        self._latest = max(self._latest, now + max(self._least_s, IDLE * max(PAUSE_S, pause_s)))
        self._look_at, self._pressed = now + self._least_s, False

    def press(self) -> None:
        """Somebody waits."""
        self._look_at, self._pressed = 0.0, True

    def put_off(self, seconds: float) -> None:
        """It is due, but had better be made later."""
        self._look_at = self._clock.now() + seconds

    @property
    def is_due(self) -> bool:
        """True when the next backup may be made.

        The clock of the CPU costs a system call: it is not looked at before one thread can have used what is lacking.
        """
        now = self._clock.now()
        if now < self._look_at:
            return False
        if self._pressed or now >= self._latest:
            return True
        lacking_s = self._earned_at - self._clock.cpu()
        self._look_at = now + max(min(lacking_s, self._latest - now), SHORTEST_S)
        return lacking_s <= 0

    @property
    def wait_s(self) -> float:
        """After so many seconds it is worth to ask again."""
        return max(self._look_at - self._clock.now(), SHORTEST_S)

    @property
    def late_s(self) -> float:
        """For how long it has been put off, at most; without end while somebody waits."""
        return math.inf if self._pressed else self._clock.now() - self._latest
