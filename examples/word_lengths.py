"""The mean length of words, a model of two numbers: the example of docs/operators.md."""

import numpy as np

from riprap import Processor, Sink, Source


class Words(Source):
    """Items are rows of one column: the length of a word. Replayable: the same position, the same item."""

    def __init__(self, *, words: int = 100_000) -> None:
        self._words = words

    def open(self, context) -> None:
        self._index = context.index
        self.items = self._words // context.parallelism

    def schema(self):
        return ("length",), None

    def read(self, start: int, stop: int) -> np.ndarray:
        return (np.arange(start, stop, dtype=float) * 7919 % 12 + 1).reshape(-1, 1)


class Lengths(Processor):
    """A pure function of the items and the state."""

    def process_data(self, items: np.ndarray):
        return [np.array([items.sum(), float(len(items))])]

    def process_feedback(self, feedback) -> None:
        pass  # the result does not depend on the model


class Mean(Sink):
    def __init__(self) -> None:
        self.total = np.zeros(2)

    def aggregate(self, result) -> None:
        self.total += result[0]

    def commit(self, epoch: int):
        return [self.total]

    def model(self):
        return {"sum_and_count": self.total}

    def snapshot(self):
        return {"total": self.total.copy()}

    def restore(self, snapshot) -> None:
        self.total[:] = snapshot["total"]

    def metrics(self):
        return {"mean_length": float(self.total[0] / max(self.total[1], 1))}
