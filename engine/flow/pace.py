"""Consistency models of feedback loops (AF 5): how far a task may run ahead of what comes back to it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from riprap.engine.flow.progress import LinkKey

ASP = math.inf
"""Asynchronous parallel: never wait. BSP, bulk synchronous, is a staleness of 0; SSP(s) one of s."""


class Pace:
    """When a task may begin a window: once the feedback of window e - 1 - staleness has come on every feedback link.

    `staleness` maps the feedback links that end at the task to theirs.
    """

    def __init__(self, staleness: Mapping[LinkKey, float]) -> None:
        self.staleness = staleness

    def allows(self, epoch: int, feedback: Mapping[LinkKey, int]) -> bool:
        """True when items of window `epoch` may be processed; `feedback` holds the newest window of each link."""
        for link, stale in self.staleness.items():  # noqa: SIM110  asked of each block, where a generator would tell
            if feedback.get(link, 0) < epoch - 1 - stale:
                return False
        return True
