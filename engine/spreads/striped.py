"""Spread `striped` (LEC III): k data blocks and r parity blocks a stripe row, any k of them are enough.

How the sink gets pieces of a row to decode from is the `attachment`:

eager   every result travels with the block that it was computed from, and parity is passed on (Algorithms 1 to 3).
hybrid  the same with the linear part of a block in its place (Algorithm 4); needs a code over the real numbers.
lazy    processors keep their blocks until the commit, and the sink asks for pieces only when a result cannot come.

Lazy attachment tolerates what eager attachment does. Until an epoch is committed each of the k + r processors of a row
holds its piece, or gets it by its link, as long as it lives; it drops the piece on the sink's word that the epoch is
committed, after which no one needs it. So after any r deaths, before, while or after the sink asks, k holders are left
to be asked, and the sink asks on until it has k pieces. With eager attachment the sink holds the pieces instead; both
fall back on the source beyond r deaths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.codes import load_code
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.collector import BLOCKS_MAX, Collector, Ledger
from riprap.engine.spreads.dealer import PIECES_MAX, Dealer
from riprap.engine.spreads.half import Ready
from riprap.engine.spreads.hedge import Hedge
from riprap.engine.spreads.patience import make_patience
from riprap.engine.spreads.placement import rotate
from riprap.engine.spreads.relay import Relay
from riprap.engine.spreads.shelf import Shelf
from riprap.engine.spreads.stripe import Pieces, Row

T = TypeVar("T")


class StripingSource(Dealer):
    """Algorithm 1: emits data blocks at once, and encodes a row when its last one is on its way.

    So data never waits for encoding. A row is encoded in one pass: folding in block by block, as the paper does item by
    item, would read and write the parity k times. Without `incremental` a row is encoded when all of it is there, and
    sent after that (the baseline of LEC Exp#3).
    """

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options["k"])
        self.r = options["r"]
        self.incremental = options.get("incremental", True)
        self.enough = self.k
        self.code = load_code(options["code"], self.k, self.r)
        self._order: tuple[WorkerId, ...] = ()
        self._row: list[Block] = []

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // self.k)

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        opened = super().on_open(port, epoch, block_count)
        self._order = tuple(self.participants)
        return opened

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        number = self.keep(block)
        block.meta["of"] = self.block_count
        if self.incremental:
            self._deal(port, block)
            for parity in self._encode(port, block, last=number + 1 == self.block_count):
                self._deal(port, parity)

    def on_epoch(self, port: Port, epoch: Epoch) -> None:
        if not self.incremental:
            blocks = self._log[epoch]
            rows = [self._encode(port, block, last=block is blocks[-1]) for block in blocks]
            for block, parities in zip(blocks, rows):
                for piece in (block, *parities):
                    self._deal(port, piece)
        super().on_epoch(port, epoch)

    def _deal(self, port: Port, piece: Block) -> None:
        to = rotate(self._order, self.active, piece.epoch, piece.key.row, piece.key.s_index)
        if to is not None:
            self.deal(port, to, piece)

    def _encode(self, port: Port, block: Block, last: bool) -> list[Block]:
        """Add a block to its row; the row's parity once it is whole."""
        if block.key.s_index == 0:
            self._row = []
        self._row.append(block)
        if not self.r or (not last and block.key.s_index + 1 < self.k):
            return []
        data = [piece.arrays[0] for piece in self._row]
        absent = [data[0][:0]] * (self.k - len(data))  # behind the epoch's last block
        meta = block.meta | {"counts": [piece.items for piece in self._row]}
        source, sink, row, _ = block.key
        keys = [Key(source, sink, row, self.k + j) for j in range(self.r)]
        longest = max(data, key=len)
        memory = [port.empty(longest.shape, longest.dtype) for _ in keys]
        parities = zip(keys, self.code.encode([*data, *absent], memory))
        return [Block(Kind.PARITY, block.epoch, key, arrays=(parity,), meta=meta) for key, parity in parities]


class EagerProcessor(Relay):
    """Algorithm 2: attaches the item to its result, and passes parity through."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options)
        self.attach = options["r"] > 0

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        if self.attach and cause is not None and block.kind == Kind.RESULT:
            block.attachment = cause.arrays[0]
        super().on_emit(port, block)

    def admits(self, block: Block) -> bool:
        return block.kind != Kind.RESEND


class HybridProcessor(Relay):
    """Algorithm 4: the task computes linear parts of data and parity, and they travel to the sink."""

    def admits(self, block: Block) -> bool:
        return block.kind != Kind.RESEND


class LazyProcessor(Relay):
    """Keeps what it was dealt until the commit, and sends the sink the pieces that it asks for."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options)
        self.shelf = Shelf()
        self._answer = super().on_emit

    def admits(self, block: Block) -> bool:
        return True

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        if block.kind == Kind.RESEND:
            keys = [Key(sender.index, sender.index, row, s_index) for row, s_index in block.meta["pieces"]]
            for piece in self.shelf.take(block.epoch, keys):
                self._answer(port, piece)
            return ()
        if self.shelf.put(block):
            self._answer(port, block)
        return (block,) if block.kind == Kind.DATA else ()

    def on_commit(self, port: Port, pair: int, epoch: Epoch) -> None:
        self.shelf.clear(pair, epoch)
        super().on_commit(port, pair, epoch)

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        if worker in self.layout.sinks:
            self.shelf.forget_asked(worker.index)
        return super().on_worker_failed(port, worker)


class StripingSink(Collector):
    """Algorithm 3: decodes only what is missing, and only when it is not coming (soon) by itself.

    A missing piece is not coming when its worker died or did not take part; it straggles when the hedge says so of its
    worker. Parity never causes a decoding: it only makes one possible.
    """

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options["k"])
        self.r = options["r"]
        self.pieces = Pieces(load_code(options["code"], self.k, self.r))
        self.hedge = Hedge(self.r, make_patience(options["hedge"]))
        self._watched = Epoch(0)
        self._decoded = 0  # blocks of the current epoch
        self._gave_up_at: float | None = None
        self._bill: tuple[Epoch, float, int] | None = None
        self._advised: frozenset[WorkerId] = frozenset()

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        place = rotate(ledger.order, ledger.active, epoch, row, s_index)
        return () if place is None else (place,)

    def admits_piece(self, block: Block, block_count: int) -> bool:
        """A piece must name its epoch's number of blocks, and fit what its row already has: decoding relies on it."""
        blocks, (_, _, row, s_index) = block.meta.get("of", 0), block.key
        if not 0 < blocks <= BLOCKS_MAX or (block_count and blocks != block_count):
            return False
        if block.kind == Kind.PARITY:
            there = len(block.meta["counts"]) == min(self.k, blocks - row * self.k)
            return there and self.k <= s_index < self.k + self.r and self.pieces.fits((block.epoch, row), block)
        return self.is_data(row, s_index, blocks) and self.pieces.fits((block.epoch, row), block)

    def on_epoch(self, port: Port, epoch: Epoch) -> None:
        super().on_epoch(port, epoch)
        self.pieces.forget(epoch)
        if self._bill is not None and self._bill[0] == epoch:
            _, since, blocks = self._bill
            self.hedge.patience.paid(port.now() - since, blocks)
            self._bill = None

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        if self.hedge.stragglers and self.hedge.heard(sender, port.now()):
            self._set_alarm(port)
        return super().on_receive(port, edge, sender, block)

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        self.hedge.lost(worker)
        if worker == self.layout.partner:
            self._watched = self.committed  # its next incarnation deals the epoch anew
        return super().on_worker_failed(port, worker)

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        if worker == self.layout.partner:
            self._advised = frozenset()
            self._advise(port)
        return super().on_worker_restored(port, worker)

    def _advise(self, port: Port) -> None:
        """Tell the source whom to do without."""
        if self._advised != self.hedge.avoided:
            names = sorted(map(str, self.hedge.avoided))
            advice = Block(Kind.ACK, self.committed, meta={"avoided": names})
            if port.send(self.layout.commit, self.layout.partner, advice):
                self._advised = frozenset(self.hedge.avoided)
                port.report("avoided", epoch=self.committed, workers=names)

    def on_alarm(self, port: Port) -> Ready:
        late = self.hedge.give_up(port.now(), port.stands_still)
        self._set_alarm(port)
        if not late:
            return ()
        self._gave_up_at = port.now()
        self._advise(port)
        stopped = sorted(str(worker) for worker in late if port.stands_still(worker))
        port.report("hedge", epoch=self.current, workers=sorted(map(str, late)), stopped=stopped)
        return self.progress(port)

    def at_ease(self, ledger: Ledger) -> bool:
        return ledger.intact and not self.hedge.stragglers

    def closed(self, port: Port, epoch: Epoch, ledger: Ledger) -> None:
        self.hedge.ended(port.now())
        self._advise(port)
        port.count("rows", len(self.rows(ledger)))
        if self._decoded:
            port.report("decode", epoch=epoch, blocks=self._decoded)
            if self._gave_up_at is not None:
                self._bill = (epoch, self._gave_up_at, self._decoded)
            self._decoded = 0
        self._gave_up_at = None

    def progress(self, port: Port, arrived: Block | None = None) -> list[Any]:
        ready = super().progress(port, arrived)
        ledger = self.ledgers.get(self.current)
        if ledger is not None and ledger.participants is not None and self._watched < self.current:
            self._watched = self.current
            self.hedge.begin(ledger.order[: ledger.active], self._owed(port, ledger), port.now())
            self._set_alarm(port)
        return ready

    def _owed(self, port: Port, ledger: Ledger) -> list[WorkerId]:
        """The holder of each block of the current epoch whose result may still come."""
        lacking = [(row, i) for row in self.rows(ledger) for i in self.lacking(ledger, row)]
        if ledger.intact:  # then nothing has moved
            return [worker for row, i in lacking for worker in self.places(ledger, self.current, row, i)]
        lacking = [(row, i) for row, i in lacking if not self.gone(port, ledger, self.current, row, i)]
        return [self.holders(ledger, self.current, row, i)[0][0] for row, i in lacking]

    def _set_alarm(self, port: Port) -> None:
        due = self.hedge.due(port.now())
        if due is not None:
            port.alarm(due)

    def take(self, port: Port, ledger: Ledger, sender: WorkerId, block: Block) -> Ready:
        epoch, row, is_result = block.epoch, block.key.row, block.kind == Kind.RESULT
        ledger.block_count = block.meta["of"]
        piece = block.attachment if is_result else block.arrays[0]
        if piece is not None and self.lacking(ledger, row):
            self.pieces.add((epoch, row), block.key.s_index, piece)
        if epoch == self.current and self.hedge.delivered(sender, port.now()):
            self._set_alarm(port)
        if not is_result:
            if block.kind == Kind.PARITY:
                self.pieces.count((epoch, row), block.meta["counts"])
            return ()
        ready = super().take(port, ledger, sender, block)
        if not self.lacking(ledger, row):
            self.pieces.drop((epoch, row))
        return ready

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        if ledger.participants is None:
            return ()
        data_count = min(self.k, ledger.block_count - row * self.k)
        stuck = [i for i in lacking if self._is_stuck(port, ledger, epoch, row, i)]
        if not stuck:
            return ()
        if len(self.pieces.of((epoch, row))) < data_count:
            self.gather(port, ledger, (epoch, row), data_count, stuck)
        elif len(stuck) == len(lacking):
            return self._decode(port, ledger, (epoch, row), lacking)
        return ()

    def _is_stuck(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> bool:
        """True when a result is not waited for (any more)."""
        if self.gone(port, ledger, epoch, row, s_index):
            return True
        return all(worker in self.hedge.stragglers for worker, _ in self.holders(ledger, epoch, row, s_index))

    def gather(self, port: Port, ledger: Ledger, row: Row, data_count: int, stuck: list[int]) -> None:
        """See to it that `data_count` pieces of a row come, `stuck` of whose results do not. Eagerly attached ones come
        by themselves; when too many of them died, the source sends blocks again."""
        if len(self.pieces.of(row)) + len(self.reachable(port, ledger, row, data_count)) < data_count:
            dead = [i for i in stuck if self.gone(port, ledger, *row, i)]
            self.ask(port, ledger, *row, dead)

    def reachable(self, port: Port, ledger: Ledger, row: Row, data_count: int) -> list[int]:
        """The s_indexes of the pieces that are not here and whose holders live."""
        have = self.pieces.of(row)
        indexes = (*range(data_count), *range(self.k, self.k + self.r))
        return [i for i in indexes if i not in have and not self.gone(port, ledger, *row, i)]

    def _decode(self, port: Port, ledger: Ledger, row: Row, lacking: list[int]) -> list[Block]:
        blocks = []
        for i, array in self.pieces.decode(row, lacking):
            key = Key(self.layout.partner.index, self.layout.me.index, row[1], i)
            block = Block(Kind.DATA, row[0], key, len(array), (array,))
            ledger.done.add((row[1], i))
            port.count("decoded_items", len(array))
            blocks.append(block)
        if not self.pieces.code.exact:
            self._report_spread(port, row, blocks)
        port.count("decoded_rows")
        self._decoded += len(lacking)
        return blocks

    def _report_spread(self, port: Port, row: Row, decoded: list[Block]) -> None:
        """Over the real numbers a NaN or an infinity of one block spreads to what is decoded beside it."""
        spread = [block.key.s_index for block in decoded if not np.isfinite(block.arrays[0]).all()]
        if spread:
            remedy = "gf256 decodes bit for bit"
            port.report("decoded_not_finite", epoch=row[0], row=row[1], s_indexes=spread, remedy=remedy)


class HybridSink(StripingSink):
    """The pieces are linear parts, from which non-linear results are recomputed (Algorithm 4)."""

    def admits_piece(self, block: Block, block_count: int) -> bool:
        """The same, and no result comes without its linear part, a row an item."""
        if block.kind == Kind.RESULT and (block.attachment is None or len(block.attachment) != block.items):
            return False
        return super().admits_piece(block, block_count)


class LazySink(StripingSink):
    """Asks the processors of a row for pieces once a result of the row cannot come, those that live and do not straggle
    first; asks others when one that was asked dies or straggles."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options)
        self._asked: dict[Row, dict[int, tuple[WorkerId, Incarnation]]] = {}
        self._questions: dict[WorkerId, list[tuple[int, int]]] = {}

    def gather(self, port: Port, ledger: Ledger, row: Row, data_count: int, stuck: list[int]) -> None:
        super().gather(port, ledger, row, data_count, stuck)
        asked = self._asked.setdefault(row, {})
        have, holder = self.pieces.of(row), {}
        for i in self.reachable(port, ledger, row, data_count):
            holder[i] = self.holders(ledger, *row, i)[0]
        coming = [i for i in holder if asked.get(i) == holder[i] and holder[i][0] not in self.hedge.stragglers]
        left = sorted((holder[i][0] in self.hedge.stragglers, i) for i in holder if asked.get(i) != holder[i])
        for _, i in left[: max(0, data_count - len(have) - len(coming))]:
            asked[i] = holder[i]
            self._questions.setdefault(holder[i][0], []).append((row[1], i))

    def progress(self, port: Port, arrived: Block | None = None) -> list[Any]:
        ready = super().progress(port, arrived)
        questions, self._questions = self._questions, {}
        for worker, pieces in questions.items():
            self._ask_holder(port, worker, pieces)
        return ready

    def _ask_holder(self, port: Port, worker: WorkerId, pieces: list[tuple[int, int]]) -> None:
        now = port.now()
        for start in range(0, len(pieces), PIECES_MAX):
            part = pieces[start : start + PIECES_MAX]
            question = Block(Kind.RESEND, self.current, meta={"pieces": part})
            self.waiting.send(port, self.layout.feedback, worker, question)
            port.count("asked_pieces", len(part))
            self.hedge.owes(worker, len(part), now)
        self._set_alarm(port)

    def on_epoch(self, port: Port, epoch: Epoch) -> None:
        super().on_epoch(port, epoch)
        for row in [row for row in self._asked if row[0] <= epoch]:
            del self._asked[row]


Make = Callable[[SegmentLayout, Mapping[str, Any]], T]
PROCESSORS: dict[str, Make[Relay]] = {"eager": EagerProcessor, "hybrid": HybridProcessor, "lazy": LazyProcessor}
SINKS: dict[str, Make[Collector]] = {"eager": StripingSink, "hybrid": HybridSink, "lazy": LazySink}


def make_processor(layout: SegmentLayout, options: Mapping[str, Any]) -> Relay:
    """The processor half, as the attachment demands."""
    return PROCESSORS[options["attachment"]](layout, options)


def make_sink(layout: SegmentLayout, options: Mapping[str, Any]) -> Collector:
    """The sink half, as the attachment demands."""
    return SINKS[options["attachment"]](layout, options)


def row(options: Mapping[str, Any], tasks: int) -> int:
    """k data blocks."""
    return int(options["k"])
