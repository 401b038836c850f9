"""Finds the call of an operator that a worker's compute thread is in, from another thread and at no cost to it."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import FrameType

from riprap.codec.users_code import is_below_engine, is_installed

SLOW_CALL_S = 2.0
"""A call that lasts this long is worth a word."""
GROWTH = 10
"""The same call is told of again when it lasts this many times as long as when it was last told of."""

_HELPERS = "prepare"  # how the names of the threads begin that call an operator beside the compute thread


@dataclass(frozen=True)
class OpenCall:
    """A call that has not returned: the function that the engine called, the line it is at, and since when (s)."""

    name: str
    line: str
    seconds: float

    def fields(self) -> dict[str, str | int]:
        """As a heartbeat tells it."""
        return {"call": self.name, "call_line": self.line, "call_ms": int(self.seconds * 1000)}


class Told:
    """True when there is something new to say of a long call, so that each is told of once."""

    def __init__(self) -> None:
        self._next_s: dict[str, float] = {}

    def is_news(self, name: str, seconds: float) -> bool:
        """True once for a call by this name, and again when one lasts GROWTH times as long."""
        if seconds < self._next_s.get(name, SLOW_CALL_S):
            return False
        self._next_s[name] = seconds * GROWTH
        return True


class CallWatch:
    """Used by the control thread. `look` is told how many turns the compute thread has done, and samples its stack.

    A call is known by its frame, so many short calls in one long turn are not taken for a long one. The time counts
    from the first look at it.
    """

    def __init__(self, compute: int) -> None:
        self._compute = compute
        self._turns = -1
        self._frame: FrameType | None = None
        self._since = 0.0
        self.told = Told()

    def look(self, turns: int, now: float) -> OpenCall | None:
        """The call that has lasted for SLOW_CALL_S or longer."""
        calls = _stack(self._compute) if turns == self._turns else []
        frame = calls[-1] if calls else None
        if frame is not self._frame:
            self._frame, self._since = frame, now
        self._turns = turns
        if frame is None or now - self._since < SLOW_CALL_S:
            return None
        return OpenCall(frame.f_code.co_name, _own_line(calls), now - self._since)


def _stack(compute: int) -> list[FrameType]:
    """The frames below the engine, innermost first: of the compute thread, or else of a helper that it waits for."""
    frames = sys._current_frames()
    if calls := _below_engine(frames[compute]):
        return calls
    helpers = (thread.ident for thread in threading.enumerate() if thread.name.startswith(_HELPERS))
    return next((calls for helper in helpers if helper in frames and (calls := _below_engine(frames[helper]))), [])


def _below_engine(frame: FrameType | None) -> list[FrameType]:
    calls = []
    while frame is not None:
        if is_below_engine(frame.f_code.co_filename):
            calls.append(frame)
        frame = frame.f_back
    return calls


def _own_line(calls: list[FrameType]) -> str:
    """The innermost line that is of no installed package, as operators are; or else the line of the call."""
    own = (frame for frame in calls if not is_installed(frame.f_code.co_filename))
    frame = next(own, calls[-1])
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
