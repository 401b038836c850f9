"""What every worker is told about all workers of its job: who is up, in which incarnation, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from codec.ids import Incarnation, WorkerId

STARTING = "starting"
UP = "up"
DOWN = "down"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker as its peers may see it.

    `state` is starting (assigned, not ready), up (at `ipc` on its host and, unless empty, at `tcp`) or down (fenced;
    messages of this and of older incarnations are refused).
    """

    incarnation: Incarnation
    state: str
    host: str = ""
    ipc: str = ""
    tcp: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """All workers of a job at one moment. Of two views of a job, the one with the larger revision is newer."""

    revision: int
    phase: str
    workers: Mapping[WorkerId, WorkerView] = field(default_factory=lambda: MappingProxyType({}))

    def message(self) -> dict[str, Any]:
        """The view as the control message that workers get."""
        workers = {
            str(worker): {"incarnation": w.incarnation, "state": w.state, "host": w.host, "ipc": w.ipc, "tcp": w.tcp}
            for worker, w in self.workers.items()
        }
        return {"type": "view", "revision": self.revision, "phase": self.phase, "workers": workers}
