"""The adapters: the calls of a task, in terms of `Source`, `Processor` and `Sink` (LEC III-B).

The blocks between them carry an array more than the operators see. Behind items it says the number of the first in its
source task's stream, and how many of them a coded stage gets at a time. Behind results it has a row for each, with the
number of its first item, its form and its number of arrays. By the numbers results are put in the order of the stream,
so that a model does not depend on who was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riprap.codec.ids import Epoch
from riprap.operators import returns
from riprap.operators.adapters.states import Commits, Models, own
from riprap.operators.base import Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.finite import are_finite, check_model
from riprap.operators.inputs.job_input import ENDLESS

ITEM_BYTES = 8.0
"""The bytes of an item in one column."""
Turn = Callable[[int, int], int]
"""(epoch, number of a block's first item) -> the task of the next stage that gets the block."""
RESULT, ITEMS, LINEAR = range(3)
"""Forms in which a sink gets blocks: a result; items whose result was lost; the linear part of items."""


class SourceRows:
    """The rows that a source task reads from its `Source`, and the number of the first."""

    def __init__(self, source: Source, columns: int) -> None:
        self.items = ENDLESS if source.items is None else int(source.items)
        self._source, self._columns = source, columns
        self.item_bytes = ITEM_BYTES * columns

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """Items start <= item < stop; WrongReturn where the source gives others than it was asked for."""
        rows = returns.items(self._source, start, stop, self._source.read(start, stop), self._columns)
        return rows, np.array([start, stop - start])


class SourceStage(DataflowOperator):
    """A source: hands each block to the task whose turn it is; without turns, rows to a coded stage."""

    def __init__(self, turn: Turn | None) -> None:
        self._turn = turn

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Items, and the number of the first; or a row of pieces."""
        if self._turn is None:
            out.send_row(items.arrays, items.count)  # type: ignore[attr-defined]  # the engine's own emitter
        else:
            out.send(items.arrays, items.count, to=self._turn(items.epoch, int(items.arrays[1][0])))
        return items.count


class ProcessorStage(DataflowOperator):
    """A processor: an operator for each pair of a source and a sink task. State: the feedback of each sink task."""

    def __init__(self, make: Callable[[], Processor], pairs: int) -> None:
        self.operators = [make() for _ in range(pairs)]
        self.state: Models = Models(pairs, lambda pair, model: self.operators[pair].process_feedback(model))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """A block as a source stage sends it; its result goes to the sink task of the pair."""
        rows, (start, _) = items.arrays
        operator = self.operators[items.task]
        result = returns.result(operator, "process_data", operator.process_data(rows))
        out.send([*result, np.array([[start, RESULT, len(result)]])], items.count, to=items.task)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        if items.arrays:
            self.state.set(items.task, items.arrays)


class SinkStage(DataflowOperator):
    """A sink: aggregates the results of an epoch in the order of the stream, and commits. State: its last commit.

    `trains`: a feedback edge leads to the processors. An epoch without any result (all of it was lost, or its source
    has ended) changes nothing. JobFailed for a commit that is not finite, where it must be.
    """

    def __init__(self, sink: Sink, trains: bool, must_be_finite: bool) -> None:
        self.sink, self._trains, self._must_be_finite = sink, trains, must_be_finite
        self.is_restorable = sink.is_restorable
        self.combines = sink.combines  # type: ignore[misc]  # as its own class has it
        self.state: Commits = Commits(self._snapshot, sink.restore, sink.processor.process_feedback)
        self._rows: np.ndarray | None = None
        self._columns: int | None = None

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Results as a processor stage sends them, or what they can be recomputed from (LEC's Recompute)."""
        *arrays, results = items.arrays
        at = 0
        for start, form, count in results.tolist():
            self.state.add(items.epoch, start, self._result(arrays[at : at + count], form))
            at += count
        return items.count

    def _result(self, arrays: Sequence[np.ndarray], form: int) -> Sequence[np.ndarray]:
        if form == ITEMS:
            return returns.result(self.sink, "recompute", self.sink.recompute(arrays[0]))
        if form == LINEAR:
            return returns.result(self.sink, "recompute_linear", self.sink.recompute_linear(arrays[0]))
        return arrays

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self._rows = None
        if results := self.state.take(epoch):
            self._commit(epoch, results)
        if self._trains:
            out.feed_back(self.state.feedback)

    def _commit(self, epoch: int, results: Sequence[Sequence[np.ndarray]]) -> None:
        for result in results:
            self.sink.aggregate(result)
        feedback = own(returns.arrays(self.sink, "commit", self.sink.commit(epoch)))
        if self._must_be_finite and not are_finite(feedback):
            check_model(Epoch(epoch), self.results())
        if self._trains:
            self.sink.processor.process_feedback(feedback)
        self._rows = returns.outputs(self.sink, self.sink.outputs(), self._columns)
        self._columns = self._columns if self._rows is None else self._rows.shape[1]
        self.state.commit(feedback if self._trains else (), self._rows is not None)

    def process_recovery(self, out: Emitter) -> None:
        if self._trains:
            out.feed_back(self.state.feedback)

    def outputs(self) -> np.ndarray | None:
        return self._rows

    def results(self) -> dict[str, np.ndarray]:
        """The model."""
        return returns.named_arrays(self.sink, "model", self.sink.model())

    def metrics(self) -> dict[str, float]:
        return returns.numbers(self.sink, "metrics", self.sink.metrics())

    def _snapshot(self) -> dict[str, np.ndarray]:
        return returns.named_arrays(self.sink, "snapshot", self.sink.snapshot(), kept=True)
