"""The task of a coded stage: computes on the pieces that are dealt to it, and keeps them until their row is whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.flow.scheme import Former, SavedPart
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.half import Ready, WholeRow
from riprap.engine.spreads.packing import computed, pack_result, unpack
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator


class StatelessTask:
    """A task of a coded stage, but for what it computes: nothing of it outlives it, for what it held the decoder has
    from others (decoder.py)."""

    saves = False
    done = False
    lost = missed = 0
    recovery: Mapping[str, Any] = {}
    combines: Mapping[str, str] = {}
    part = SavedPart()
    reached = Former()

    def __init__(self, segment: CodedSegment, port: Port) -> None:
        self.segment, self.layout, self.port = segment, segment.layout, port
        self.half = SPREADS[segment.options["scheme"]].relay(segment.layout, segment.options)
        self.items = 0
        self.progress = TaskProgress()
        """That of a task that has closed no window."""
        self.epoch = Epoch(0)
        """The newest window that a block of its was of."""

    def start(self) -> None:
        """All workers are up, or were once."""

    def grant(self, windows: int, final: bool) -> None:
        """It reads no input."""

    def checkpoint(self, triggered: int, completed: int, savepoint: str = "") -> None:
        """No scheme that makes checkpoints has coded stages."""

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        """It saves nothing."""

    def on_reached(self, former: Former) -> None:
        """No loop has a coded stage, and no input comes into one."""

    def model(self) -> dict[str, np.ndarray]:
        """It computes nothing that lasts."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the job."""
        return {}

    def admits(self, block: Block) -> bool:
        """True when a peer of ours can have sent this."""
        return block.kind == Kind.FEEDBACK or self.half.admits(block)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        """A piece came in, a question for one, or the word that rows are whole."""
        self.port.ack(edge, sender)  # should this incarnation end, the decoder asks others for it
        if block.kind == Kind.FEEDBACK:
            self.on_feedback(sender, block)
        else:
            self.process(self.half.on_receive(self.port, edge, sender, block))

    def on_feedback(self, sender: WorkerId, block: Block) -> None:
        """Rows are whole."""
        self.half.on_commit(self.port, sender.index, block.epoch)

    def on_worker_failed(self, worker: WorkerId) -> None:
        """A worker that was up is down."""
        self.process(self.half.on_worker_failed(self.port, worker))

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new incarnation of a worker is up."""
        self.process(self.half.on_worker_restored(self.port, worker))

    def on_copy_wanted(self, worker: WorkerId, wanted: bool) -> None:
        """No replica takes rows."""

    def on_alarm(self) -> None:
        """No alarm is set here."""

    def on_durable(self, number: int) -> None:
        """It saves nothing."""

    def work(self) -> bool:
        """Send what had no room; else all is done as it comes."""
        self.half.flush(self.port)
        return False

    def close(self) -> None:
        """The worker ends."""

    def process(self, ready: Ready) -> None:
        """Compute on pieces, and send what comes of them."""
        raise NotImplementedError


class CodedStageTask(StatelessTask):
    """One whose pieces are packed blocks."""

    def __init__(self, segment: CodedSegment, port: Port, operator: DataflowOperator, upstream: str) -> None:
        super().__init__(segment, port)
        self.operator, self._upstream = operator, upstream
        self.combines = operator.combines
        self._pieces: list[dict[tuple[Epoch, int], Block]] = [{} for _ in segment.layout.sinks]
        """Data of rows that are not known to be whole, of each pair."""

    def metrics(self) -> Mapping[str, float]:
        return returns.numbers(self.operator, "metrics", self.operator.metrics())

    def on_feedback(self, sender: WorkerId, block: Block) -> None:
        super().on_feedback(sender, block)
        pieces = self._pieces[sender.index]
        self._pieces[sender.index] = {at: piece for at, piece in pieces.items() if at[0] > block.epoch}

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A decoder's new incarnation has none of the results that were sent to the incarnation before, though the
        encoder may have dealt them to it already."""
        super().on_worker_restored(worker)
        if worker in self.layout.sinks:
            self._compute(self._pieces[worker.index].values())

    def process(self, ready: Ready) -> None:
        pieces = []
        for piece in ready:
            assert not isinstance(piece, WholeRow)
            self._pieces[piece.key.sink][piece.epoch, piece.key.s_index] = piece
            pieces.append(piece)
        self._compute(pieces)

    def _compute(self, pieces: Iterable[Block]) -> None:
        for piece in pieces:
            try:
                block = unpack(piece.arrays[0])
            except FrameError as error:  # a worker of this job wrote it, so one of us is wrong
                raise AssertionError(f"row {piece.epoch} of {self.segment.stage}: {error}") from error
            result = None if block is None else computed(self.operator, block, self._upstream)
            if block is not None and block.kind == Kind.DATA:
                self.items += block.items
                self.epoch = max(self.epoch, block.epoch)
            arrays = pack_result(result)
            self.half.on_emit(
                self.port, Block(Kind.RESULT, piece.epoch, piece.key, piece.items, arrays, None, piece.meta), piece
            )
