"""The shape that all tasks share: messages and events in, work done, sends out through the port."""

from __future__ import annotations

from codec.blocks import Block
from codec.ids import Epoch, WorkerId
from engine.layout import Edge, Layout
from engine.schemes.scheme import Port, Ready, Scheme


class Task:
    """One task of a stage. All methods are called by the worker's compute thread, one at a time, and never wait."""

    def __init__(self, layout: Layout, scheme: Scheme, port: Port) -> None:
        self.layout, self.scheme, self.port = layout, scheme, port
        self.epoch = Epoch(0)
        self.items = 0
        self.finished = False

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        """A block came in, in order on its link."""
        self.process(self.scheme.on_receive(self.port, edge, sender, block))

    def on_worker_failed(self, worker: WorkerId) -> None:
        """A worker that was up is down."""
        self.process(self.scheme.on_worker_failed(self.port, worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new incarnation of a worker is up."""
        self.process(self.scheme.on_worker_restored(self.port, worker))

    def on_alarm(self) -> None:
        """The scheme's alarm went off."""
        self.process(self.scheme.on_alarm(self.port))

    def work(self) -> bool:
        """Do a piece of work that no message asks for; False when there is none now."""
        return False

    def process(self, ready: Ready) -> None:
        """Handle what the scheme let through."""
        raise NotImplementedError
