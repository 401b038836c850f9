"""The task of a processor: computes results under the model of the epoch before (bulk-synchronous, LEC III-C)."""

from __future__ import annotations

from collections.abc import Sequence

from codec.blocks import Block, Kind
from codec.ids import Epoch, WorkerId
from engine.layout import Edge, Layout
from engine.schemes.scheme import Boundary, Port, Ready, Scheme
from engine.tasks.task import Task
from operators.base import Processor


class ProcessorTask(Task):
    """One operator per source-sink pair. With a feedback edge, a block of epoch e is processed exactly when the
    feedback of epoch e - 1 is the newest one here: later blocks are held, earlier ones are already committed and
    dropped. A restarted processor knows no epoch; it starts with the first feedback that it gets, or with epoch 1.
    """

    def __init__(self, layout: Layout, scheme: Scheme, port: Port, operators: Sequence[Processor]) -> None:
        super().__init__(layout, scheme, port)
        self.operators = operators
        self.known = [Epoch(0)] * len(operators)
        self._held: list[list[Block]] = [[] for _ in operators]

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        if block.kind == Kind.FEEDBACK:
            self._on_feedback(sender, block)
        else:
            super().on_block(edge, sender, block)

    def process(self, ready: Ready) -> None:
        for block in ready:
            assert not isinstance(block, Boundary)
            pair = block.key.sink
            if self.layout.feedback is None or block.epoch == self.known[pair] + 1:
                self._compute(block)
            elif block.epoch > self.known[pair]:
                self._held[pair].append(block)
            else:
                self.port.count("stale_blocks")

    def _on_feedback(self, sender: WorkerId, block: Block) -> None:
        pair = sender.index
        if block.epoch <= self.known[pair]:
            return
        self.operators[pair].process_feedback(block.arrays)
        self.known[pair] = block.epoch
        self.epoch = max(self.epoch, block.epoch)
        self.scheme.on_epoch(self.port, block.epoch, 0, last=False)
        held, self._held[pair] = self._held[pair], []
        self.process(held)

    def _compute(self, block: Block) -> None:
        arrays = self.operators[block.key.sink].process_data(block.arrays[0])
        self.items += block.items
        result = Block(Kind.RESULT, block.epoch, block.key, block.items, tuple(arrays), meta=block.meta)
        self.scheme.on_emit(self.port, result, block)
