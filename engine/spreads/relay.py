"""Processor half of the schemes whose processors keep nothing that the sink's next feedback does not bring."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, WorkerId
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
        self._waiting: dict[WorkerId, deque[Block]] = {sink: deque() for sink in layout.sinks}

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        sink = self.layout.sinks[block.key.sink]
        self._waiting[sink].append(block)
        self._flush(port, sink)

    def on_commit(self, port: Port, pair: int, epoch: Epoch) -> None:
        self.flush(port)

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        if worker in self._waiting:
            self._waiting[worker].clear()  # results under a state that the sink's next incarnation may not know
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        if worker in self._waiting:
            self._flush(port, worker)
        return ()

    def flush(self, port: Port) -> None:
        """Send what had no room before."""
        for sink, waiting in self._waiting.items():
            if waiting:
                self._flush(port, sink)

    def _flush(self, port: Port, sink: WorkerId) -> None:
        waiting = self._waiting[sink]
        while waiting and port.send(self.layout.result, sink, waiting[0]):
            waiting.popleft()
