"""The decoder's end of a coded segment: puts results in the encoder's order, and decodes what cannot come (LEC III).

What it exchanges with the encoder and the coded stage stands at the top of encoder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.alarms import AlarmedPort, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.collector import Collector
from riprap.engine.spreads.encoder import INCARNATION_SHIFT
from riprap.engine.spreads.half import Ready, WholeRow
from riprap.engine.spreads.packing import computed, unpack, unpack_result
from riprap.engine.spreads.rows import Head, Matrices, block_of, is_end
from riprap.operators.adapters.stages import ITEMS, LINEAR, RESULT
from riprap.operators.dataflow import DataflowOperator

PIECES = frozenset((Kind.DATA, Kind.PARITY))
TELL_S, TELL_ROWS = 0.002, 8
"""A decoder tells of what is whole and safe so soon after, or after so many rows."""


class DecoderPort(AlarmedPort):
    """The port of a decoder's half: the items that it counts may be bytes of pieces, and what it calls an epoch is a
    row; items are counted by the decoder, and events name the window."""

    def __init__(self, port: Port, alarms: Alarms, owner: SegmentDecoder) -> None:
        super().__init__(port, alarms, owner.hedge)
        self._decoder = owner

    def count(self, name: str, n: int = 1) -> None:
        """Add to a statistic that is not of items."""
        if not name.endswith("_items"):
            self._port.count(name, n)

    def report(self, event: str, **fields: Any) -> None:
        """Write a line to the job's event log."""
        self._port.report(event, **fields | {"epoch": self._decoder.window_of(fields["epoch"])})


class SegmentDecoder:
    """The common part of decoders."""

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms) -> None:
        self.segment, self.alarms = segment, alarms
        self.count = port.count
        self.port = cast(Port, DecoderPort(port, alarms, self))
        self.sender = segment.layout.partner
        self.half: Collector | None = None
        """None before the encoder's present incarnation has begun."""
        self.whole = Epoch(0)
        """The last row of which nothing is outstanding, and that nothing before it lacks."""
        self._early: list[tuple[Edge, WorkerId, Incarnation, Block]] = []
        """Of an incarnation that has not begun here yet: results overtake its first word. They are acknowledged with
        what comes behind them, so that their links' windows bound how many there are."""
        self._delivered = self._safe = 0
        self._told: tuple[int, int] = (0, 0)
        self._told_at = 0.0
        self._untold: set[WorkerId] = set()
        """Of the coded stage, those whose links had no room for the newest word of what is whole."""

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """A message of the segment came in; the blocks that have come through it now, in order."""
        if self._is_early(block) and "begin" not in block.meta:
            self._early.append((edge, sender, self.port.incarnation(sender), block))
            return []
        self.port.ack(edge, sender)  # should this incarnation end, all of it comes anew
        if "begin" in block.meta:
            return self._begin(block.epoch)
        assert self.half is not None, "what is not early has begun"
        self.note_word(block)
        return self._through(self.half.on_receive(self.port, edge, sender, block))

    def note_word(self, block: Block) -> None:
        """Keep what the word of a row says of blocks."""

    def _begin(self, row: Epoch) -> list[Block]:
        self.half = half = SPREADS[self.segment.options["scheme"]].collector(self.segment.layout, self.segment.options)
        half.on_resume(self.port, row)
        self.whole, self._told = row, (row, 0)
        self._delivered = self._safe = 0
        self.forget()
        early, self._early = self._early, []
        through: list[Block] = []
        for edge, sender, incarnation, block in early:
            if incarnation != self.port.incarnation(sender):
                continue
            self.port.ack(edge, sender)
            if not self._is_early(block) and self.admits(block):
                through += self.on_block(edge, sender, block)
        return through

    def forget(self) -> None:
        """Another incarnation of the encoder begins behind `whole`, or none is there."""

    def _is_early(self, block: Block) -> bool:
        return self.half is None or block.epoch >> INCARNATION_SHIFT > self.whole >> INCARNATION_SHIFT

    def _through(self, ready: Ready) -> list[Block]:
        assert self.half is not None
        through: list[Block] = []
        for entry in ready:
            if isinstance(entry, WholeRow):
                self.whole = entry.epoch
                self.half.on_epoch(self.port, entry.epoch)
                through += self.on_whole(entry)
            else:
                through += self.on_piece(entry)
        self.say()
        for block in through:
            self._delivered += 1
            block.seq = Seq(self._delivered)
        return through

    def on_piece(self, entry: Block) -> Iterable[Block]:
        """A result came, or a piece was decoded; the blocks whose turn has come."""
        raise NotImplementedError

    def on_whole(self, row: WholeRow) -> Iterable[Block]:
        """Nothing more comes of a row."""
        raise NotImplementedError

    def ack(self, seq: Seq | None) -> None:
        """All that came through, or that up to `seq`, is safe here."""
        self._safe = max(self._safe, self._delivered if seq is None else seq)
        self.say()

    def say(self, at_once: bool = False) -> None:
        """Tell encoder and coded stage how far it is, now and then."""
        if (self.whole, self._safe) == self._told or self.half is None:
            return
        now = self.port.now()
        is_due = at_once or self.whole - self._told[0] >= TELL_ROWS or now >= self._told_at + TELL_S
        if not is_due or not self._said():
            self.alarms.set(self.tell, TELL_S)
            return
        if self.whole != self._told[0]:
            self.say_whole()
        self._told, self._told_at = (self.whole, self._safe), now

    def _said(self) -> bool:
        word = Block(Kind.ACK, self.whole, meta={"safe": self._safe})
        return self.port.send(self.segment.layout.commit, self.sender, word)

    def say_whole(self) -> None:
        """Tell the coded stage what is whole."""
        self._untold = set(self.segment.layout.processors)
        self._tell_stage()

    def _tell_stage(self) -> None:
        for worker in sorted(self._untold):
            word = Block(Kind.FEEDBACK, self.whole)
            if self.port.send(self.segment.layout.feedback, worker, word) or not self.port.is_up(worker):
                self._untold.discard(worker)

    def flush(self) -> None:
        """Say and ask what there was no room for."""
        if self._untold:
            self._tell_stage()
        if self.half is not None:
            self.half.flush(self.port)

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """A worker is down. What an encoder had not finished comes again from its next incarnation."""
        if worker == self.sender:
            self.half = None
            self.forget()
            return []
        return self._through(self.half.on_worker_failed(self.port, worker)) if self.half else []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        """A new incarnation of it is up."""
        if worker == self.sender or self.half is None:
            return []
        return self._through(self.half.on_worker_restored(self.port, worker))

    def tell(self) -> list[Block]:
        """Say what was not said yet."""
        self.say(at_once=True)
        return []

    def hedge(self) -> list[Block]:
        """The half's time has come: it gives up whom it has waited for long enough."""
        return self._through(self.half.on_alarm(self.port)) if self.half else []

    def window_of(self, row: int) -> int:
        """A row's number in events: that in its encoder's incarnation."""
        return row & ((1 << INCARNATION_SHIFT) - 1)

    def admits(self, block: Block) -> bool:
        """True when an honest peer can have sent this."""
        if self._is_early(block) or "begin" in block.meta:
            return True
        assert self.half is not None, "what is not early has begun"
        return self.fits(block) and self.half.admits(block)

    def fits(self, block: Block) -> bool:
        """True for a message that goes with the form of the pieces."""
        return "heads" not in block.meta


class PackedDecoder(SegmentDecoder):
    """Of pieces that are packed blocks: each goes on when those before it have. `operator` is one like the coded
    stage's, to recompute with."""

    def __init__(
        self, segment: CodedSegment, port: Port, alarms: Alarms, operator: DataflowOperator, upstream: str
    ) -> None:
        super().__init__(segment, port, alarms)
        self.operator, self._upstream = operator, upstream
        self._held: dict[tuple[int, int], Block | None] = {}
        self._next = (0, 0)
        """The row and place of the result that comes next."""
        self._pieces = 1
        """Of each row."""

    def forget(self) -> None:
        self._held.clear()
        self._next = (self.whole + 1, 0)
        if self.half is not None:
            self._pieces = self.half.k

    def on_piece(self, entry: Block) -> Iterable[Block]:
        self._held[entry.epoch, entry.key.s_index] = self._block(entry)
        while self._next in self._held:
            block = self._held.pop(self._next)
            row, place = self._next
            self._next = (row, place + 1) if place + 1 < self._pieces else (row + 1, 0)
            if block is not None:
                yield block

    def on_whole(self, row: WholeRow) -> Iterable[Block]:
        return ()

    def _block(self, entry: Block) -> Block | None:
        """AssertionError for what no worker of this job can have written."""
        try:
            if entry.kind == Kind.RESULT:
                return unpack_result(entry.arrays)
            data = unpack(entry.arrays[0])
        except FrameError as error:
            raise AssertionError(f"row {entry.epoch} of {self.segment.stage}: {error}") from error
        if data is None:
            return None
        self.count("decoded_items", data.items)
        self.count("recomputed_items", data.items)
        return computed(self.operator, data, self._upstream)


class RowsDecoder(SegmentDecoder):
    """Of pieces that are items: a row goes on when it is whole, as one block with all its results.

    `linear`: hybrid coded computation (LEC III-D), whose pieces here are linear parts; `sends_linear`: its results are
    nothing else. What was decoded is recomputed by the operator behind, in its turn: under the model of its window.
    """

    def __init__(
        self, segment: CodedSegment, port: Port, alarms: Alarms, columns: int, linear: bool, sends_linear: bool
    ) -> None:
        super().__init__(segment, port, alarms)
        self._matrices = Matrices(None if linear else columns)
        self._decoded, self._sends_linear = LINEAR if linear else ITEMS, sends_linear
        self._results: dict[int, dict[tuple[int, int], Block]] = {}
        """Of each row that is not whole."""
        self._heads: dict[int, list[Head]] = {}
        """Of each row whose word has come and that is not whole."""
        self._model: Block | None = None
        """The newest that was fed back."""
        self._owed: set[WorkerId] = set()
        """Workers without it."""

    def forget(self) -> None:
        self._results.clear()
        self._heads.clear()

    def note_word(self, block: Block) -> None:
        if "participants" in block.meta and block.epoch > self.whole:
            self._heads[block.epoch] = block.meta["heads"]

    def on_piece(self, entry: Block) -> Iterable[Block]:
        self._results.setdefault(entry.epoch, {})[entry.key.row, entry.key.s_index] = entry
        return ()

    def on_whole(self, row: WholeRow) -> Iterable[Block]:
        head, *ends = self._heads.pop(row.epoch)
        results = self._results.pop(row.epoch, {})
        pair = (self.sender.index, self.segment.layout.me.index)
        if head:
            arrays, done = self._gathered(head, results)
            block = block_of(head, *pair, arrays)
            if done < block.items:
                block.meta["lost"] = block.items - done
            yield block
        for end in ends:
            yield block_of(end, *pair)

    def _gathered(self, head: Head, results: dict[tuple[int, int], Block]) -> tuple[tuple[np.ndarray, ...], int]:
        """The arrays of a row's results in the order of its items, and behind them where each begins, its form and its
        number of arrays; and how many items they are of."""
        start, piece = head[8]
        arrays: list[np.ndarray] = []
        forms, done = [], 0
        assert self.half is not None
        for place in sorted(results):
            entry = results[place]
            found, form = self._result(entry)
            arrays += found
            done += entry.items
            forms.append((start + piece * (place[0] * self.half.k + place[1]), form, len(found)))
        return (*arrays, np.array(forms)), done

    def _result(self, entry: Block) -> tuple[Sequence[np.ndarray], int]:
        if entry.kind != Kind.RESULT:
            self.count("decoded_items", entry.items)
            self.count("recomputed_items", entry.items)
            return (entry.arrays[0],), self._decoded
        if not self._sends_linear:
            return entry.arrays, RESULT
        assert entry.attachment is not None, "the spread admits no other"
        return (entry.attachment,), LINEAR

    def feed_back(self, window: Epoch, arrays: Sequence[np.ndarray]) -> None:
        """Send the coded stage the model of a window; only the newest matters, to those who start again too."""
        self._model = Block(Kind.FEEDBACK, self.whole, arrays=tuple(arrays), meta={"window": window})
        self._owed = set(self.segment.layout.processors)
        self.say(at_once=True)  # first: who waits for it reads the next row while the others wake for the model
        for worker in self.segment.layout.processors:
            self._send_model(worker)

    def _send_model(self, worker: WorkerId) -> None:
        assert self._model is not None
        if self.port.send(self.segment.layout.feedback, worker, self._model):
            self._owed.discard(worker)
        elif self.port.is_up(worker):  # it has not taken former ones yet
            self.alarms.set(self.tell, TELL_S)

    def say_whole(self) -> None:
        if self.segment.stale is None:
            super().say_whole()  # else models say it

    def tell(self) -> list[Block]:
        for worker in sorted(self._owed):
            self._send_model(worker)
        return super().tell()

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        if self._model is not None and worker in self.segment.layout.processors:
            self._owed.add(worker)
            self._send_model(worker)
        return super().on_worker_restored(worker)

    def window_of(self, row: int) -> int:
        heads = [head for head in self._heads.get(row, ()) if head]
        return int(heads[0][0]) if heads else super().window_of(row)

    def fits(self, block: Block) -> bool:
        if block.kind == Kind.PUNCTUATION:
            return "participants" not in block.meta or _are_of_row(block.meta.get("heads"), block.meta["blocks"])
        piece = block.attachment if block.kind == Kind.RESULT else block.arrays[0] if block.kind in PIECES else None
        return piece is None or self._matrices.hold(piece)


def _are_of_row(heads: list[Head] | None, blocks: int) -> bool:
    """True for the head of a row with so many pieces, and behind it ends of windows alone."""
    if not heads or not all(map(is_end, heads[1:])) or is_end(heads[0]):
        return False
    if not heads[0]:
        return blocks == 0
    _, piece = heads[0][8]
    return bool(piece) and -(-heads[0][3] // piece) == blocks
