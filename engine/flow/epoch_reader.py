"""Reads in epochs of `micro_batch` items each, cut into equal blocks, as jobs that train do."""

from __future__ import annotations

import numpy as np

from riprap.codec.blocks import Block
from riprap.engine.flow.rate import UNLIMITED, InputRate
from riprap.engine.flow.reader import InputPart, Reader


def cut(item_count: int, item_bytes: int, block_bytes: int, unit: int) -> int:
    """Items per block, such that an epoch of `item_count` items makes equal blocks of at most about `block_bytes`,
    their number a multiple of `unit` (where there are items enough)."""
    count = max(1, -(-item_count * item_bytes // max(1, block_bytes)))
    count = -(-count // unit) * unit
    return max(1, -(-item_count // count))


class EpochReader(Reader):
    """Epochs of `micro_batch` items of this task, the last of them shorter; behind it empty ones, to `epochs` in all.

    So every source task of a job closes equally many, though their parts may differ by an item. An epoch's blocks are
    dealt over `unit` tasks, in turn.
    """

    def __init__(
        self, source: InputPart, epochs: int | None, micro_batch: int, block_bytes: int, unit: int,
        rate: InputRate = UNLIMITED,
    ) -> None:  # fmt: skip
        super().__init__(source, epochs, block_bytes, micro_batch, rate)
        self.block_bytes, self.unit = block_bytes, unit
        self._cut = (0, 0, 1)  # an epoch, its end, and the items of its blocks

    def end(self, epoch: int) -> int:
        return min(epoch * self.window_items, self.source.items)

    def _closed(self, row: int) -> int:
        full = self.source.items // self.window_items
        return row - self.source.items if row > self.source.items + full else row // (self.window_items + 1)

    @property
    def is_behind(self) -> bool:
        """True when all of the epoch at hand is read, and its end comes next."""
        return self.position == self._cut_of(self.epoch)[1]

    def block_count(self) -> int:
        """Number of blocks that the epoch at hand is cut into."""
        _, end, block_items = self._cut_of(self.epoch)
        return -(-(end - self.end(self.epoch - 1)) // block_items)

    def next(self, now: float) -> Block:
        self.block_items = self._cut_of(self.epoch)[2]
        return super().next(now)

    def turn(self, epoch: int, start: int) -> int:
        """The turn, counted from 0, of the block of an epoch that begins at this item."""
        return (start - self.end(epoch - 1)) // self._cut_of(epoch)[2] % self.unit

    def _cut_of(self, epoch: int) -> tuple[int, int, int]:
        """An epoch, its end, and the items of its blocks; kept for the next question, which is of the same mostly."""
        if self._cut[0] != epoch:
            end = self.end(epoch)
            count = end - self.end(epoch - 1)
            block_items = cut(count, int(self.source.item_bytes), self.block_bytes, self.unit) if count else 1
            self._cut = (epoch, end, block_items)
        return self._cut


class RowsReader(EpochReader):
    """Epochs cut alike, read in rows: what would be `row_blocks` blocks is one here, with an array for each of them,
    and behind those the number of the first item and how many make an array."""

    def __init__(
        self, source: InputPart, epochs: int | None, micro_batch: int, block_bytes: int, unit: int,
        rate: InputRate = UNLIMITED, row: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(source, epochs, micro_batch, block_bytes, unit, rate)
        self.row_blocks = row

    def next(self, now: float) -> Block:
        self.block_items = self._cut_of(self.epoch)[2] * self.row_blocks
        return Reader.next(self, now)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        piece = self.block_items // self.row_blocks
        pieces = (self.source.read(first, min(first + piece, stop))[0] for first in range(start, stop, piece))
        return (*pieces, np.array([start, piece]))
