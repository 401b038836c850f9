"""The workers of a job as they are told of each other: their state, incarnation, and address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.horizon import Horizon

STARTING = "starting"
UP = "up"
DOWN = "down"
OFF = "off"
UNHEARD = "unheard"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker as its peers may see it.

    `state` is starting (assigned, not ready), up (at `ipc` on its host and, unless empty, at `tcp`), down (fenced;
    messages of this and of older incarnations are refused), off (down, and a replica that is not to run now) or unheard
    (a former leader assigned it, and its agent has not reported to this one: it may be up, so peers are told nothing of
    it). `key` is its public key, by which its peers know it.
    """

    incarnation: Incarnation
    state: str
    host: str = ""
    ipc: str = ""
    tcp: str = ""
    key: str = ""
    writes: bool = False
    """Of a destination's copies, the one that writes its output."""


@dataclass(frozen=True)
class View:
    """All workers of a job at one moment. Of two views of a job, the one with the larger revision is newer."""

    revision: int
    phase: str
    workers: Mapping[WorkerId, WorkerView] = field(default_factory=lambda: MappingProxyType({}))
    horizon: Horizon | None = None
    """Limit of the sources, as far as it is durable; None where the stream has an end of its own."""
    round: int = 0
    """Times that all workers were rolled back, as far as that is durable."""
    checkpoint: tuple[int, int] | None = None
    """The checkpoint under way (0: none), and the newest that is durably decided; None where the scheme makes none."""
    savepoint: str = ""
    """The directory of the checkpoint under way, where it is a savepoint."""
    unsettled: frozenset[WorkerId] = frozenset()
    """Those that went back alone since the last whole checkpoint. Plans see it, peers do not."""

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        """The workers as the wire carries them, by name; without those that are unheard."""
        return {
            str(worker): {
                "incarnation": w.incarnation,
                "state": w.state,
                "host": w.host,
                "ipc": w.ipc,
                "tcp": w.tcp,
                "key": w.key,
                **({"writes": True} if w.writes else {}),
            }
            for worker, w in self.workers.items()
            if w.state != UNHEARD
        }

    def of(self, names: Collection[str] | None) -> dict[str, Any]:
        """The part of the view that tells of these workers; of all for None."""
        known = self.entries
        workers = known if names is None else {name: known[name] for name in names if name in known}
        view = {"revision": self.revision, "phase": str(self.phase), "workers": workers}
        horizon = {} if self.horizon is None else {"horizon": [self.horizon.windows, self.horizon.final]}
        checkpoint = {} if self.checkpoint is None else {"checkpoint": list(self.checkpoint)}
        savepoint = {"savepoint": self.savepoint} if self.savepoint else {}
        return view | horizon | checkpoint | savepoint | ({"round": self.round} if self.round else {})
