"""The task at an end of coded segments: one whose links there travel in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Seq, WorkerId
from riprap.engine.flow.alarms import AlarmedPort, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.task import Task
from riprap.engine.spreads.collector import EPOCHS_AHEAD_MAX
from riprap.engine.spreads.decoder import RowsDecoder, SegmentDecoder
from riprap.engine.spreads.encoder import RowsEncoder, SegmentEncoder

End = SegmentEncoder | SegmentDecoder


class SegmentPort(AlarmedPort):
    """The port of such a task and its scheme: what goes by a segment's link goes to its end; the rest is the port's."""

    def __init__(self, port: Port, alarms: Alarms) -> None:
        super().__init__(port, alarms, list)  # until the task is there, which wakes its scheme
        self._encoders: dict[Edge, SegmentEncoder] = {}
        self._decoders: dict[Edge, SegmentDecoder] = {}

    def join(self, end: End) -> None:
        """Have a segment's link go by this end."""
        ends: dict[Edge, Any] = self._encoders if isinstance(end, SegmentEncoder) else self._decoders
        ends[end.segment.link] = end

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        encoder = self._encoders.get(edge)
        return self._port.send(edge, to, block, urgent) if encoder is None else encoder.send(block)

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        encoder = self._encoders.get(edge)
        return self._port.kept(edge, to) if encoder is None else list(encoder.kept)

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        encoder = self._encoders.get(edge)
        return self._port.unacknowledged(edge, to) if encoder is None else encoder.unacknowledged

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        decoder = self._decoders.get(edge)
        if decoder is None:
            self._port.ack(edge, sender, seq)
        else:
            decoder.ack(seq)


class SegmentEndTask(Task):
    """Takes the messages of its segments through their ends; what has come through is as any block of a link."""

    port: SegmentPort
    alarms: Alarms
    ends: Sequence[End] = ()

    def join(self, alarms: Alarms, ends: Sequence[End]) -> None:
        """Set the ends of its segments. Before anything comes in."""
        self.alarms, self.ends = alarms, ends
        self._by_edge = ends_of(ends)
        self._trained = [end for end in ends if isinstance(end, RowsDecoder) and end.segment.stale is not None]
        self.port.owner = self.scheme_alarm
        for end in ends:
            self.port.join(end)
        if self._trained:
            self.outlet.train = self.train
            self.train(Epoch(0), ())

    def train(self, window: Epoch, arrays: Sequence[np.ndarray]) -> None:
        """Send the coded stage before this one the model of a window."""
        for end in self._trained:
            end.feed_back(window, arrays)

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        super().restore(state, items)
        if self._trained:
            self.outlet.epoch = self.epoch
            self.operator.process_recovery(self.outlet)

    def admits(self, block: Block) -> bool:
        if block.kind == Kind.REPLY or "cause" in block.meta:  # of a link, as the gate has seen to
            return super().admits(block)
        for head in block.meta.get("heads", ()):
            if head and head[0] > self.progress.epoch + EPOCHS_AHEAD_MAX:
                return False
        for end in self.ends:  # noqa: SIM110  mostly one, and asked with each message
            if end.admits(block):
                return True
        return False

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        end = self._by_edge.get(edge)
        if end is None:
            super().on_block(edge, sender, block)
        else:
            self._take_through(end, end.on_block(edge, sender, block))

    def work(self) -> bool:
        for end in self.ends:
            end.flush()
        return super().work()

    def on_worker_failed(self, worker: WorkerId) -> None:
        super().on_worker_failed(worker)
        if any(isinstance(end, RowsEncoder) and end.to == worker for end in self.ends):
            self.begin_again()
        for end in self.ends:
            self._take_through(end, end.on_worker_failed(worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        for end in self.ends:
            self._take_through(end, end.on_worker_restored(worker))
        super().on_worker_restored(worker)

    def on_alarm(self) -> None:
        for owner in self.alarms.due():
            blocks = owner()  # type: ignore[operator]  # a method of an end, or of this task
            if blocks:
                self._take_through(owner.__self__, blocks)  # type: ignore[attr-defined]

    def scheme_alarm(self) -> list[Block]:
        """The scheme's time has come."""
        self.scheme.on_alarm()
        return []

    def _take_through(self, end: End, blocks: list[Block]) -> None:
        for block in blocks:
            super().on_block(end.segment.link, end.segment.layout.partner, block)


def ends_of(ends: Sequence[End]) -> dict[Edge, End]:
    """The edges whose messages are a segment's."""
    found: dict[Edge, End] = {}
    for end in ends:
        layout = end.segment.layout
        edges = (layout.commit,) if isinstance(end, SegmentEncoder) else (layout.result, layout.punctuation)
        found |= dict.fromkeys(edges, end)
    return found
