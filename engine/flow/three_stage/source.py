"""The task of a source: reads epochs of blocks, and stays a bounded number of epochs ahead."""

from __future__ import annotations

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.task import Task


class SourceTask(Task):
    """Emits epoch after epoch; epoch e starts once epoch e - window is committed.

    Where the stream goes on is the sink's to say: a source emits nothing until the present life of its sink has
    acknowledged an epoch (0 in a fresh job), and then what follows that epoch. So a source that starts again needs no
    state of its own, and a sink that starts again from an older epoch gets what it lost once more.
    """

    def __init__(self, layout: Layout, scheme: Scheme, port: Port, reader: EpochReader, window_epochs: int) -> None:
        super().__init__(layout, scheme, port)
        self.reader, self.window_epochs = reader, window_epochs
        self.committed = Epoch(0)
        self.running = False
        self.placed = False
        """True when the sink has said where the stream goes on."""

    def start(self) -> None:
        """All workers are up, or were once: epochs may start."""
        self.running = True

    def grant(self, windows: int, final: bool) -> None:
        self.reader.grant(windows, final)

    def admits(self, block: Block) -> bool:
        if block.kind == Kind.ACK and not self.placed:
            return block.epoch <= self.reader.windows_max
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
        self.reader.seek(self.reader.row(epoch))
        self.scheme.on_resume(self.port, epoch)

    def process(self, ready: Ready) -> None:
        assert not ready, "nothing is processed at a source"

    def work(self) -> bool:
        reader = self.reader
        if not self.placed or not reader.may_read or (self.epoch < reader.epoch and not self._open()):
            return False
        if reader.is_behind:  # its end had to wait for the word that a further epoch may follow
            self._close()
            return True
        if wait_s := reader.wait_s(self.port.now()):
            self.port.alarm(wait_s)
            return False
        read = reader.next(self.port.now())
        self.scheme.on_emit(self.port, Block(Kind.DATA, self.epoch, items=read.items, arrays=read.arrays[:1]))
        self.items += read.items
        if reader.is_behind and reader.may_read:
            self._close()
        return True

    def _open(self) -> bool:
        """Start the next epoch, if the window and the scheme let it."""
        reader = self.reader
        if not self.running or self.epoch - self.committed >= self.window_epochs:
            return False
        if not self.scheme.on_open(self.port, Epoch(reader.epoch), reader.block_count()):
            return False
        self.epoch = Epoch(reader.epoch)
        return True

    def _close(self) -> None:
        end = self.reader.next(self.port.now())
        self.scheme.on_epoch(self.port, end.epoch, end.meta["items"], end.meta["last"])
