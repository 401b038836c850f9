"""The time by which a silent copy is behind the one that is heard (after PPA V-B)."""

from __future__ import annotations

from collections import deque

WINDOWS_MAX = 4096
"""Windows that are noted; while a copy lags the oldest of them count."""


class Lag:
    """Of one copy of a task, by what receivers tell of windows that the other has closed."""

    def __init__(self) -> None:
        self._ahead: deque[tuple[int, float]] = deque()
        """Windows that the other has closed and this one has not, and since when that is known."""

    def hear(self, window: int, now: float) -> None:
        """The other copy has closed a window."""
        if len(self._ahead) < WINDOWS_MAX and (not self._ahead or window > self._ahead[-1][0]):
            self._ahead.append((window, now))

    def behind_s(self, closed: int, now: float) -> float:
        """Seconds since the other has closed the window after `closed`, this one's last; 0 where it has not."""
        while self._ahead and self._ahead[0][0] <= closed:
            self._ahead.popleft()
        return now - self._ahead[0][1] if self._ahead else 0.0
