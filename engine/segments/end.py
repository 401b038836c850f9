"""The task at an end of coded segments: one of a general topology whose links there are striped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Seq, WorkerId
from riprap.engine.flow.alarms import Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.task import DataflowTask
from riprap.engine.segments.striped import Spread, StripedReceiver, StripedSender, spread_edges


class SegmentPort:
    """The port of such a task and its scheme: what goes by a segment's link goes to its end; the rest is the port's."""

    def __init__(self, port: Port, alarms: Alarms) -> None:
        self._port, self._alarms = port, alarms
        self.on_alarm: Callable[[], list[Block]] = list
        """Whom alarms of the scheme wake."""
        self._senders: dict[Edge, StripedSender] = {}
        self._receivers: dict[Edge, StripedReceiver] = {}

    def join(self, spread: StripedSender | StripedReceiver) -> None:
        """Have a segment's link go by this end."""
        ends: dict[Edge, Any] = self._senders if isinstance(spread, StripedSender) else self._receivers
        ends[spread.segment.link] = spread

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        sender = self._senders.get(edge)
        return self._port.send(edge, to, block, urgent) if sender is None else sender.send(block)

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        sender = self._senders.get(edge)
        return self._port.kept(edge, to) if sender is None else list(sender.kept)

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        sender = self._senders.get(edge)
        return self._port.unacknowledged(edge, to) if sender is None else len(sender.kept)

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        receiver = self._receivers.get(edge)
        if receiver is None:
            self._port.ack(edge, sender, seq)
        else:
            receiver.ack(seq)

    def alarm(self, seconds: float) -> None:
        self._alarms.set(self.on_alarm, seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class SegmentEndTask(DataflowTask):
    """Takes the messages of its segments through their ends; what has come through is as any block of a link."""

    port: SegmentPort
    alarms: Alarms
    spreads: Sequence[StripedSender | StripedReceiver] = ()

    def join(self, alarms: Alarms, spreads: Sequence[StripedSender | StripedReceiver]) -> None:
        """Set the ends of its segments. Before anything comes in."""
        self.alarms, self.spreads = alarms, spreads
        self._ends = spread_edges(spreads)
        self.port.on_alarm = self.scheme_alarm
        for spread in spreads:
            self.port.join(spread)

    def admits(self, block: Block) -> bool:
        if block.kind == Kind.REPLY or "cause" in block.meta:
            return super().admits(block)
        return any(spread.admits(block) for spread in self.spreads)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        end = self._ends.get(edge)
        if end is None:
            super().on_block(edge, sender, block)
        else:
            self._take_through(end, end.on_block(edge, sender, block))

    def on_worker_failed(self, worker: WorkerId) -> None:
        super().on_worker_failed(worker)
        for spread in self.spreads:
            self._take_through(spread, spread.on_worker_failed(worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        for spread in self.spreads:
            self._take_through(spread, spread.on_worker_restored(worker))
        super().on_worker_restored(worker)

    def on_alarm(self) -> None:
        for owner in self.alarms.due():
            blocks = owner()  # type: ignore[operator]  # a method of a spread, or of this task
            if blocks:
                self._take_through(owner.__self__, blocks)  # type: ignore[attr-defined]

    def scheme_alarm(self) -> list[Block]:
        """The scheme's time has come."""
        self.scheme.on_alarm()
        return []

    def _take_through(self, spread: Spread, blocks: list[Block]) -> None:
        for block in blocks:
            super().on_block(spread.segment.link, spread.segment.layout.partner, block)
