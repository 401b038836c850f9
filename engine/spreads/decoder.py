"""The decoder's end of a coded segment: puts results in the encoder's order, and decodes what cannot come (LEC III).

What it exchanges with the encoder and the coded stage stands at the top of encoder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.alarms import AlarmedPort, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.cargo import Cargo, Head, block_of, windows_end
from riprap.engine.spreads.collector import Collector
from riprap.engine.spreads.encoder import LIFE_SHIFT
from riprap.engine.spreads.half import Ready, Whole

PIECES = frozenset((Kind.DATA, Kind.PARITY))
TELL_S, TELL_ROWS = 0.002, 8
"""A decoder tells of what is whole and safe so soon after, or after so many rows."""


class DecoderPort(AlarmedPort):
    """The port of a decoder's half: the items that it counts may be bytes of pieces, and what it calls an epoch is a
    row; blocks are counted by their cargo, and events name the window."""

    def __init__(self, port: Port, alarms: Alarms, owner: Decoder) -> None:
        super().__init__(port, alarms, owner.hedge)
        self._decoder = owner

    def count(self, name: str, n: int = 1) -> None:
        """Add to a statistic that is not of items."""
        if not name.endswith("_items"):
            self._port.count(name, n)

    def report(self, event: str, **fields: Any) -> None:
        """Write a line to the job's event log."""
        self._port.report(event, **fields | {"epoch": self._decoder.window_of(fields["epoch"])})


class Decoder:
    """One end; `cargo` says what comes of a result."""

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms, cargo: Cargo) -> None:
        self.segment, self.cargo, self._alarms, self._own = segment, cargo, alarms, port
        self.port = cast(Port, DecoderPort(port, alarms, self))
        self.sender = segment.layout.partner
        self.half: Collector | None = None
        """None before the encoder's present life has begun."""
        self._early: list[tuple[Edge, WorkerId, Incarnation, Block]] = []
        """Of a life that has not begun here yet: results overtake its first word."""
        self._held: dict[tuple[int, int], Block] = {}
        """Results and decoded pieces whose turn has not come."""
        self._heads: dict[int, list[Head]] = {}
        """Of each row whose word has come and that is not through, where the cargo has heads."""
        self._lost: dict[int, frozenset[tuple[int, int]]] = {}
        self._next = (0, 0)
        """The row and place of the result that comes next."""
        self._pieces = 1
        """Of each row."""
        self._delivered = self._safe = 0
        self._whole = Epoch(0)
        """The last row of which nothing is outstanding, and that nothing before it lacks."""
        self._told: tuple[int, int] = (0, 0)
        self._told_at = 0.0
        self._model: Block | None = None
        """The newest feedback, and who has not got it yet."""
        self._owed: set[WorkerId] = set()

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """A message of the segment came in; the blocks that have come through it now, in order."""
        self.port.ack(edge, sender)  # should this life end, all of it comes anew
        if block.meta.get("begin"):
            return self._begin(block.epoch)
        if self._is_early(block):
            self._early.append((edge, sender, self.port.incarnation(sender), block))
            return []
        assert self.half is not None, "what is not early has begun"
        if block.kind == Kind.PUNCTUATION and "heads" in block.meta and block.epoch > self._whole:
            self._heads[block.epoch] = block.meta["heads"]
        return self._through(self.half.on_receive(self.port, edge, sender, block))

    def _begin(self, row: Epoch) -> list[Block]:
        self.half = half = SPREADS[self.segment.options["scheme"]].collector(self.segment.layout, self.segment.options)
        half.on_resume(self.port, row)
        self._forget()
        self._pieces = half.k
        self._next, self._whole, self._told = (row + 1, 0), row, (row, 0)
        self._delivered = self._safe = 0
        early, self._early = self._early, []
        through: list[Block] = []
        for edge, sender, life, block in early:
            if life == self.port.incarnation(sender) and not self._is_early(block):
                through += self.on_block(edge, sender, block)
        return through

    def _forget(self) -> None:
        self._held.clear()
        self._heads.clear()
        self._lost.clear()

    def _is_early(self, block: Block) -> bool:
        return self.half is None or block.epoch >> LIFE_SHIFT > self._whole >> LIFE_SHIFT

    def _through(self, ready: Ready) -> list[Block]:
        assert self.half is not None
        for entry in ready:
            if isinstance(entry, Whole):
                self._whole = entry.epoch
                if entry.lost:
                    self._lost[entry.epoch] = entry.lost
                self.half.on_epoch(self.port, entry.epoch)
            else:
                self._held[entry.epoch, entry.key.s_index + entry.key.row * self._pieces] = entry
        self._tell()
        return list(self._in_order())

    def _in_order(self) -> Iterable[Block]:
        for block in self._next_blocks():
            self._delivered += 1
            block.seq = Seq(self._delivered)
            yield block

    def _next_blocks(self) -> Iterable[Block]:
        while True:
            row, place = self._next
            if self.cargo.has_heads and row not in self._heads:
                return
            heads = self._heads.get(row, ())
            if place == self._pieces:
                yield from (block_of(head, self.sender.index, self.segment.layout.me.index) for head in heads[place:])
                self._heads.pop(row, None)
                self._lost.pop(row, None)
                self._next = (row + 1, 0)
                continue
            head = heads[place] if heads else []
            entry = self._held.pop(self._next, None)
            if entry is None and (0, place) not in self._lost.get(row, ()):
                return
            block = None if entry is None else self.cargo.block(entry, head, self._own)
            if block is not None:
                yield block
            self._next = (row, place + 1)

    def ack(self, seq: Seq | None) -> None:
        """All that came through, or that up to `seq`, is safe here."""
        self._safe = max(self._safe, self._delivered if seq is None else seq)
        self._tell()

    def feed_back(self, window: Epoch, arrays: Sequence[np.ndarray]) -> None:
        """Send the coded stage the model of a window; only the newest matters, to those who start again too."""
        self._model = Block(Kind.FEEDBACK, self._whole, arrays=tuple(arrays), meta={"window": window})
        self._owed = set(self.segment.layout.processors)
        self._tell(at_once=True)
        self._send_models()

    def _send_models(self) -> None:
        for worker in sorted(self._owed):
            self._send_model(worker)

    def _send_model(self, worker: WorkerId) -> None:
        assert self._model is not None
        if self.port.send(self.segment.layout.feedback, worker, self._model):
            self._owed.discard(worker)
        elif self.port.is_up(worker):  # it has not taken former ones yet
            self._alarms.set(self.tell, TELL_S)

    def _tell(self, at_once: bool = False) -> None:
        """Tell encoder and coded stage how far it is, now and then."""
        if self.half is None or (self._whole, self._safe) == self._told:
            return
        now, layout = self.port.now(), self.segment.layout
        is_due = at_once or self._whole - self._told[0] >= TELL_ROWS or now >= self._told_at + TELL_S
        word = Block(Kind.ACK, self._whole, meta={"safe": self._safe})
        if not is_due or not self.port.send(layout.commit, self.sender, word):
            self._alarms.set(self.tell, TELL_S)
            return
        if self._whole != self._told[0] and self.segment.stale is None:
            for worker in layout.processors:
                self.port.send(layout.feedback, worker, Block(Kind.FEEDBACK, self._whole))
        self._told, self._told_at = (self._whole, self._safe), now

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """A worker is down. What an encoder had not finished comes again from its next life."""
        if worker == self.sender:
            self.half = None
            self._forget()
            return []
        return self._through(self.half.on_worker_failed(self.port, worker)) if self.half else []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        """A new life of it is up."""
        if worker in self.segment.layout.processors and self._model is not None:
            self._owed.add(worker)
            self._send_model(worker)
        if worker == self.sender or self.half is None:
            return []
        return self._through(self.half.on_worker_restored(self.port, worker))

    def tell(self) -> list[Block]:
        """Tell what was not told yet."""
        self._tell()
        if self._model is not None:
            self._send_models()
        return []

    def hedge(self) -> list[Block]:
        """The half's time has come: it gives up whom it has waited for long enough."""
        return self._through(self.half.on_alarm(self.port)) if self.half else []

    def window_of(self, row: int) -> int:
        """The window of a row whose word has come; its number in its encoder's life where that is not known."""
        heads = [head for head in self._heads.get(row, ()) if head]
        return int(heads[0][0]) if heads else row & ((1 << LIFE_SHIFT) - 1)

    def admits(self, block: Block) -> bool:
        """True when an honest peer can have sent this."""
        if self._is_early(block) or block.meta.get("begin"):
            return True
        assert self.half is not None, "what is not early has begun"
        if block.kind == Kind.PUNCTUATION and not self._admits_heads(block):
            return False
        piece = block.attachment if block.kind == Kind.RESULT else block.arrays[0] if block.kind in PIECES else None
        return (piece is None or self.cargo.fits(piece)) and self.half.admits(block)

    def _admits_heads(self, block: Block) -> bool:
        """The word of a row has a head for each of its pieces, and behind them ends of windows alone."""
        heads = block.meta.get("heads")
        if heads is None:
            return not self.cargo.has_heads or "participants" not in block.meta
        return self.cargo.has_heads and (
            len(heads) >= self._pieces
            and not any(map(windows_end, heads[: self._pieces]))
            and all(map(windows_end, heads[self._pieces :]))
        )
