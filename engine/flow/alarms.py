"""One alarm of a port for each of several who want one."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from riprap.engine.flow.port import Port

SLACK_S = 1e-6
"""Of a clock's arithmetic: an alarm that comes so much early is not set once more."""


class Alarms:
    """Keeps the port's one alarm at the earliest of all."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._at: dict[Hashable, float] = {}
        self._armed_at = math.inf
        """When the port's alarm goes off: not after the earliest of all, perhaps before, when that was put off."""

    def set(self, owner: Hashable, seconds: float) -> None:
        """Wake this owner so much later; it takes the place of the one before."""
        self._at[owner] = at = self._port.now() + seconds
        if at < self._armed_at:
            self._armed_at = at
            self._port.alarm(seconds)

    def due(self) -> list[Hashable]:
        """Owners that are due; each is told once."""
        soon = self._port.now() + SLACK_S
        found = [owner for owner, at in self._at.items() if at <= soon]
        for owner in found:
            del self._at[owner]
        self._armed_at = min(self._at.values(), default=math.inf)
        if self._at:
            self._port.alarm(max(0.0, self._armed_at - self._port.now()))
        return found


class AlarmedPort:
    """The port with an alarm of the owner's own; the rest is the port's."""

    def __init__(self, port: Port, alarms: Alarms, owner: Hashable) -> None:
        self._port, self._alarms, self.owner = port, alarms, owner

    def alarm(self, seconds: float) -> None:
        """Wake the owner."""
        self._alarms.set(self.owner, seconds)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if callable(found):
            setattr(self, name, found)  # asked for with every message
        return found
