"""Processor half of the schemes whose processors keep nothing that the sink's next feedback does not bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import WorkerId
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.half import Half, Ready


class Relay(Half):
    """Sends each result to the sink of its key.

    A source may know of all workers before this one has heard of the sink: what cannot be sent yet waits. The epochs
    under way bound how much.
    """

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout)

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        self.waiting.send(port, self.layout.result, self.layout.sinks[block.key.sink], block)

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        self.waiting.forget(worker)  # results under a state that the sink's next incarnation may not know
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        self.flush(port)
        return ()
