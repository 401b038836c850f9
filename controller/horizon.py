"""The limit of the sources of a stream without end: granted a stretch at a time, and the last stretch by a drain.

A source closes window e only once `windows` > e is granted, or once the horizon is final and e <= `windows`. Grants are
durable before anybody hears of them, and never shrink. So a drain is one durable decision, "the stream ends with the
window granted last", and holds whoever dies before or after it: no source can have gone beyond that window, and none
can have closed it as an ordinary one.

A job that goes on from a checkpoint or a savepoint has grants of its own: its sources begin behind them. So a drain is
asked for first, durably too, and decided once all sources have said where they are.

An attempt that was drained and died may have saved its end: whoever has heard of the last window says so when it is
restored, and the stream ends there again. So the first stretch of a further attempt is granted, and its drain decided,
only once all workers have been heard.
"""

from __future__ import annotations

from typing import NamedTuple

AHEAD_MIN, AHEAD_MAX = 4, 1 << 20
SHORT_S, LONG_S = 1.0, 4.0
"""A stretch is doubled when it lasted less than the first, and halved when more than the second: each grant is a
write to ZooKeeper, and a drain waits for the end of the stretch."""


class Horizon(NamedTuple):
    """The windows that may be read, and whether the stream ends with the last of them."""

    windows: int
    final: bool = False
    drained: bool = False
    """It is to become final as soon as all sources have been heard."""


FIRST = Horizon(AHEAD_MIN)


class Granting:
    """The next stretches of one job. `now` is monotonic; in a new leadership stretches begin small again."""

    def __init__(self, now: float) -> None:
        self.ahead = AHEAD_MIN
        self._granted_at = now

    def after(self, horizon: Horizon, reached: int, now: float) -> Horizon:
        """The horizon once the foremost source has closed `reached` windows: further when half a stretch is left."""
        if horizon.final or horizon.windows - reached > self.ahead // 2:
            return horizon
        lasted = now - self._granted_at
        if lasted < SHORT_S:
            self.ahead = min(2 * self.ahead, AHEAD_MAX)
        elif lasted > LONG_S:
            self.ahead = max(self.ahead // 2, AHEAD_MIN)
        self._granted_at = now
        return horizon._replace(windows=max(horizon.windows, reached + self.ahead))
