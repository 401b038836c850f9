"""Processor half of the schemes whose processors keep nothing that the sink's next feedback does not bring."""

from __future__ import annotations

from codec.blocks import Block
from codec.ids import Epoch
from engine.schemes.scheme import Port, Scheme


class Relay(Scheme):
    """Sends each result to the sink of its key, and acknowledges its input when the sink has committed the epoch."""

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        port.send(self.layout.result, self.layout.sinks[block.key.sink], block)

    def on_epoch(self, port: Port, epoch: Epoch, items: int, last: bool) -> None:
        for source, sink in zip(self.layout.sources, self.layout.sinks):
            port.ack(self.layout.data, source)
            if self.layout.feedback:
                port.ack(self.layout.feedback, sink)
