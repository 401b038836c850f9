"""Trains a processor and a sink in this process: the blocks of the job in their order, so the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riprap.configs.topology import Topology
from riprap.engine.flow.epoch_reader import cut
from riprap.engine.worker.build import block_unit
from riprap.engine.worker.operators import graph_of_stages
from riprap.operators.base import Context, Processor, Sink

BLOCK_BYTES = 1 << 18
"""The default of links.block_bytes."""


class LocalTraining:
    """A processor and a sink that train on the items fed to them, one micro-batch after the other.

    `unit` is what the number of a micro-batch's blocks is a multiple of (`unit_of` a job); the sums of blocks are added
    up one after the other, so that a model depends on it in the last bits. `epoch` counts the micro-batches so far.
    """

    def __init__(self, processor: Processor, sink: Sink, context: Context, micro_batch: int, unit: int = 1) -> None:
        self.processor, self.sink, self.micro_batch, self.unit = processor, sink, micro_batch, unit
        self.epoch = 0
        self._columns = len(context.columns)
        sink.processor = processor
        processor.open(context)
        sink.open(context)

    def feed(self, read: Callable[[int, int], np.ndarray], items: int) -> None:
        """Train on the items [0, items) of `read(start, stop)`, float64 (stop - start, columns); the last micro-batch
        may be smaller."""
        for start in range(0, items, self.micro_batch):
            stop = min(start + self.micro_batch, items)
            step = cut(stop - start, 8 * self._columns, BLOCK_BYTES, self.unit)
            for first in range(start, stop, step):
                self.sink.aggregate(self.processor.process_data(read(first, min(first + step, stop))))
            self.epoch += 1
            self.processor.process_feedback(self.sink.commit(self.epoch))

    def go_on_from(self, state: np.ndarray, epoch: int) -> None:
        """Take over the weights of a linear model (operators/learning/linear.py) after `epoch` micro-batches."""
        self.sink.restore(self.sink.snapshot() | {"state": state})
        self.processor.process_feedback((state,))
        self.epoch = epoch


def unit_of(topology: Topology) -> int:
    """The number that the source of a job that trains makes an epoch's blocks a multiple of."""
    return block_unit(graph_of_stages(topology))
