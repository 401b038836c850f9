"""How a source reads the job's input: block by block, with a punctuation behind each window."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import opened
from riprap.codec.ids import Epoch
from riprap.engine.flow.rate import UNLIMITED, InputRate


class InputPart(Protocol):
    """A part of the job's input (operators/inputs/job_input.py): the same items each time."""

    items: int
    item_bytes: float

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """Items start <= item < stop."""


class Reader:
    """Cuts an input into windows and blocks. All sources of a job have equally many windows, whatever they hold.

    A block's `key.row` counts the items and the punctuations up to its end, so that it names the block in every life.
    """

    def __init__(self, source: InputPart, windows: int, block_bytes: int, rate: InputRate = UNLIMITED) -> None:
        self.source, self.windows, self.rate = source, windows, rate
        self.block_items = max(1, int(block_bytes / max(1.0, source.item_bytes)))
        self.position = 0
        self.epoch = 1
        """The window that is being read."""
        self._opened_at = 0.0

    @property
    def finished(self) -> bool:
        """Whether the last window is closed."""
        return self.epoch > self.windows

    def end(self, epoch: int) -> int:
        """The position behind the last item of a window."""
        return self.source.items * epoch // self.windows

    def row(self, closed: int) -> int:
        """The `key.row` of a window's punctuation; 0 for none."""
        return self.end(closed) + closed

    def seek(self, row: int) -> None:
        """Go on behind the block of this `key.row`; 0: at the beginning."""
        self.epoch = 1
        while self.epoch <= self.windows and self.row(self.epoch) <= row:
            self.epoch += 1
        self.position = max(row - (self.epoch - 1), self.end(self.epoch - 1))

    def wait_s(self, now: float) -> float:
        """Seconds until the next block may be read."""
        return self.rate.wait_s(self.position, now)

    def next(self, now: float) -> Block:
        """The next block, or the punctuation of the window that is read to its end."""
        start, end = self.end(self.epoch - 1), self.end(self.epoch)
        if self.position == start:
            self._opened_at = now
        epoch = Epoch(self.epoch)
        if self.position == end:
            self.epoch += 1
            meta = {"items": end - start, "last": self.finished} | opened(self._opened_at or now, now)
            return Block(Kind.PUNCTUATION, epoch, Key(0, 0, self.row(epoch), 0), meta=meta)
        stop = min(self.position + self.block_items, end)
        arrays = self.source.read(self.position, stop)
        block = Block(Kind.DATA, epoch, Key(0, 0, stop + epoch - 1, 0), stop - self.position, arrays)
        self.position = stop
        return block
