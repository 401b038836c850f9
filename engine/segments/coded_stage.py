"""The task of a coded stage: computes on the pieces that are dealt to it, and keeps them until their row is whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Boundary, Port, Ready
from riprap.engine.flow.scheme import SavedPart
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.schemes.erasure import LazyProcessor
from riprap.engine.segments.packing import computed, pack_result, unpack
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator


class CodedStageTask:
    """Nothing of it outlives it: what it held, the decoder has from others (engine/segments/striped.py)."""

    saves = False
    done = False
    lost = 0

    def __init__(self, segment: CodedSegment, port: Port, operator: DataflowOperator, upstream: str) -> None:
        self.segment, self.layout, self.port, self.operator = segment, segment.layout, port, operator
        self._upstream = upstream
        self.scheme = LazyProcessor(segment.layout, segment.options)
        self.items = 0
        self.epoch = Epoch(0)
        """The newest window that a block of its was of."""

    @property
    def recovery(self) -> Mapping[str, Any]:
        """Nothing is lost with it."""
        return {}

    @property
    def combines(self) -> Mapping[str, str]:
        """Combination of its metrics into the job's."""
        return self.operator.combines

    def start(self) -> None:
        """All workers are up, or were once."""

    def grant(self, windows: int, final: bool) -> None:
        """It reads no input."""

    def checkpoint(self, triggered: int, completed: int, savepoint: str = "") -> None:
        """No scheme that makes checkpoints has coded stages."""

    part = SavedPart()

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        """It saves nothing."""

    def model(self) -> dict[str, np.ndarray]:
        """It computes nothing that lasts."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the job."""
        return returns.numbers(self.operator, "metrics", self.operator.metrics())

    def admits(self, block: Block) -> bool:
        """True when a peer of ours can have sent this."""
        return block.kind == Kind.FEEDBACK or self.scheme.admits(block)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        """A piece came in, a question for one, or the word that rows are whole."""
        if block.kind == Kind.FEEDBACK:
            self.scheme.on_commit(self.port, sender.index, block.epoch)
            return
        self._process(self.scheme.on_receive(self.port, edge, sender, block))
        self.port.ack(edge, sender)

    def on_worker_failed(self, worker: WorkerId) -> None:
        """A worker that was up is down."""
        self._process(self.scheme.on_worker_failed(self.port, worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new life of a worker is up; a decoder's has none of the results that were sent to the life before, though
        the encoder may have dealt them to it already."""
        self._process(self.scheme.on_worker_restored(self.port, worker))
        if worker in self.layout.sinks:
            self._process(piece for piece in self.scheme.shelf.of(worker.index) if piece.kind == Kind.DATA)

    def on_alarm(self) -> None:
        """No alarm is set here."""

    def on_durable(self, number: int) -> None:
        """It saves nothing."""

    def work(self) -> bool:
        """Send what had no room; else all is done as it comes."""
        self.scheme.flush(self.port)
        return False

    def close(self) -> None:
        """The worker ends."""

    def _process(self, ready: Ready) -> None:
        for piece in ready:
            assert not isinstance(piece, Boundary)
            try:
                block = unpack(piece.arrays[0])
            except FrameError as error:  # a worker of this job wrote it, so one of us is wrong
                raise AssertionError(f"row {piece.epoch} of {self.segment.stage}: {error}") from error
            result = None if block is None else computed(self.operator, block, self._upstream)
            if block is not None and block.kind == Kind.DATA:
                self.items += block.items
                self.epoch = max(self.epoch, block.epoch)
            arrays = pack_result(result)
            self.scheme.on_emit(
                self.port, Block(Kind.RESULT, piece.epoch, piece.key, piece.items, arrays, None, piece.meta), piece
            )
