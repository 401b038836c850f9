"""The task of a source: reads items, cuts epochs into blocks, and stays a bounded number of epochs ahead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.epoch_reader import cut
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.rate import UNLIMITED, InputRate
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.task import Task
from riprap.operators import returns
from riprap.operators.base import Source

Read = Callable[[int, int], np.ndarray]


def checked(source: Source, columns: int) -> Read:
    """`source.read`, with a WrongReturn where it does not return the rows that it was asked for, of so many columns."""

    def read(start: int, stop: int) -> np.ndarray:
        return returns.items(source, start, stop, source.read(start, stop), columns)

    return read


class SourceTask(Task):
    """Emits epoch after epoch; epoch e starts once epoch e - window is committed.

    Where the stream goes on is the sink's to say: a source emits nothing until the present life of its sink has
    acknowledged an epoch (0 in a fresh job), and then what follows that epoch. So a source that starts again needs no
    state of its own, and a sink that starts again from an older epoch gets what it lost once more.
    """

    def __init__(
        self, layout: Layout, scheme: Scheme, port: Port, read: Read, item_count: int, micro_batch: int,
        block_bytes: int, window_epochs: int, rate: InputRate = UNLIMITED,
    ) -> None:  # fmt: skip
        super().__init__(layout, scheme, port)
        self.read, self.item_count, self.micro_batch = read, item_count, micro_batch
        self.block_bytes, self.window_epochs, self.rate = block_bytes, window_epochs, rate
        self.committed = Epoch(0)
        self.running = False
        self.placed = False
        """Whether the sink has said where the stream goes on."""
        self._next = 0  # the next item to emit
        self._stop = 0  # where the open epoch ends; equal to _next between epochs
        self._block_items = 1

    def start(self) -> None:
        """All workers are up, or were once: epochs may start."""
        self.running = True

    def admits(self, block: Block) -> bool:
        if block.kind == Kind.ACK and not self.placed:
            return block.epoch <= -(-self.item_count // self.micro_batch)
        return super().admits(block)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        if block.kind == Kind.ACK:
            if not self.placed:
                self._go_on_after(block.epoch)
            self.committed = max(self.committed, block.epoch)
        super().on_block(edge, sender, block)

    def on_worker_failed(self, worker: WorkerId) -> None:
        if worker == self.layout.partner:
            self.placed = False
        super().on_worker_failed(worker)

    def _go_on_after(self, epoch: Epoch) -> None:
        self.placed = True
        self.epoch = self.committed = epoch
        self._next = self._stop = min(epoch * self.micro_batch, self.item_count)
        self.finished = self._next == self.item_count
        self.scheme.on_resume(self.port, epoch)

    def process(self, ready: Ready) -> None:
        assert not ready, "nothing is processed at a source"

    def work(self) -> bool:
        if not self.placed or (self._next == self._stop and not self._open()):
            return False
        if wait_s := self.rate.wait_s(self._next, self.port.now()):
            self.port.alarm(wait_s)
            return False
        stop = min(self._next + self._block_items, self._stop)
        items = self.read(self._next, stop)
        self.scheme.on_emit(self.port, Block(Kind.DATA, self.epoch, items=stop - self._next, arrays=(items,)))
        self.items += stop - self._next
        self._next = stop
        if stop == self._stop:
            start = (self.epoch - 1) * self.micro_batch
            self.scheme.on_epoch(self.port, self.epoch, stop - start, last=stop == self.item_count)
            self.finished = stop == self.item_count
        return True

    def _open(self) -> bool:
        """Start the next epoch, if the window and the scheme let it."""
        if not self.running or self.finished or self.epoch - self.committed >= self.window_epochs:
            return False
        stop = min(self._next + self.micro_batch, self.item_count)
        count = stop - self._next
        block_items = cut(count, self._item_bytes(), self.block_bytes, self.scheme.unit)
        if not self.scheme.on_open(self.port, Epoch(self.epoch + 1), -(-count // block_items)):
            return False
        self.epoch, self._stop, self._block_items = Epoch(self.epoch + 1), stop, block_items
        return True

    def _item_bytes(self) -> int:
        return self.read(self._next, self._next + 1).nbytes
