"""The task of a sink: aggregates an epoch's results in a fixed order, commits, and feeds back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codec.blocks import Block, Key, Kind
from codec.ids import Epoch, WorkerId
from engine.layout import Edge, Layout
from engine.schemes.scheme import Boundary, Port, Ready, Scheme
from engine.tasks.task import Task
from operators.base import Sink

Committed = Callable[[Boundary, float], None]


class SinkTask(Task):
    """Results are kept by key until their epoch is whole and then aggregated in the order of keys, so that the model
    does not depend on who answered when, nor on what had to be decoded (DESIGN 5).
    """

    def __init__(self, layout: Layout, scheme: Scheme, port: Port, operator: Sink, on_committed: Committed) -> None:
        super().__init__(layout, scheme, port)
        self.operator, self.on_committed = operator, on_committed
        self.lost = 0
        self._results: dict[Epoch, dict[Key, Sequence[np.ndarray]]] = {}
        self._opened_at: dict[Epoch, float] = {}
        self._feedback: Block | None = None

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        if block.kind == Kind.PUNCTUATION and "opened_at" in block.meta and block.epoch > self.epoch:
            self._opened_at[block.epoch] = block.meta["opened_at"]
        super().on_block(edge, sender, block)

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A restarted processor takes its state from the newest feedback, at once."""
        if self._feedback is not None and worker in self.layout.processors and self.layout.feedback:
            self.port.send(self.layout.feedback, worker, self._feedback)
        super().on_worker_restored(worker)

    def process(self, ready: Ready) -> None:
        for entry in ready:
            if isinstance(entry, Boundary):
                self._commit(entry)
            else:
                self._results.setdefault(entry.epoch, {})[entry.key] = self._result(entry)

    def _result(self, block: Block) -> Sequence[np.ndarray]:
        if block.kind == Kind.RESULT:
            return block.arrays
        self.port.count("recomputed_items", block.items)  # decoded data: LEC's Recompute
        return self.operator.recompute(block.arrays[0])

    def _commit(self, boundary: Boundary) -> None:
        results = self._results.pop(boundary.epoch, {})
        for key in sorted(results):
            self.operator.aggregate(results[key])
        feedback = self.operator.commit(boundary.epoch)
        self.operator.processor.process_feedback(feedback)
        self.epoch = boundary.epoch
        self.items += boundary.items - boundary.lost
        self.lost += boundary.lost
        self._announce(boundary, feedback)
        self.scheme.on_epoch(self.port, boundary.epoch, boundary.items, boundary.last)
        now = self.port.now()
        self.on_committed(boundary, now - self._opened_at.pop(boundary.epoch, now))
        self.finished = boundary.last

    def _announce(self, boundary: Boundary, feedback: Sequence[np.ndarray]) -> None:
        copies = tuple(np.array(array) for array in feedback)  # the operator may go on changing its own
        if self.layout.feedback:
            self._feedback = Block(Kind.FEEDBACK, boundary.epoch, arrays=copies)
            for processor in self.layout.processors:
                self.port.send(self.layout.feedback, processor, self._feedback)
        self.port.send(self.layout.commit, self.layout.partner, Block(Kind.ACK, boundary.epoch))
