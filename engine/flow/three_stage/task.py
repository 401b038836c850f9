"""The shape that all tasks share: messages and events in, work done, sends out through the port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.scheme import SavedPart
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme

OF_ITEMS = frozenset((Kind.DATA, Kind.PARITY))


class Runs(Protocol):
    """What a worker runs: a task of the three-stage form (below), or of a general topology (engine/flow/task.py).

    All methods are called by the compute thread that owns the task, one at a time, and wait for no other process.
    """

    items: int
    lost: int

    @property
    def epoch(self) -> Epoch: ...
    @property
    def saves(self) -> bool: ...
    @property
    def recovery(self) -> Mapping[str, Any]: ...
    @property
    def done(self) -> bool: ...
    def start(self) -> None: ...
    def grant(self, windows: int, final: bool) -> None: ...
    def checkpoint(self, triggered: int, completed: int, savepoint: str = "") -> None: ...
    @property
    def part(self) -> SavedPart: ...
    def restore(self, state: Block | None, items: Sequence[Block]) -> None: ...
    def model(self) -> Mapping[str, np.ndarray]: ...
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def combines(self) -> Mapping[str, str]: ...
    def admits(self, block: Block) -> bool: ...
    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None: ...
    def on_worker_failed(self, worker: WorkerId) -> None: ...
    def on_worker_restored(self, worker: WorkerId) -> None: ...
    def on_alarm(self) -> None: ...
    def on_durable(self, number: int) -> None: ...
    def work(self) -> bool: ...
    def close(self) -> None: ...


class Task:
    """One task of a stage. All methods are called by the worker's compute thread, one at a time, and never wait."""

    def __init__(self, layout: Layout, scheme: Scheme, port: Port) -> None:
        self.layout, self.scheme, self.port = layout, scheme, port
        self.epoch: Epoch = Epoch(0)
        self.items = 0
        self.lost = 0
        self.finished = False
        self.columns: int | None = None
        """Columns of an item, which are float64; None where that is not known, and so not checked."""

    def grant(self, windows: int, final: bool) -> None:
        """Sources of a stream without end may read so many epochs; final: the last of them ends it."""

    def checkpoint(self, triggered: int, completed: int, savepoint: str = "") -> None:
        """The checkpoint under way, and the newest that is whole; no scheme of this form makes any."""

    @property
    def part(self) -> SavedPart:
        """Its part of the newest checkpoint for which that is safe."""
        return SavedPart()

    @property
    def saves(self) -> bool:
        """True when a later life restores what this one saves."""
        return False

    @property
    def recovery(self) -> Mapping[str, Any]:
        """What this life may lack of what the one before it had: nothing that is not counted in `lost`."""
        return {}

    @property
    def done(self) -> bool:
        """At a sink: whether all of the stream is committed, and that is safe."""
        return False

    def start(self) -> None:
        """All workers are up, or were once."""

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        """Go on from what a former life saved: its newest state, and the items behind it."""

    def model(self) -> dict[str, np.ndarray]:
        """At a sink: what was computed, by name, always in the same order."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """At a sink: how well the job does."""
        return {}

    @property
    def combines(self) -> Mapping[str, str]:
        """Combination of its metrics into the job's where several tasks report them (operators/base.py)."""
        return {}

    def admits(self, block: Block) -> bool:
        """True when a peer of ours can have sent this, as far as is known here; asked before its link takes it.

        Changes nothing. An honest message is admitted every time that it comes.
        """
        items = block.attachment if block.kind == Kind.RESULT else block.arrays[0] if block.kind in OF_ITEMS else None
        if items is not None and self.columns is not None and not self.fits(items):
            return False
        return self.scheme.admits(block)

    def fits(self, items: np.ndarray) -> bool:
        """True when items of a message may be items of this job."""
        return self.is_items(items)

    def is_items(self, items: np.ndarray) -> bool:
        """True when an array is a matrix of this job's items."""
        return items.dtype == np.float64 and items.ndim == 2 and items.shape[1] == self.columns

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        """A block came in, in order on its link."""
        self.process(self.scheme.on_receive(self.port, edge, sender, block))

    def on_worker_failed(self, worker: WorkerId) -> None:
        """A worker that was up is down."""
        self.process(self.scheme.on_worker_failed(self.port, worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new incarnation of a worker is up."""
        self.process(self.scheme.on_worker_restored(self.port, worker))

    def on_alarm(self) -> None:
        """The scheme's alarm went off."""
        self.process(self.scheme.on_alarm(self.port))

    def on_durable(self, number: int) -> None:
        """Everything saved up to this number is safe."""
        self.scheme.on_durable(self.port, number)

    def work(self) -> bool:
        """Do a piece of work that no message asks for; False when there is none now."""
        return False

    def close(self) -> None:
        """The worker ends."""

    def process(self, ready: Ready) -> None:
        """Handle what the scheme let through."""
        raise NotImplementedError
