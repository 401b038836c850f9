"""Tries the operators of a topology in this process, on its own input, for `riprap check` and `riprap.testing`."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from riprap.configs.topology import Topology
from riprap.engine.flow.layout import targets
from riprap.engine.flow.segment import coded_stages
from riprap.engine.run.dataflow_preflight import DataflowSchema
from riprap.engine.run.preflight import CheckedJob, JobSchema, check_job
from riprap.engine.schemes import scheme_class
from riprap.engine.worker.operators import context_of, graph_context, input_of
from riprap.operators.base import Context, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import make_operator
from riprap.operators.trial import dataflow, processor, sink, source, states
from riprap.operators.trial.arrays import cut
from riprap.operators.trial.graph import Graph, Route
from riprap.operators.trial.law import RESTS, Cause, Law, Outcome, try_laws
from riprap.operators.trial.play import BLOCKS, EPOCHS, blocks_of
from riprap.operators.trial.subjects import opened_processor, opened_sink, opened_source

ITEMS = 10_000
"""Number of items tried where nobody says."""

NO_SOURCE = "the source gives no items to try it on"
NEVER = "What takes several processes (links, failures, speed) is not checked: run the job for that."


@dataclass
class Trial:
    """A job whose operators are tried on at most `items` items of its stream."""

    job: CheckedJob
    items: int = ITEMS
    _complaints: set[Cause] = field(default_factory=set)

    @classmethod
    def of(cls, path: str, sets: Iterable[str] = (), items: int = ITEMS, verify: bool = True) -> Trial:
        """The trial of a topology file. RiprapError for whatever is wrong with it already before it is run."""
        return cls(check_job(path, sets, verify=verify), items)

    @property
    def tried_items(self) -> int:
        """Number of items tried, about: of all sources together, in three stages of the first one."""
        if self.job.items is None:
            return self.items
        topology = self.job.topology
        if isinstance(self.job.schema, DataflowSchema):
            return min(self.items, self.job.items)
        return min(self.items, -(-self.job.items // topology.stages[topology.sources[0]].parallelism))

    def outcomes(self) -> Iterator[Outcome]:
        """Law by law, stage by stage, as they are tried."""
        schema = self.job.schema
        if isinstance(schema, DataflowSchema):
            yield from _of_graph(self.job.topology, schema, self.tried_items, self._complaints)
        else:
            yield from _of_three_stages(self.job.topology, schema, self.tried_items, self._complaints)


def unchecked(outcomes: Sequence[Outcome]) -> list[str]:
    """The laws that were not tried: a line for each reason of each stage."""
    found: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.not_tried:
            found.setdefault((outcome.subject, outcome.not_tried), []).append(outcome.law)
    told = {
        (stage, why): f"{len(laws)} more" if why == RESTS else ", ".join(laws) for (stage, why), laws in found.items()
    }
    return [f"{stage}: {what} ({why})" for (stage, why), what in told.items()] + [NEVER]


def _of_three_stages(topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
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


def _of_graph(topology: Topology, schema: DataflowSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
    graph, coded = graph_of(topology), coded_stages(topology)
    _run(graph, topology, schema, items)
    for name, tasks in graph.stages.items():
        task = graph.broken if graph.broken in tasks else max(tasks, key=lambda task: len(task.calls))
        assert task is not None
        case = dataflow.OperatorCase(
            make=partial(graph.started, name, task.context),
            outbox=partial(graph.outbox, name, task.context),
            calls=task.calls,
            is_saved=name not in coded and scheme_class(topology.scheme_of(name)).saves,
            is_exact=name in coded or scheme_class(topology.scheme_of(name)).exact,
            is_destination=name in topology.sinks,
            keeps_bad_rows=topology.keeps_bad_rows,
        )
        laws: tuple[Law[dataflow.OperatorCase], ...] = (*dataflow.LAWS, *states.LAWS)
        yield from try_laws(name, case, laws, complaints)


def graph_of(topology: Topology) -> Graph:
    """All tasks of a general topology, in this process."""
    contexts = {name: [graph_context(topology, task) for task in topology.tasks(name)] for name in _in_order(topology)}
    routes = []
    for edge in topology.edges:
        upstream, downstream = (len(contexts[name]) for name in (edge.upstream, edge.downstream))
        joined = [targets(edge, upstream, downstream, index) for index in range(upstream)]
        in_turn = edge.partitioning in ("split", "stripe") and not edge.feedback
        routes.append(Route(edge.upstream, edge.downstream, joined, edge.feedback, in_turn))

    def make(stage: str) -> DataflowOperator:
        return cast(DataflowOperator, make_operator(topology.stages[stage].operator, topology.stages[stage].options))

    return Graph(contexts, routes, make)


def _in_order(topology: Topology) -> list[str]:
    """The stages, each behind those that send to it."""
    ordered: list[str] = []
    while len(ordered) < len(topology.stages):
        for name in topology.stages:
            before = {edge.upstream for edge in topology.in_edges(name) if not edge.feedback}
            if name not in ordered and before <= set(ordered):
                ordered.append(name)
    return ordered


def _run(graph: Graph, topology: Topology, schema: DataflowSchema, items: int) -> None:
    """Some windows of the input. Where an operator raises, it ends there: its laws say why."""
    inputs = {
        (name, task.index): input_of(topology, name, schema.verified, task.index, len(topology.tasks(name)))
        for name in topology.sources
        for task in topology.tasks(name)
    }
    share = -(-items // len(inputs))
    try:
        for window in range(EPOCHS):
            for (name, index), rows in inputs.items():
                count = min(share, rows.items)
                part = range(count * window // EPOCHS, count * (window + 1) // EPOCHS)
                for piece in cut(np.arange(part.start, part.stop), BLOCKS):
                    if len(piece):
                        start, stop = int(piece[0]), int(piece[-1]) + 1
                        graph.feed(name, index, rows.read(start, stop), stop - start)
            graph.close()
    except BdbQuit:
        raise
    except (Exception, SystemExit):
        if graph.broken is None:
            raise
