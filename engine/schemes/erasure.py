"""Scheme `erasure` (LEC III): k data blocks and r parity blocks a stripe row, any k of them are enough.

Eager attachment: a result travels with the block that it was computed from, so that the sink holds k pieces of a row
as soon as k processors have answered (LEC III-C, Algorithms 1 to 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from codec.blocks import Block, Key, Kind
from codec.codes import Encoder, make_code
from codec.ids import Epoch, WorkerId
from engine.layout import Edge, Layout
from engine.schemes.parts.collector import BLOCKS_MAX, Collector, Ledger
from engine.schemes.parts.dealer import Dealer
from engine.schemes.parts.placement import rotate
from engine.schemes.parts.relay import Relay
from engine.schemes.scheme import Port, Ready


class ErasureSource(Dealer):
    """Algorithm 1: emits a data block, then folds it into the row's parity while it is on its way."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options["k"])
        self.r = options["r"]
        self.unit = self.enough = self.k
        self.code = make_code(options["code"], self.k, self.r)
        self._encoder: Encoder | None = None
        self._encoded: tuple[tuple[int, ...], np.dtype] | None = None
        self._counts: list[int] = []

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // self.k)

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        number = self.keep(block)
        block.meta = {"of": self.block_count}
        self.deal(port, rotate(self.layout.processors, block.epoch, block.key.row, block.key.s_index), block)
        if self.r:
            self._encode(port, block, last=number + 1 == self.block_count)

    def _encode(self, port: Port, block: Block, last: bool) -> None:
        s_index = block.key.s_index
        if s_index == 0:
            self._start_row(block.arrays[0])
        assert self._encoder is not None
        self._encoder.update(s_index, block.arrays[0])
        self._counts.append(block.items)
        if last or s_index + 1 == self.k:
            meta = {"of": self.block_count, "counts": self._counts}
            for j, parity in enumerate(self._encoder.parity()):
                key = block.key._replace(s_index=self.k + j)
                to = rotate(self.layout.processors, block.epoch, key.row, key.s_index)
                self.deal(port, to, Block(Kind.PARITY, block.epoch, key, arrays=(parity,), meta=meta))

    def _start_row(self, first: np.ndarray) -> None:
        self._counts = []
        if self._encoder is None or self._encoded != (first.shape, first.dtype):
            self._encoder, self._encoded = self.code.encoder(first.shape, first.dtype), (first.shape, first.dtype)
        else:
            self._encoder.reset()


class ErasureProcessor(Relay):
    """Algorithm 2: attaches the item to its result, and passes parity through."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout)
        self.attach = options["r"] > 0

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        if self.attach and cause is not None:
            block.attachment = cause.arrays[0]
        super().on_emit(port, block)

    def admits(self, block: Block) -> bool:
        return True

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        if block.kind != Kind.PARITY:
            return (block,)
        super().on_emit(port, block)
        return ()


class ErasureSink(Collector):
    """Algorithm 3: decodes only what is missing, and only when it is not coming (soon) by itself.

    A missing piece is not coming when its worker died or did not take part; it straggles when nothing at all arrived
    for the hedge time while an epoch was incomplete. A worker that straggled is not waited for again until it has
    sent something.
    """

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, options["k"])
        self.r = options["r"]
        self.code = make_code(options["code"], self.k, self.r)
        self.hedge_s = options["hedge_ms"] / 1000
        self.straggling: set[WorkerId] = set()
        self._pieces: dict[tuple[Epoch, int], dict[int, np.ndarray]] = {}
        self._counts: dict[tuple[Epoch, int], list[int]] = {}
        self._epoch_s = 0.0
        self._committed_at = 0.0

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        return (rotate(self.layout.processors, epoch, row, s_index),)

    def admits_piece(self, block: Block, block_count: int) -> bool:
        """A piece must name its epoch's number of blocks, and fit what its row already has: decoding relies on it."""
        blocks, (_, _, row, s_index) = block.meta.get("of", 0), block.key
        if not 0 < blocks <= BLOCKS_MAX or (block_count and blocks != block_count):
            return False
        if block.kind != Kind.PARITY:
            return super().admits_piece(block, blocks) and self._data_fits(block)
        if not self.k <= s_index < self.k + self.r or len(block.meta["counts"]) != min(self.k, blocks - row * self.k):
            return False
        return self._parity_fits(block)

    def _data_fits(self, block: Block) -> bool:
        spot = (block.epoch, block.key.row)
        counts = self._counts.get(spot)
        if counts and counts[block.key.s_index] != block.items:
            return False
        return block.attachment is None or self._is_alike(block.attachment, spot)

    def _parity_fits(self, block: Block) -> bool:
        spot, counts = (block.epoch, block.key.row), block.meta["counts"]
        if self._counts.get(spot, counts) != counts or not self._is_alike(block.arrays[0], spot):
            return False
        data = {i: array for i, array in self._pieces.get(spot, {}).items() if i < self.k}
        return all(len(array) == counts[i] for i, array in data.items())

    def _is_alike(self, piece: np.ndarray, spot: tuple[Epoch, int]) -> bool:
        other = next(iter(self._pieces.get(spot, {}).values()), piece)
        return piece.dtype == other.dtype and piece.shape[1:] == other.shape[1:]

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        self.straggling.discard(sender)
        ready = super().on_receive(port, edge, sender, block)
        if self.current in self.ledgers:
            port.alarm(max(self.hedge_s, 2 * self._epoch_s))
        return ready

    def at_ease(self, ledger: Ledger) -> bool:
        return super().at_ease(ledger) and not self.straggling

    def on_epoch(self, port: Port, epoch: Epoch, items: int, last: bool) -> None:
        super().on_epoch(port, epoch, items, last)
        now = port.now()
        self._epoch_s, self._committed_at = (now - self._committed_at if self._committed_at else 0.0), now
        for store in (self._pieces, self._counts):
            for key in [key for key in store if key[0] <= epoch]:
                del store[key]

    def on_alarm(self, port: Port) -> Ready:
        ledger = self.ledgers.get(self.current)
        if ledger is None:
            return ()
        late = {
            worker
            for row in self.rows(ledger)
            for i in self.lacking(ledger, row)
            if not self.gone(port, ledger, self.current, row, i)
            for worker, _ in self.holders(ledger, self.current, row, i)
        }
        if late - self.straggling:
            port.report("hedge", epoch=self.current, workers=sorted(map(str, late)))
        self.straggling |= late
        port.alarm(max(self.hedge_s, 2 * self._epoch_s))
        return self.progress(port)

    def take(self, port: Port, ledger: Ledger, sender: WorkerId, block: Block) -> Ready:
        spot = (block.epoch, block.key.row)
        piece = block.arrays[0] if block.kind == Kind.PARITY else block.attachment
        ledger.block_count = block.meta["of"]
        if piece is not None and self.lacking(ledger, block.key.row):
            self._pieces.setdefault(spot, {})[block.key.s_index] = piece
        if block.kind == Kind.PARITY:
            self._counts[spot] = block.meta["counts"]
            return []
        ready = list(super().take(port, ledger, sender, block))
        if not self.lacking(ledger, block.key.row):
            self._pieces.pop(spot, None)
        return ready

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        pieces = self._pieces.get((epoch, row), {})
        data_count = min(self.k, ledger.block_count - row * self.k)
        indexes = [*range(data_count), *range(self.k, self.k + self.r)]
        dead = {i for i in indexes if i not in pieces and self.gone(port, ledger, epoch, row, i)}
        if len(pieces) >= data_count:
            late = [w for i in lacking if i not in dead for w, _ in self.holders(ledger, epoch, row, i)]
            if all(worker in self.straggling for worker in late):
                return self._decode(port, ledger, epoch, row, lacking)
        elif len(indexes) - len(dead) < data_count:
            self.ask(port, ledger, epoch, row, [i for i in lacking if i in dead])
        return ()

    def _decode(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> list[Block]:
        pieces = self._pieces.pop((epoch, row))
        counts = self._counts[epoch, row]
        whole = next(array for i, array in pieces.items() if i >= self.k)
        absent = {i: np.zeros_like(whole) for i in range(len(counts), self.k)}  # behind the last block of the epoch
        decoded = self.code.decode(pieces | absent)
        blocks = []
        for i in lacking:
            items = counts[i]
            key = Key(self.layout.partner.index, self.layout.me.index, row, i)
            block = Block(Kind.DATA, epoch, key, items, (decoded[i][:items],))
            self.settle(ledger, (row, i), block)
            port.count("decoded_items", items)
            blocks.append(block)
        port.report("decode", epoch=epoch, row=row, s_indexes=lacking)
        return blocks
