"""Tries operators in the tests of their users, as `riprap check` does; all complaints make one AssertionError.

    from riprap.testing import check_processor, run

    def test_my_processor():
        check_processor(MyProcessor(rate=0.1), items)

An operator is handed over as a class, or made but not opened: fresh copies are made of it as they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath

import numpy as np

from riprap.operators.base import Context, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.returns import schema
from riprap.operators.trial import dataflow, processor, sink, source, states
from riprap.operators.trial.arrays import aligned, cut
from riprap.operators.trial.graph import Outbox, Route, calls_of
from riprap.operators.trial.law import Law, Outcome, T, try_laws
from riprap.operators.trial.play import BLOCKS, EPOCHS, Play, blocks_of
from riprap.operators.trial.subjects import maker, opened_processor, opened_sink, opened_source

__all__ = ["Result", "check_operator", "check_processor", "check_sink", "check_source", "check_topology", "run"]

ITEMS = 10_000
"""Number of items tried, unless told."""

Block = np.ndarray | Sequence[np.ndarray] | Items


@dataclass(frozen=True)
class Result:
    """The model of a sink, its metrics, and the rows that it put out (None: none)."""

    model: dict[str, np.ndarray]
    metrics: dict[str, float]
    outputs: np.ndarray | None


def check_source(source_: type[Source] | Source, context: Context | None = None, items: int = ITEMS) -> None:
    """Try a source on its first items: the same rows each time, however they are asked for."""
    __tracebackhide__ = True
    make = partial(opened_source, maker(source_), context or Context())
    _tell(_outcomes(source_, source.SourceCase(make, items), source.LAWS))


def check_processor(
    processor_: type[Processor] | Processor,
    items: np.ndarray,
    feedback: Sequence[Sequence[np.ndarray]] = (),
    context: Context | None = None,
) -> None:
    """Try a processor on items (rows, columns), under the last of a sink's feedback, epoch by epoch.

    The context names the columns and the label; without one they are c0, c1, ... and there is no label.
    """
    __tracebackhide__ = True
    make = partial(opened_processor, maker(processor_), context or _context(items))
    case = processor.ProcessorCase(make, list(cut(items, BLOCKS)), feedback)
    _tell(_outcomes(processor_, case, processor.LAWS))


def check_sink(
    sink_: type[Sink] | Sink,
    processor_: type[Processor] | Processor,
    items: np.ndarray,
    context: Context | None = None,
    trains: bool = True,
) -> None:
    """Try a sink behind a processor, on items (rows, columns) cut into some epochs.

    The context is as in `check_processor`. `trains`: its commits are fed back.
    """
    __tracebackhide__ = True
    context = context or _context(items)
    make, of_sink = maker(processor_), partial(opened_sink, maker(sink_), maker(processor_), context)
    epochs = [list(cut(part, BLOCKS)) for part in cut(items, EPOCHS)]
    case = sink.SinkCase(lambda: (opened_processor(make, context), of_sink()), epochs, trains)
    _tell(_outcomes(sink_, case, sink.LAWS))


def check_operator(
    operator: type[DataflowOperator] | DataflowOperator, blocks: Iterable[Block], context: Context | None = None
) -> None:
    """Try a DataflowOperator on blocks, in three windows of about as many blocks each.

    A block is an array with an item a row, several arrays, the first of which has as many rows as there are items, or
    Items. The context says which stages it may send to; without one that is a stage `next` of two tasks, and back to a
    stage `before`.
    """
    __tracebackhide__ = True
    context = context or Context(index=0, parallelism=1, upstream={"before": 1}, downstream={"next": 2})
    ways = [(context.downstream, False), (context.upstream, True)]
    routes = [
        Route("", name, [range(tasks)] * context.parallelism, feedback)
        for stages, feedback in ways
        for name, tasks in (stages or {}).items()
    ]
    make, outbox = partial(_started, operator, context), partial(Outbox, context.index, routes)
    calls = calls_of(make(), outbox(), _windows([_items(block) for block in blocks]))
    case = dataflow.OperatorCase(make, outbox, calls)
    laws: tuple[Law[dataflow.OperatorCase], ...] = (*dataflow.LAWS, *states.LAWS)
    _tell(_outcomes(operator, case, laws))


def check_topology(path: str | PathLike[str], sets: Iterable[str] = (), items: int = ITEMS) -> None:
    """Try all operators of a topology file on its own input; `sets` are changes to it, as of `--set`.

    RiprapError where the topology itself is wrong.
    """
    __tracebackhide__ = True
    from riprap.engine.run.trial import Trial

    _tell(Trial.of(fspath(path), sets, items).outcomes())


def run(
    source_: type[Source] | Source,
    processor_: type[Processor] | Processor,
    sink_: type[Sink] | Sink,
    items: int = ITEMS,
    micro_batch: int = 1000,
    context: Context | None = None,
) -> Result:
    """Run the first items of a source through a processor and a sink, in this process, with feedback.

    Epochs are of `micro_batch` items, or shorter, so that there are three. The context is that of the source; its
    columns and its label are the source's own. Errors of the operators are raised as they are.
    """
    opened = opened_source(maker(source_), context or Context())
    columns, label = schema(opened)
    known = replace(context or Context(), columns=columns, label=label)
    make = maker(processor_)
    play = Play(opened_processor(make, known), opened_sink(maker(sink_), make, known))
    epochs = [play.run(blocks) for blocks in blocks_of(opened, items, micro_batch)]
    rows = [epoch.outputs for epoch in epochs if epoch.outputs is not None]
    return Result(play.model(), play.metrics(), np.concatenate(rows) if rows else None)


def _context(items: np.ndarray) -> Context:
    return Context(tuple(f"c{number}" for number in range(items.shape[1])))


def _started(operator: type[DataflowOperator] | DataflowOperator, context: Context) -> DataflowOperator:
    made = maker(operator)()
    made.open(context)
    return made


def _items(block: Block) -> Items:
    if isinstance(block, Items):
        return block._replace(arrays=tuple(aligned(array) for array in block.arrays))
    arrays = (block,) if isinstance(block, np.ndarray) else block
    return Items(1, "", 0, len(arrays[0]), tuple(aligned(array) for array in arrays))


def _windows(blocks: Sequence[Items]) -> Iterable[Items | int]:
    """The blocks, each in its window, and behind each window its number."""
    for window in range(EPOCHS):
        for items in blocks[len(blocks) * window // EPOCHS : len(blocks) * (window + 1) // EPOCHS]:
            yield items._replace(epoch=window + 1)
        yield window + 1


def _outcomes(operator: object, case: T, laws: Sequence[Law[T]]) -> Iterable[Outcome]:
    kind = operator if isinstance(operator, type) else type(operator)
    return try_laws(kind.__name__, case, laws)


def _tell(outcomes: Iterable[Outcome]) -> None:
    """AssertionError with all complaints, if there are any."""
    __tracebackhide__ = True
    found = [f"{outcome.law}: {outcome.complaint}" for outcome in outcomes if outcome.complaint]
    if found:
        count = f"{len(found)} complaint{'' if len(found) == 1 else 's'}"
        raise AssertionError("\n".join([count, *(f"- {text}" for text in found)]))
