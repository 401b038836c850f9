"""Kills processes, or has them stand still for a while, around a moment of a schedule."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

STOP_MS = ((200, 1_500), (2_500, 5_000))
"""Briefly, and longer than a worker, a host or a leader may be silent."""
AROUND_S = (-0.3, 0.6)
"""From an act to the hits around it."""


class Hit(NamedTuple):
    """So many seconds behind a moment (negative: before it) these are stopped for a while, or (0) killed."""

    seconds: float
    targets: tuple[str, ...]
    stopped_ms: int = 0

    def __str__(self) -> str:
        how = f"stop {self.stopped_ms} ms" if self.stopped_ms else "kill"
        return f"{how} {'+'.join(self.targets)} at {self.seconds:+.2f} s"


class Hitting:
    """The processes that stand still, each until its time."""

    def __init__(self) -> None:
        self.hits = 0
        self._stopped: list[tuple[float, int]] = []

    def hit(self, hit: Hit, pids: Iterable[int]) -> None:
        """Do to these processes what the hit says."""
        for pid in pids:
            self.hits += 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if hit.stopped_ms else signal.SIGKILL)
            if hit.stopped_ms:
                self._stopped.append((time.monotonic() + hit.stopped_ms / 1000, pid))

    def go_on(self, everybody: bool = False) -> None:
        """Continue those whose time has come; called often."""
        for at, pid in list(self._stopped):
            if everybody or time.monotonic() >= at:
                self._stopped.remove((at, pid))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
