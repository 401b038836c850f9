"""The speed of a source: a rate that the user set, for inputs that would else stream as fast as they are read."""

from __future__ import annotations

import math


class InputRate:
    """Of one source task: `items_per_s` on average from its first item on, infinite for no limit.

    After a stall it catches up with at most `burst_items`: what came to a standstill must not be flooded.
    """

    def __init__(self, items_per_s: float = math.inf, burst_items: int = 0) -> None:
        self.items_per_s, self.burst_items = items_per_s, burst_items
        self._began_at: float | None = None
        """When item 0 would have been read at this rate."""

    def wait_s(self, position: int, now: float) -> float:
        """Seconds until the item at this position may be read; 0 when it may be now."""
        if self.items_per_s == math.inf:
            return 0.0
        needed_s = position / self.items_per_s
        if self._began_at is None:
            self._began_at = now - needed_s
        self._began_at = max(self._began_at, now - needed_s - self.burst_items / self.items_per_s)
        return max(0.0, self._began_at + needed_s - now)


UNLIMITED = InputRate()


def rate_of(rate: float | None, tasks: int, micro_batch: int) -> InputRate:
    """The part of an input's rate (items/s of all its tasks) that one task has; it may be one epoch behind."""
    return InputRate(rate / tasks, micro_batch) if rate else UNLIMITED
