"""A tentative lane: a copy of a task that closes windows without those who are absent (PPA V-B: tentative output).

It begins where the task is, takes the same blocks, and treats the window of an absent link as closed. What it puts out
of a window leaves when the window is closed, whole, so whoever takes it in need not know how far the lane had come. The
task itself never sees any of it: it waits for the absent, computes the window exactly, and with that the lane is over.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.port import Boundary, Port
from riprap.engine.flow.progress import WINDOW, LinkKey, TaskProgress, number_of
from riprap.engine.schemes.parts.absent import NAMED_MAX
from riprap.engine.schemes.parts.lane_outlet import LaneOutlet
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator, Items


@dataclass
class Inflow:
    """A link into a lane. Its blocks are in the order in which they came, exact and tentative ones.

    Invariant: of no window both what was exact behind `after` of a tentative block, and that block, are taken.
    """

    stage: str
    sender: str
    number: int
    """The exact block that was taken last."""
    closed: int
    """The window that it closed last here."""
    waiting: deque[Block] = field(default_factory=deque)
    began: tuple[int, int] = (0, 0)
    """The last window of which an exact item was taken, and the number of that block."""
    tainted: int = 0
    """The last window of which something tentative was taken; what is exact of it, or older, comes too late."""
    is_absent: bool = False
    """True from when its sender is lost until something of a window comes that is open here."""

    def is_late(self, block: Block) -> bool:
        """True for what the lane has done without, or has already."""
        if block.kind == Kind.TENTATIVE:
            return block.epoch <= self.closed
        return number_of(block) <= self.number or block.epoch <= max(self.closed, self.tainted)

    def owes(self, window: int) -> bool:
        """True when it has not closed a window, and still may: one that has gone on to a later one never will."""
        if self.closed >= window:
            return False
        return not (self.waiting[0].epoch > window if self.waiting else self.is_absent)


class Closed(NamedTuple):
    """A window that a lane has closed."""

    boundary: Boundary
    latency_s: float
    absent: list[str]
    """The workers whose items are not in it."""
    blocks: list[tuple[LinkKey, Block]]
    """Its output, by link; the last of each link is its end."""
    rows: np.ndarray | None


class Lane:
    """One lane, from where `progress` is. `operator` has the state that belongs to that."""

    def __init__(
        self, port: Port, operator: DataflowOperator, outlet: LaneOutlet, inflows: Mapping[LinkKey, Inflow]
    ) -> None:
        self.port, self.operator, self.outlet, self.inflows = port, operator, outlet, inflows
        self.progress: TaskProgress = outlet.progress
        self.after = {link: at.number for link, at in self.progress.sent.items()}
        """Of each link out, the last exact block of which the first window here is the continuation."""
        self._absent: set[str] = set()
        """Named by senders as absent from the open window."""

    @property
    def epoch(self) -> int:
        """The last window that it has closed, or that was closed before it began."""
        return self.progress.epoch

    @property
    def is_deserted(self) -> bool:
        """True when nobody is there whose windows it could close."""
        return all(inflow.is_absent for inflow in self.inflows.values())

    @property
    def absent(self) -> list[str]:
        """Those who send to it and are not there."""
        return sorted(inflow.sender for inflow in self.inflows.values() if inflow.is_absent)[:NAMED_MAX]

    def step(self) -> Block | Closed | None:
        """Take in one block, which is returned, or close a window; None when there is nothing to do now."""
        if self.progress.last:
            return None
        for link, inflow in self.inflows.items():
            if inflow.waiting and inflow.is_late(inflow.waiting[0]):
                return inflow.waiting.popleft()
            if inflow.waiting and inflow.waiting[0].epoch == self.epoch + 1:
                block = inflow.waiting.popleft()
                self._take(link, inflow, block)
                return block
        return self._close() if self._may_close else None

    def _take(self, link: LinkKey, inflow: Inflow, block: Block) -> None:
        if block.kind == Kind.TENTATIVE:
            self._take_tentative(link, inflow, block)
            return
        inflow.is_absent, inflow.number = False, number_of(block)
        if block.kind == Kind.PUNCTUATION:
            self._end(link, inflow, block)
        else:
            inflow.began = block.epoch, inflow.number
            self._process(link, inflow, block)

    def _take_tentative(self, link: LinkKey, inflow: Inflow, block: Block) -> None:
        is_end = "items" in block.meta
        goes_on_from, number = inflow.began
        has_more = goes_on_from == block.epoch and number > block.meta["after"]
        if not has_more:
            inflow.is_absent, inflow.tainted = False, block.epoch
        if is_end:
            self._absent.update(block.meta["absent"])
            self._end(link, inflow, block)
        elif not has_more:
            self._process(link, inflow, block)

    def _process(self, link: LinkKey, inflow: Inflow, block: Block) -> None:
        items = Items(block.epoch, inflow.stage, link[1], block.items, block.arrays)
        if self.operator.prepares:
            items = self.operator.prepare(items)
        self.outlet.begin(block.epoch, link, number_of(block))
        returns.first_left(self.operator, self.operator.process_data(items, 0, self.outlet), 0, items.count)

    def _end(self, link: LinkKey, inflow: Inflow, block: Block) -> None:
        inflow.closed = block.epoch
        self.progress.note_end(link, block)
        if block.meta["last"]:
            self.progress.final = block.epoch

    @property
    def _may_close(self) -> bool:
        window = self.epoch + 1
        closed = [inflow.closed >= window for inflow in self.inflows.values()]
        return any(closed) and not any(inflow.owes(window) for inflow in self.inflows.values())

    def _close(self) -> Closed:
        progress, now = self.progress, self.port.now()
        epoch = Epoch(progress.epoch + 1)
        there = [link for link, inflow in self.inflows.items() if inflow.closed >= epoch]
        missing = {inflow.sender for inflow in self.inflows.values() if inflow.closed < epoch}
        absent = sorted(missing | self._absent)[:NAMED_MAX]
        for inflow in self.inflows.values():
            inflow.closed = max(inflow.closed, epoch)
        last = epoch == progress.final
        progress.times.close(epoch, there, last)
        self.outlet.begin(epoch, WINDOW, epoch)
        self.operator.process_punctuation(epoch, self.outlet)
        items, began = progress.windows.pop(epoch, (0, math.inf))
        opened_at = min(began, now)
        progress.epoch, progress.last = epoch, last
        self.outlet.punctuate(items, opened_at, last)
        blocks = [(link, self._marked(link, block, absent)) for link, block in self.outlet.collect()]
        self.after.clear()
        self._absent.clear()
        return Closed(Boundary(epoch, items, 0, last), now - opened_at, absent, blocks, self.operator.outputs())

    def _marked(self, link: LinkKey, block: Block, absent: list[str]) -> Block:
        meta: dict[str, Any] = {"after": self.after.get(link, 0)}
        if block.kind == Kind.PUNCTUATION:
            meta |= block.meta | {"absent": absent}
        return Block(Kind.TENTATIVE, block.epoch, items=block.items, arrays=block.arrays, meta=meta)
