"""The task of a processor: computes results under the model of the epoch before, or of one that is not much older."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Boundary, Port, Ready
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.task import Task
from riprap.operators import returns
from riprap.operators.base import Processor

UNKNOWN = Epoch(-1)


class ProcessorTask(Task):
    """One operator per source-sink pair. In a job that trains, a block of epoch e is processed when the feedback of
    epoch e - 1 is the newest one here (BSP, LEC III-C), or of e - 1 - s under SSP(s) (AF 5): later blocks are held,
    earlier ones are committed and dropped.

    A processor that starts, or whose sink does, knows no epoch until the sink's first feedback; that may be of an older
    epoch than one known before, for a sink goes on from its last durable one. Blocks stay here until their epoch is
    committed, because a new life of the sink has none of the results that were sent to the life before.
    """

    def __init__(self, layout: Layout, scheme: Scheme, port: Port, make_operator: Callable[[], Processor]) -> None:
        super().__init__(layout, scheme, port)
        self.make_operator = make_operator
        self.operators = [make_operator() for _ in layout.sinks]
        self.known = [UNKNOWN] * len(self.operators)
        self._feedbacks = [Block(Kind.FEEDBACK, UNKNOWN) for _ in self.operators]
        self._fresh = [True] * len(self.operators)  # no feedback of the sink's present life has come yet
        self._blocks: list[dict[tuple[Epoch, Key], Block]] = [{} for _ in self.operators]
        self._ahead: list[list[Block]] = [[] for _ in self.operators]  # of a later life of the sink
        self._computed: list[set[tuple[Epoch, Key]]] = [set() for _ in self.operators]  # for the sink's present life

    @property
    def saves(self) -> bool:
        return self.scheme.saves_state

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        """Go on from what a former life saved: the states of all pairs (see `_save`), and items behind them."""
        if state is not None:
            arrays = list(state.arrays)
            for pair, (epoch, count) in enumerate(zip(state.meta["epochs"], state.meta["counts"])):
                if epoch >= 0:
                    self._enter(pair, Block(Kind.FEEDBACK, Epoch(epoch), arrays=tuple(arrays[:count])))
                del arrays[:count]
        self.process(self.scheme.on_restore(self.port, items))

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        if block.kind == Kind.FEEDBACK:
            self._on_feedback(sender, block)
        else:
            super().on_block(edge, sender, block)

    def on_worker_failed(self, worker: WorkerId) -> None:
        if worker in self.layout.sinks:
            self.known[worker.index] = UNKNOWN
            self._fresh[worker.index] = True
        super().on_worker_failed(worker)

    def process(self, ready: Ready) -> None:
        for block in ready:
            assert not isinstance(block, Boundary)
            pair = block.key.sink
            if block.epoch <= self.known[pair]:
                self._on_stale(block)
                continue
            self._blocks[pair][block.epoch, block.key] = block
            if self._is_due(block):
                self._compute(block)

    def _on_stale(self, block: Block) -> None:
        """A block of an epoch that was committed: of no use, unless the sink's present life goes on from before it.
        That is not known before its first feedback; nor is, perhaps, that life."""
        pair = block.key.sink
        if self._fresh[pair] or block.meta.get("sink_life", 1) > self.port.incarnation(self.layout.sinks[pair]):
            self._ahead[pair].append(block)
        else:
            self.port.count("stale_blocks")

    def _is_due(self, block: Block) -> bool:
        known = self.known[block.key.sink]
        return known != UNKNOWN and (not self.layout.trains or block.epoch <= known + 1 + self.layout.stale_epochs)

    def _on_feedback(self, sender: WorkerId, block: Block) -> None:
        pair = sender.index
        fresh = self._fresh[pair]
        if block.epoch <= self.known[pair] and not fresh:
            return
        self._fresh[pair] = False
        self._enter(pair, block)
        if self.scheme.saves_state:
            self._save()
        self.scheme.on_commit(self.port, pair, block.epoch)
        blocks = self._blocks[pair] = {spot: kept for spot, kept in self._blocks[pair].items() if spot[0] > block.epoch}
        self._computed[pair] = set() if fresh else self._computed[pair] & blocks.keys()
        if self.layout.trains or fresh:
            for spot, kept in list(blocks.items()):
                if spot not in self._computed[pair] and self._is_due(kept):
                    self._compute(kept)
        if fresh:
            ahead, self._ahead[pair] = self._ahead[pair], []
            self.process(ahead)

    def _enter(self, pair: int, feedback: Block) -> None:
        """Take over a state; one without arrays is that of a fresh operator."""
        if feedback.arrays:
            self.operators[pair].process_feedback(feedback.arrays)
        elif self._feedbacks[pair].arrays:
            self.operators[pair] = self.make_operator()
        self._feedbacks[pair] = feedback
        self.known[pair] = feedback.epoch
        self.epoch = max(self.epoch, feedback.epoch)

    def _save(self) -> None:
        """Persist the states of all pairs; what is behind the oldest of them stays restorable.

        A later save makes up for one that is refused.
        """
        arrays = [array for feedback in self._feedbacks for array in feedback.arrays]
        meta = {"epochs": list(self.known), "counts": [len(feedback.arrays) for feedback in self._feedbacks]}
        self.port.save("state", Epoch(max(0, min(self.known))), meta, arrays)

    def _compute(self, block: Block) -> None:
        self._computed[block.key.sink].add((block.epoch, block.key))
        operator, items = self.operators[block.key.sink], block.arrays[0]
        linear = _linear(operator, items) if self.scheme.linear else None
        if block.kind == Kind.PARITY:
            parity = items if linear is None else linear
            result = Block(Kind.PARITY, block.epoch, block.key, arrays=(parity,), meta=block.meta)
        else:
            arrays = _result(operator, linear, items)
            self.items += block.items
            result = Block(Kind.RESULT, block.epoch, block.key, block.items, arrays, linear, block.meta)
        self.scheme.on_emit(self.port, result, block)


def _linear(operator: Processor, items: np.ndarray) -> np.ndarray:
    return returns.matrix(operator, "process_linear", operator.process_linear(items), len(items))


def _result(operator: Processor, linear: np.ndarray | None, items: np.ndarray) -> tuple[np.ndarray, ...]:
    """What is sent of a block beside its linear part: nothing where that says it all (LEC III-D)."""
    if linear is None:
        return tuple(returns.result(operator, "process_data", operator.process_data(items)))
    if operator.is_linear:
        return ()
    return tuple(returns.result(operator, "process_nonlinear", operator.process_nonlinear(linear, items)))
