"""The trial of DataflowOperators: all stages run over some windows of the input, then each operator alone."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Iterator
from functools import partial
from typing import cast

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.configs.shape import targets
from riprap.configs.topology import Topology
from riprap.engine.flow.segment import coded_stages
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.schemes.registry import scheme_class
from riprap.engine.worker.operators import graph_context, input_of
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.inputs.job_input import TaskInput
from riprap.operators.loading import make_operator
from riprap.operators.trial import dataflow, states
from riprap.operators.trial.arrays import cut
from riprap.operators.trial.graph import Graph, Route
from riprap.operators.trial.law import Cause, Law, Outcome, try_laws
from riprap.operators.trial.play import BLOCKS, EPOCHS


def outcomes(topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
    """Law by law, of the task of each stage that got the most."""
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
    """All tasks, in this process."""
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


def _input(topology: Topology, stage: str, verified: tuple[str, ...], index: int) -> TaskInput:
    """The input of a source task; ConfigError for one that goes on and of which nothing is there to be read."""
    try:
        return input_of(topology, stage, verified, index, len(topology.tasks(stage)))
    except DataError as error:
        source = topology.input_of(stage)
        if not source.is_live:
            raise
        raise ConfigError(
            f"stages.{stage} reads {source.path} as it comes, and nothing of it can be tried on",
            "try its operators on such lines in a text file: --set input={path: FILE.txt}",
        ) from error


def _run(graph: Graph, topology: Topology, schema: JobSchema, items: int) -> None:
    """Some windows of the input. Where an operator raises, it ends there: its laws say why."""
    inputs = {
        (name, task.index): _input(topology, name, schema.verified, task.index)
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
