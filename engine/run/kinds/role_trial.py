"""The trial of Source, Processor and Sink, on the first items of the first source task."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from riprap.configs.topology import Topology
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.worker.operators import context_of
from riprap.operators.base import Context, Processor, Sink, Source
from riprap.operators.loading import make_operator
from riprap.operators.trial import processor, sink, source
from riprap.operators.trial.law import Cause, Outcome, try_laws
from riprap.operators.trial.play import blocks_of
from riprap.operators.trial.subjects import opened_processor, opened_sink, opened_source

NO_SOURCE = "the source gives no items to try it on"


def outcomes(topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
    """Law by law, of the first task of each stage."""
    names = (topology.sources[0], topology.processors[0], topology.sinks[0])
    makes = [partial(make_operator, topology.stages[name].operator, topology.stages[name].options) for name in names]
    contexts = [_context(topology, schema, name) for name in names]
    keeps = topology.keeps_bad_rows
    trains = any(edge.feedback for edge in topology.edges)

    read = partial(opened_source, cast(type[Source], makes[0]), contexts[0])
    yield from try_laws(names[0], source.SourceCase(read, items, keeps), source.LAWS, complaints)
    if contexts[0].parallelism > 1:
        yield Outcome(names[0], "its other tasks", not_tried="they are opened, not read")
    epochs = _epochs(read, items, topology.micro_batch)
    if not epochs:
        yield from (Outcome(names[1], law.text, not_tried=NO_SOURCE) for law in processor.LAWS)
        yield from (Outcome(names[2], law.text, not_tried=NO_SOURCE) for law in sink.LAWS)
        return
    make = partial(opened_processor, cast(type[Processor], makes[1]), contexts[1])
    of_sink = partial(opened_sink, cast(type[Sink], makes[2]), cast(type[Processor], makes[1]), contexts[2])
    pair = sink.SinkCase(lambda: (make(), of_sink()), epochs, trains, keeps)
    feedbacks = sink.fed_back(pair)
    of_processor = processor.ProcessorCase(make, epochs[-1], feedbacks, keeps)
    yield from try_laws(names[1], of_processor, processor.LAWS, complaints)
    yield from try_laws(names[2], pair, sink.LAWS, complaints)


def _context(topology: Topology, schema: JobSchema, stage: str) -> Context:
    """The context of a worker of the first task; a source is opened before its columns are known."""
    context = context_of(topology, schema.fields(), topology.tasks(stage)[0])
    return replace(context, columns=(), label=None) if stage in topology.sources else context


def _epochs(read: Callable[[], Source], items: int, micro_batch: int) -> list[list[np.ndarray]]:
    """The items that are tried; none where the source cannot give them, which has been complained about."""
    try:
        return list(blocks_of(read(), items, micro_batch))
    except BdbQuit:
        raise
    except (Exception, SystemExit):
        return []
