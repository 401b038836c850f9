"""Reads the job's input at a source: block by block, with a punctuation behind each window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.clock import opened
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import INPUT, TaskProgress, input_key
from riprap.engine.flow.rate import UNLIMITED, InputRate


class InputPart(Protocol):
    """A part of the job's input (operators/inputs/job_input.py): the same items each time."""

    items: int
    item_bytes: float

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """Items start <= item < stop."""


class InputReader(Protocol):
    """The input as a task reads it: one that can be read again (Reader), or one that is logged (logged_reader.py)."""

    @property
    def epoch(self) -> int:
        """The window of the next block."""

    @property
    def finished(self) -> bool:
        """True when the last window is closed."""

    @property
    def may_read(self) -> bool:
        """True when there may be a next block at present."""

    def restore(self, records: Sequence[Block], progress: TaskProgress, now: float) -> None:
        """Take over what a former incarnation has logged; called before `seek`."""

    def seek(self, number: int, known: int = 0) -> None:
        """Go on behind the block of this number; 0: at the beginning. Up to the window `known` all was read before."""

    def number(self, closed: int) -> int:
        """The number of a window's punctuation; 0 for none."""

    def grant(self, windows: int, final: bool) -> None:
        """So many windows of an input without end may be read; final: the last of them ends it."""

    def fill(self, port: Port, progress: TaskProgress) -> None:
        """Take what has come, where it must be logged before it is read."""

    def on_durable(self, number: int) -> None:
        """Everything saved up to this number is safe."""

    def wait_s(self, now: float) -> float:
        """Seconds until the next block may be read."""

    def entry(self, now: float) -> Entry:
        """The next block; its number is 0 where it has none yet."""

    def note(self, block: Block, place: dict[str, Any]) -> None:
        """A block of it is processed: bring the place up to date at which a new incarnation would go on."""


class Reader:
    """Cuts an input into windows and blocks. All sources of a job have equally many windows, whatever they hold.

    An input without end is cut after `window_items` items. How many windows it has is not known (None) before the last
    one is granted; a window that may be the last is not closed before (controller/horizon.py).

    A block's number counts the items and the punctuations up to its end, so that it names the block in every
    incarnation.
    """

    def __init__(
        self, source: InputPart, windows: int | None, block_bytes: int, window_items: int, rate: InputRate = UNLIMITED
    ) -> None:
        self.source, self.windows, self.window_items, self.rate = source, windows, window_items, rate
        self._endless, self._granted = windows is None, 0
        self.block_items = max(1, int(block_bytes / max(1.0, source.item_bytes)))
        self.position = self._known = 0
        self.epoch = 1
        """The window that is being read."""
        self._opened_at = 0.0

    @property
    def finished(self) -> bool:
        """True when the last window is closed."""
        return self.windows is not None and self.epoch > self.windows

    @property
    def may_read(self) -> bool:
        """True when `next` may be called: not behind the end, nor where a window may turn out to be the last."""
        if self.windows is not None:
            return not self.finished
        return self.epoch < self._granted or (self.epoch == self._granted and self.position < self.end(self.epoch))

    def grant(self, windows: int, final: bool) -> None:
        """So many windows of an input without end may be read; final: the last of them ends it."""
        if self._endless:
            self._granted = max(self._granted, windows)
            if final:
                self.windows = windows

    def end(self, epoch: int) -> int:
        """The position behind the last item of a window."""
        if self._endless:
            return self.window_items * epoch
        assert self.windows is not None, "of an input that has an end they are known"
        return self.source.items * epoch // self.windows

    def number(self, closed: int) -> int:
        """The number of a window's punctuation; 0 for none."""
        return self.end(closed) + closed

    def seek(self, number: int, known: int = 0) -> None:
        """Go on behind the block of this number; 0: at the beginning. Up to the window `known` all was read before, at
        its rate, and is read again as fast as can be."""
        self._known, self._opened_at = known, 0.0
        self.epoch = 1 + self._closed(number)
        self.position = max(number - (self.epoch - 1), self.end(self.epoch - 1))

    def _closed(self, number: int) -> int:
        """Number of windows closed by the block of this number."""
        if self._endless:
            return number // (self.window_items + 1)
        epoch = 0
        while self.windows is not None and epoch < self.windows and self.number(epoch + 1) <= number:
            epoch += 1
        return epoch

    def restore(self, records: Sequence[Block], progress: TaskProgress, now: float) -> None:
        """Nothing was logged: it is read again."""

    def fill(self, port: Port, progress: TaskProgress) -> None:
        """Nothing need be logged."""

    def on_durable(self, number: int) -> None:
        """Nothing was logged."""

    def note(self, block: Block, place: dict[str, Any]) -> None:
        """The number of a block says where it is."""

    def entry(self, now: float) -> Entry:
        """The next block, without a number: only what is received counts."""
        return Entry(0, INPUT, self.next(now))

    def wait_s(self, now: float) -> float:
        """Seconds until the next block may be read."""
        return 0.0 if self.epoch <= self._known else self.rate.wait_s(self.position, now)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """The arrays of a block of these items."""
        return self.source.read(start, stop)

    def next(self, now: float) -> Block:
        """The next block, or the punctuation of the window that is read to its end."""
        start, end = self.end(self.epoch - 1), self.end(self.epoch)
        if self.position == start or not self._opened_at:  # within a window: by who goes on with it
            self._opened_at = now
        epoch = Epoch(self.epoch)
        if self.position == end:
            self.epoch += 1
            meta = {"items": end - start, "last": self.finished} | opened(self._opened_at, now)
            return Block(Kind.PUNCTUATION, epoch, input_key(self.number(epoch)), meta=meta)
        stop = min(self.position + self.block_items, end)
        arrays = self.read(self.position, stop)
        block = Block(Kind.DATA, epoch, input_key(stop + epoch - 1), stop - self.position, arrays)
        self.position = stop
        return block
