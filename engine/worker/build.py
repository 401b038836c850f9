"""Builds the task of one worker of a general topology."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.gate import DataflowGate
from riprap.engine.flow.layout import DataflowLayout
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.pace import Pace
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import TaskProgress, link_key
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.scheme import Bench
from riprap.engine.flow.task import DataflowTask, WindowJournal
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.schemes import dataflow_scheme
from riprap.engine.worker.operators import Staged, graph_of_stages, input_of, opened_dataflow
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceRows, SourceStage
from riprap.operators.base import Empty
from riprap.operators.dataflow import DataflowOperator


class Hosted(NamedTuple):
    """What a task runs: its operator, and where it reads the job's input, if it does."""

    operator: DataflowOperator
    reader: Reader | None


class DataflowParts:
    """What the worker needs of this form: layout, gate, window, and the task once there is a port."""

    def __init__(self, topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> None:
        self.topology = graph_of_stages(topology) if _is_staged(schema) else topology
        self.schema = schema
        self.layout = DataflowLayout.of(self.topology, me)
        self.gate = DataflowGate(self.layout)
        self.scheme = dataflow_scheme(topology.fault_tolerance)
        self.window = self.scheme.window

    def make_task(self, port: Port, journal: WindowJournal | None, run_dir: Path, first_life: bool) -> DataflowTask:
        """The task of this worker. ConfigError where the operator cannot be made or opened."""
        topology, layout = self.topology, self.layout
        host = host_staged if _is_staged(self.schema) else host_dataflow
        operator, reader = host(topology, self.schema, layout, port.empty)
        files = WindowFiles(run_dir, layout.me.index, type(operator), topology.output if layout.is_sink else None)
        outlet = Outlet(layout, port, TaskProgress(), files)
        threads = ComputeThreads(operator, topology.stages[layout.me.stage].threads)
        pace = pace_of(topology, layout)
        task = DataflowTask(layout, port, operator, outlet, pace, reader, journal, first_life, threads)
        parts = (layout, port, operator, outlet.progress, outlet, task.inbox)
        bench = Bench(*parts, self.schema["items"], topology.backup.cpu_share)
        task.use(self.scheme(bench, topology.fault_tolerance))
        return task


def pace_of(topology: Topology, layout: DataflowLayout) -> Pace:
    """How far a task may run ahead of the feedback edges that end there."""
    stale = {edge.index: edge.stale_windows for edge in topology.in_edges(layout.me.stage) if edge.feedback}
    links = [(joint.edge, worker) for joint in layout.inputs if joint.feedback for worker in joint.workers]
    return Pace({link_key(edge, worker): stale[edge.index] for edge, worker in links})


def host_dataflow(topology: Topology, schema: Mapping[str, Any], layout: DataflowLayout, empty: Empty) -> Hosted:
    """A dataflow operator; a source reads windows that share its part of the input out evenly."""
    me = layout.me
    operator = opened_dataflow(topology, me)
    if not layout.is_source:
        return Hosted(operator, None)
    verified, tasks = schema.get("verified", ()), topology.stages[me.stage].parallelism
    part = input_of(topology, me.stage, verified, me.index, tasks)
    return Hosted(operator, Reader(part, schema["windows"], topology.links.block_bytes))


def host_staged(topology: Topology, schema: Mapping[str, Any], layout: DataflowLayout, empty: Empty) -> Hosted:
    """A Source, Processor or Sink by its adapter; epochs are cut as the three-stage form cuts them."""
    staged = Staged(topology, schema, layout.me, empty)
    if layout.is_sink:
        trains = any(edge.feedback for edge in topology.edges)
        return Hosted(SinkStage(staged.sink(), trains, not topology.keeps_bad_rows), None)
    if not layout.is_source:
        return Hosted(ProcessorStage(staged.processor, len(layout.sinks)), None)
    links, tasks = topology.links, topology.stages[topology.processors[0]].parallelism
    rows = SourceRows(staged.source(), staged.columns)
    reader = EpochReader(rows, schema["windows"], topology.micro_batch, links.block_bytes, tasks)
    return Hosted(SourceStage(reader.turn), reader)


def _is_staged(schema: Mapping[str, Any]) -> bool:
    """Whether the operators are Source, Processor and Sink: their items have columns."""
    return "columns" in schema
