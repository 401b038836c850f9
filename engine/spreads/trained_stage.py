"""The task of a coded stage whose operators take models back: computes under the model of the window before, or of one
that is not much older."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads.coded_stage import StatelessTask
from riprap.engine.spreads.half import Ready, WholeRow
from riprap.engine.spreads.rows import Matrices
from riprap.operators import returns
from riprap.operators.base import Processor

UNKNOWN = Epoch(-1)
At = tuple[Epoch, int, int]
"""Row of the segment, and row and s_index of a piece in it."""


class DecoderPair:
    """A task's part for one decoder: the operator, and pieces of rows that are not known to be whole."""

    def __init__(self, operator: Processor) -> None:
        self.operator = operator
        self.whole = Epoch(0)
        """Of no row up to this one anything is needed."""
        self.known = UNKNOWN
        """The window of the model that the operator has; unknown until the decoder's present incarnation has sent
        one."""
        self.has_model = False
        """False while the operator is as it was made."""
        self.pieces: dict[At, Block] = {}
        self.computed: set[At] = set()
        """Those of the pieces whose results were sent to the decoder's present incarnation."""


class TrainedStageTask(StatelessTask):
    """One operator per pair of an encoder and a decoder. In a job that trains, a piece of window w is processed when
    the model of window w - 1 is the newest one here (BSP, LEC III-C), or of w - 1 - s under SSP(s) (AF 5).

    A task that starts, or whose decoder does, knows no model until the decoder's first feedback; that may be of an
    older window than one known before, for a decoder goes on from its last durable one. Pieces stay here until their
    row is whole, because a new incarnation of the decoder has none of the results that were sent to the incarnation
    before.
    """

    def __init__(self, segment: CodedSegment, port: Port, columns: int, make_operator: Callable[[], Processor]) -> None:
        super().__init__(segment, port)
        self._matrices, self.make_operator = Matrices(columns), make_operator
        self.linear = segment.options.get("attachment") == "hybrid"
        self.pairs = [DecoderPair(make_operator()) for _ in segment.layout.sinks]

    def admits(self, block: Block) -> bool:
        if block.kind in (Kind.DATA, Kind.PARITY):
            tells = self.segment.stale is None or "window" in block.meta
            if not tells or not self._matrices.hold(block.arrays[0]):
                return False
        return super().admits(block)

    def on_feedback(self, sender: WorkerId, block: Block) -> None:
        """Rows are whole, and where there is a model, it is of a window that has ended."""
        super().on_feedback(sender, block)
        pair = self.pairs[sender.index]
        pair.whole = max(pair.whole, block.epoch)
        pair.pieces = {at: piece for at, piece in pair.pieces.items() if at[0] > pair.whole}
        pair.computed &= pair.pieces.keys()
        if "window" in block.meta and block.meta["window"] > pair.known:
            self._enter(pair, Epoch(block.meta["window"]), block.arrays)
        self._compute(pair)

    def _enter(self, pair: DecoderPair, window: Epoch, model: tuple[np.ndarray, ...]) -> None:
        """Take over a model; one without arrays is that of a fresh operator."""
        if model:
            pair.operator.process_feedback(model)
        elif pair.has_model:
            pair.operator = self.make_operator()
        pair.has_model, pair.known = bool(model), window
        self.epoch = max(self.epoch, window)

    def on_worker_failed(self, worker: WorkerId) -> None:
        if worker in self.layout.sinks:
            pair = self.pairs[worker.index]
            pair.known = UNKNOWN
            pair.computed.clear()
        super().on_worker_failed(worker)

    def on_worker_restored(self, worker: WorkerId) -> None:
        super().on_worker_restored(worker)
        if worker in self.layout.sinks:
            self._compute(self.pairs[worker.index])

    def process(self, ready: Ready) -> None:
        for piece in ready:
            assert not isinstance(piece, WholeRow)
            pair = self.pairs[piece.key.sink]
            if piece.epoch <= pair.whole:
                self.port.count("stale_blocks")
                continue
            at = (piece.epoch, piece.key.row, piece.key.s_index)
            pair.pieces[at] = piece
            pair.computed.discard(at)  # it comes a second time because the decoder has no result of it
            if self._is_due(pair, piece):
                self._send(pair, at, piece)

    def _is_due(self, pair: DecoderPair, piece: Block) -> bool:
        stale = self.segment.stale
        if stale is None:
            return True
        return pair.known != UNKNOWN and piece.meta["window"] <= pair.known + 1 + stale

    def _compute(self, pair: DecoderPair) -> None:
        for at, piece in list(pair.pieces.items()):
            if at not in pair.computed and self._is_due(pair, piece):
                self._send(pair, at, piece)

    def _send(self, pair: DecoderPair, at: At, piece: Block) -> None:
        pair.computed.add(at)
        self.half.on_emit(self.port, self._result(pair.operator, piece), piece)

    def _result(self, operator: Processor, piece: Block) -> Block:
        items = piece.arrays[0]
        if piece.kind == Kind.PARITY:
            parity = self._linear(operator, items) if self.linear else items
            return Block(Kind.PARITY, piece.epoch, piece.key, arrays=(parity,), meta=piece.meta)
        linear = self._linear(operator, items) if self.linear else None
        arrays = self._nonlinear(operator, linear, items)
        self.items += len(items)
        return Block(Kind.RESULT, piece.epoch, piece.key, len(items), arrays, linear, piece.meta)

    def _linear(self, operator: Processor, items: np.ndarray) -> np.ndarray:
        return returns.matrix(operator, "process_linear", operator.process_linear(items), len(items))

    def _nonlinear(self, operator: Processor, linear: np.ndarray | None, items: np.ndarray) -> tuple[np.ndarray, ...]:
        """The result of a piece beside its linear part: nothing where that says it all (LEC III-D)."""
        if linear is None:
            return tuple(returns.result(operator, "process_data", operator.process_data(items)))
        if operator.is_linear:
            return ()
        return tuple(returns.result(operator, "process_nonlinear", operator.process_nonlinear(linear, items)))
