"""The two ends of a coded segment: what stands in for a link between two tasks, and sends in stripes (LEC III).

    encoder                          coded stage (k + r tasks)              decoder
    a block -> a piece of k  ------> computes, keeps the piece  ----------> the results in the encoder's order
    r parity pieces a row    ------> keeps the piece            <---------- asks for pieces when a result cannot come
    "row n: who has it"      ---------------------------------------------> knows what is gone
                             <--------------------------------------------- "rows to n are whole, blocks to m safe"

Under `replication` a row is one piece, which goes to several tasks of the stage, and there is no parity.

A row is what the schemes of spreads, erasure.py and replication.py call an epoch: it has k pieces always. One that
nothing more comes for is filled up with empty ones, at the end of a window and when the encoder has been silent for
LINGER_S, so that no block waits for others. Rows are numbered through all lives of an encoder, the life in the upper
half of the number: what is still on its way of an earlier life is known by it.

Between encoder and decoder blocks are numbered and acknowledged as on any link (`sent`, `safe`); the encoder keeps them
until they are safe, and sends them anew to a new life of the decoder. What the coded stage holds is never needed then,
so that its tasks need no state and no backup.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.alarms import SLACK_S, AlarmedPort, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Boundary, Port, Ready
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.schemes import SCHEMES
from riprap.engine.segments.packing import PAD, computed, pack, unpack, unpack_result
from riprap.engine.spreads.collector import Collector
from riprap.engine.spreads.dealer import Dealer
from riprap.operators.dataflow import DataflowOperator

ROWS_MAX = 24
"""Rows that may be under way: fewer than make a task of the coded stage look late (spreads/dealer.py)."""
LINGER_S = 0.01
TELL_S, TELL_ROWS = 0.002, 8
"""A decoder tells of what is whole and safe so soon after, or after so many rows."""
LIFE_SHIFT = 32


def first_row(life: int) -> Epoch:
    """The number before the first row of an encoder's life."""
    return Epoch(life << LIFE_SHIFT)


class Spread(Protocol):
    """One end of a segment, as its task sees it."""

    segment: CodedSegment

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """A message of the segment came in; the blocks that have come through it now, in order."""

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """A worker is down."""

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        """A new life of it is up."""

    def admits(self, block: Block) -> bool:
        """True when an honest peer can have sent this."""


class StripedSender:
    """The encoder's end. `window`: the most blocks that may be unsafe."""

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms, life: int, window: int) -> None:
        self.segment, self.port, self._alarms = segment, port, alarms
        self.to = segment.layout.partner
        make, _, _ = SCHEMES[segment.options["scheme"]]
        self.scheme = cast(Dealer, make(segment.layout, segment.options))
        self.kept: deque[Block] = deque()
        self._rows_max = min(ROWS_MAX, window // 2)
        self._window = min(window, self._rows_max * self.scheme.k)
        self._sent = self._safe = 0
        self._row = first_row(life)
        self._pieces = 0  # of the row that is open
        self._dealt_at = 0.0
        self._begun = False

    def send(self, block: Block) -> bool:
        """Put a block on the link; False when the decoder is down, the window full, or too few tasks are there."""
        if not self.port.is_up(self.to) or len(self.kept) >= self._window or self._is_crowded or not self._begin():
            return False
        if not self._pieces and not self.scheme.on_open(self.port, Epoch(self._row + 1), self.scheme.k):
            return False
        self.kept.append(block)
        self._sent += 1
        self._deal(pack(block))
        if block.kind == Kind.PUNCTUATION:
            self._fill()
        return True

    @property
    def _is_crowded(self) -> bool:
        """True when no further row may begin before some of those under way have ended: half of the room of the link
        that tells of them is left for what is sent again."""
        return not self._pieces and self._begun and self._row - self.scheme.committed >= self._rows_max

    def _begin(self) -> bool:
        """Tell this life of the decoder with which row the stream goes on."""
        if not self._begun:
            word = Block(Kind.PUNCTUATION, self._row, meta={"moved": [], "begin": True})
            if not self.port.send(self.segment.layout.punctuation, self.to, word):
                return False
            self.scheme.on_resume(self.port, self._row)
            self._begun = True
        return True

    def _deal(self, piece: np.ndarray) -> None:
        if not self._pieces:
            self._row = Epoch(self._row + 1)
        self._pieces += 1
        self._dealt_at = self.port.now()
        self.scheme.on_emit(self.port, Block(Kind.DATA, self._row, items=len(piece), arrays=(piece,)))
        if self._pieces == self.scheme.k:
            self._pieces = 0
            self.scheme.on_epoch(self.port, self._row, 0, last=False)
        elif self._pieces == 1:
            self._alarms.set(self.fill_silent, LINGER_S)

    def _fill(self) -> None:
        while self._pieces:
            self._deal(PAD)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """The decoder tells what is whole and safe, or asks for blocks of a row that lacks too many."""
        if not self._begun:
            return []
        self.scheme.on_receive(self.port, edge, sender, block)
        while self.kept and self._safe < block.meta.get("safe", 0):
            self.kept.popleft()
            self._safe += 1
        return []

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """What the decoder had not made safe is the task's again, which has taken it from `kept`."""
        if worker == self.to:
            self.kept.clear()
            self._sent = self._safe = self._pieces = 0
            self._begun = False
        else:
            self.scheme.on_worker_failed(self.port, worker)
        return []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        if worker != self.to:
            self.scheme.on_worker_restored(self.port, worker)
        return []

    def fill_silent(self) -> list[Block]:
        """Fill up a row that nothing came for."""
        left_s = self._dealt_at + LINGER_S - self.port.now()
        if self._pieces and left_s > SLACK_S:
            self._alarms.set(self.fill_silent, left_s)
        else:
            self._fill()
        return []

    def admits(self, block: Block) -> bool:
        if not self._begun:
            return True  # of a life that is over, which its link knows
        safe = block.meta.get("safe", 0)
        return safe.__class__ is int and 0 <= safe <= self._sent and self.scheme.admits(block)


class ReceiverPort(AlarmedPort):
    """The port of a decoder's scheme, whose items are bytes of pieces: those of blocks are counted by its owner."""

    def count(self, name: str, n: int = 1) -> None:
        """Add to a statistic that is not of items."""
        if not name.endswith("_items"):
            self._port.count(name, n)


class StripedReceiver:
    """The decoder's end. `operator` is one like the coded stage's, to recompute with."""

    def __init__(
        self, segment: CodedSegment, port: Port, alarms: Alarms, operator: DataflowOperator, upstream: str
    ) -> None:
        self.segment, self.operator, self._upstream, self._alarms = segment, operator, upstream, alarms
        self._count = port.count
        self.port = cast(Port, ReceiverPort(port, alarms, self.hedge))
        self.sender = segment.layout.partner
        self._scheme: Collector | None = None
        """None before the encoder's present life has begun."""
        self._early: list[tuple[Edge, WorkerId, Incarnation, Block]] = []
        """Of a life that has not begun here yet: results overtake its first word."""
        self._held: dict[tuple[int, int], Block | None] = {}
        self._next = (0, 0)
        """The row and place of the result that comes next."""
        self._pieces = 1
        """Of each row."""
        self._delivered = self._safe = 0
        self._whole = Epoch(0)
        """The last row of which nothing is outstanding, and that nothing before it lacks."""
        self._told: tuple[int, int] = (0, 0)
        self._told_at = 0.0

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        self.port.ack(edge, sender)  # should this life end, all of it comes anew
        if block.meta.get("begin"):
            return self._begin(block.epoch)
        if self._is_early(block):
            self._early.append((edge, sender, self.port.incarnation(sender), block))
            return []
        assert self._scheme is not None, "what is not early has begun"
        return self._through(self._scheme.on_receive(self.port, edge, sender, block))

    def _begin(self, row: Epoch) -> list[Block]:
        _, _, make = SCHEMES[self.segment.options["scheme"]]
        self._scheme = scheme = cast(Collector, make(self.segment.layout, self.segment.options))
        scheme.on_resume(self.port, row)
        self._held.clear()
        self._pieces = scheme.k
        self._next, self._whole, self._told = (row + 1, 0), row, (row, 0)
        self._delivered = self._safe = 0
        early, self._early = self._early, []
        through: list[Block] = []
        for edge, sender, life, block in early:
            if life == self.port.incarnation(sender) and not self._is_early(block):
                through += self.on_block(edge, sender, block)
        return through

    def _is_early(self, block: Block) -> bool:
        return self._scheme is None or block.epoch >> LIFE_SHIFT > self._whole >> LIFE_SHIFT

    def _through(self, ready: Ready) -> list[Block]:
        assert self._scheme is not None
        for entry in ready:
            if isinstance(entry, Boundary):
                self._whole = entry.epoch
                self._scheme.on_epoch(self.port, entry.epoch, entry.items, entry.last)
            else:
                self._hold(entry)
        self._tell()
        return list(self._in_order())

    def _hold(self, block: Block) -> None:
        try:
            if block.kind == Kind.RESULT:
                result = unpack_result(block.arrays)
            else:
                data = unpack(block.arrays[0])
                result = None if data is None else computed(self.operator, data, self._upstream)
                items = 0 if data is None else data.items
                self._count("decoded_items", items)
                self._count("recomputed_items", items)
        except FrameError as error:  # a worker of this job wrote it, so one of us is wrong
            raise AssertionError(f"row {block.epoch} of {self.segment.stage}: {error}") from error
        self._held[block.epoch, block.key.s_index] = result

    def _in_order(self) -> Iterable[Block]:
        while self._next in self._held:
            block = self._held.pop(self._next)
            row, place = self._next
            self._next = (row, place + 1) if place + 1 < self._pieces else (row + 1, 0)
            if block is not None:
                self._delivered += 1
                block.seq = Seq(self._delivered)
                yield block

    def ack(self, seq: Seq | None) -> None:
        """All that came through, or that up to `seq`, is safe here."""
        self._safe = max(self._safe, self._delivered if seq is None else seq)
        self._tell()

    def _tell(self) -> None:
        """Tell encoder and coded stage how far it is, now and then."""
        if self._scheme is None or (self._whole, self._safe) == self._told:
            return
        now, layout = self.port.now(), self.segment.layout
        is_due = self._whole - self._told[0] >= TELL_ROWS or now >= self._told_at + TELL_S
        word = Block(Kind.ACK, self._whole, meta={"safe": self._safe})
        if not is_due or not self.port.send(layout.commit, self.sender, word):
            self._alarms.set(self.tell, TELL_S)
            return
        if self._whole != self._told[0]:
            for worker in layout.processors:
                self.port.send(layout.feedback, worker, Block(Kind.FEEDBACK, self._whole))
        self._told, self._told_at = (self._whole, self._safe), now

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """What an encoder had not finished comes again from its next life."""
        if worker == self.sender:
            self._scheme = None
            self._held.clear()
            return []
        return self._through(self._scheme.on_worker_failed(self.port, worker)) if self._scheme else []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        if worker == self.sender or self._scheme is None:
            return []
        return self._through(self._scheme.on_worker_restored(self.port, worker))

    def tell(self) -> list[Block]:
        """What was not told yet."""
        self._tell()
        return []

    def hedge(self) -> list[Block]:
        """The scheme's time has come: it gives up whom it has waited for long enough."""
        return self._through(self._scheme.on_alarm(self.port)) if self._scheme else []

    def admits(self, block: Block) -> bool:
        return self._is_early(block) or bool(block.meta.get("begin")) or self._admitted(block)

    def _admitted(self, block: Block) -> bool:
        return self._scheme is not None and self._scheme.admits(block)


def spread_edges(spreads: Sequence[Spread]) -> dict[Edge, Spread]:
    """The edges whose messages are a segment's."""
    found: dict[Edge, Spread] = {}
    for spread in spreads:
        layout = spread.segment.layout
        edges = (layout.commit,) if spread.segment.encodes else (layout.result, layout.punctuation)
        found |= dict.fromkeys(edges, spread)
    return found
