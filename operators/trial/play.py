"""Runs a processor and a sink over some epochs, as the workers of a job do: results in order, a commit, feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from riprap.operators import returns
from riprap.operators.base import Processor, Sink, Source
from riprap.operators.trial.arrays import copies, cut, received

EPOCHS, BLOCKS = 3, 4
"""The fewest epochs into which the items are cut, and the blocks of each of these."""

Blocks = Sequence[np.ndarray]
Make = Callable[[], tuple[Processor, Sink]]


@dataclass
class Epoch:
    """The results of one epoch: its feedback, output, model and metrics."""

    feedback: list[np.ndarray]
    outputs: np.ndarray | None
    model: dict[str, np.ndarray]
    metrics: dict[str, float]

    def arrays(self) -> list[np.ndarray]:
        """All of it except the metrics."""
        return [*self.feedback, *self.model.values(), *([] if self.outputs is None else [self.outputs])]


@dataclass
class Play:
    """A processor, and a sink with one of its own, between two epochs. Without `trains` nothing is fed back."""

    processor: Processor
    sink: Sink
    trains: bool = True
    epoch: int = 0
    _columns: int | None = field(default=None)

    def run(self, blocks: Blocks) -> Epoch:
        """One epoch. WrongReturn where a method returns what no job could go on with."""
        return self.end(self.commit(blocks))

    def commit(self, blocks: Blocks) -> list[np.ndarray]:
        """The first part of an epoch: the feedback from these blocks."""
        self.epoch += 1
        results = [self.result(block) for block in blocks]
        for result in results:
            self.sink.aggregate([received(array) for array in result])
        feedback = copies(returns.arrays(self.sink, "commit", self.sink.commit(self.epoch)))
        if self.trains:
            self.sink.processor.process_feedback(copies(feedback))
            self.processor.process_feedback([received(array) for array in feedback])
        return feedback

    def result(self, block: np.ndarray) -> list[np.ndarray]:
        """The result of one block."""
        return list(returns.result(self.processor, "process_data", self.processor.process_data(received(block))))

    def end(self, feedback: list[np.ndarray]) -> Epoch:
        """The second part: the results of a commit."""
        outputs = returns.outputs(self.sink, self.sink.outputs(), self._columns)
        if outputs is not None:
            self._columns, outputs = outputs.shape[1], np.array(outputs)
        return Epoch(feedback, outputs, self.model(), self.metrics())

    def model(self) -> dict[str, np.ndarray]:
        """The model so far; copies."""
        model = returns.named_arrays(self.sink, "model", self.sink.model())
        return {name: np.array(array) for name, array in model.items()}

    def metrics(self) -> dict[str, float]:
        """Its metrics."""
        return returns.numbers(self.sink, "metrics", self.sink.metrics())


def blocks_of(source: Source, items: int, micro_batch: int) -> Iterator[list[np.ndarray]]:
    """The first `items` of an opened source, epoch by epoch, each in some blocks; what it returns is checked."""
    columns, length = len(returns.schema(source)[0]), returns.stream_length(source)
    count = items if length is None else min(items, length)
    size = min(micro_batch, -(-count // EPOCHS))
    for start in range(0, count, max(size, 1)):
        stop = min(start + size, count)
        bounds = list(cut(np.arange(start, stop), BLOCKS))
        yield [_read(source, int(part[0]), int(part[-1]) + 1, columns) for part in bounds]


def _read(source: Source, start: int, stop: int, columns: int) -> np.ndarray:
    return np.array(returns.items(source, start, stop, source.read(start, stop), columns))
