"""Builds the task of one worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from riprap.codec.ids import Incarnation, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.alarms import Alarms
from riprap.engine.flow.epoch_reader import EpochReader, RowsReader
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.journal import WindowJournal
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.logged_reader import LoggedReader
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.pace import Pace
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.flow.rate import rate_of
from riprap.engine.flow.reader import InputReader, Reader
from riprap.engine.flow.scheme import Bench
from riprap.engine.flow.segment import CodedSegment, coded_stages
from riprap.engine.flow.task import Task
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.schemes.registry import scheme_class
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.coded_stage import CodedStageTask, StatelessTask
from riprap.engine.spreads.decoder import PackedDecoder, RowsDecoder
from riprap.engine.spreads.encoder import PackedEncoder, RowsEncoder
from riprap.engine.spreads.end import End, SegmentEndTask, SegmentPort
from riprap.engine.spreads.trained_stage import TrainedStageTask
from riprap.engine.worker.from_savepoint import beginning_of
from riprap.engine.worker.operators import Staged, graph_of_stages, input_of, live_input_of, opened_dataflow
from riprap.engine.worker.standby import CopiedFiles, StandbyOutputs
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceRows, SourceStage
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.outputs.transactional import TransactionalSink


class OwnPort(Port, Protocol):
    """The port of one incarnation of a worker."""

    own_incarnation: Incarnation


ENDLESS_STATES = 100
"""Windows of an input without end in which a scheme saves as many states as in a whole input that has one."""
ROW_BLOCKS, ROW_BYTES = 32, 1 << 18
"""Small blocks are dealt in rows of at most so many, and so many bytes."""
WINDOW_S = 1.0
"""After which a window of an input closes that is followed or comes over TCP, where the user has not said."""
OwnTask = Task | StatelessTask


class Hosted(NamedTuple):
    """A task's operator, its reader if it has one, and in jobs of Source, Processor and Sink the columns of an item."""

    operator: DataflowOperator
    reader: InputReader | None
    columns: int = 0
    twin: Callable[[], DataflowOperator] | None = None
    """Makes another operator as this one."""


class WorkerParts:
    """The parts of a worker: layout, gate, window, and the task once there is a port."""

    def __init__(self, topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> None:
        self.topology = graph_of_stages(topology) if _is_staged(schema) else topology
        self.schema = schema
        self.layout = Layout.of(self.topology, me)
        self.gate = TaskGate(self.layout)
        self.window = window_of(self.topology)

    def make_task(self, port: OwnPort, journal: WindowJournal | None, run_dir: Path, is_first: bool) -> OwnTask:
        """The task of this worker. ConfigError where the operator cannot be made or opened."""
        topology, layout = self.topology, self.layout
        if coded := [segment for segment in layout.segments if segment.computes]:
            return coded_task(topology, self.schema, coded[0], port)
        host = host_staged if _is_staged(self.schema) else host_dataflow
        hosted = host(topology, self.schema, layout, port)
        output = topology.output if layout.is_sink else None
        files = WindowFiles(run_dir, layout.me.index, type(hosted.operator), output)
        if isinstance(journal, StandbyOutputs):
            files = CopiedFiles(files, journal)
        items = self.schema["items"] or ENDLESS_STATES * topology.micro_batch
        task = hosting_task(topology, layout, port, hosted, files, journal, is_first, items, self.window)
        if (beginning := beginning_of(topology, layout)) is not None:
            task.begin_from(beginning)
            if isinstance(hosted.operator, TransactionalSink):
                if is_first:  # later incarnations do so as they are restored
                    hosted.operator.abort([])
                drop_what_is_left(topology, beginning.gone)
        return task


def drop_what_is_left(topology: Topology, workers: Iterable[WorkerId]) -> None:
    """Drop what tasks of a transactional stage that are no more had prepared, and nobody commits."""
    for worker in workers:
        operator = opened_dataflow(topology, worker)
        assert isinstance(operator, TransactionalSink)
        operator.abort([])


def window_of(topology: Topology) -> Window:
    """The limit on unacknowledged blocks: the same at both ends, whatever their schemes."""
    schemes = [
        scheme_class(topology.scheme_of(stage)) for stage in topology.stages if stage not in coded_stages(topology)
    ]
    return Window(max(scheme.window.blocks for scheme in schemes), max(scheme.window.nbytes for scheme in schemes))


def coded_task(topology: Topology, schema: Mapping[str, Any], segment: CodedSegment, port: Port) -> StatelessTask:
    """The task of a coded stage."""
    me = segment.layout.me
    if _is_staged(schema):
        staged = Staged(topology, schema, me, port.empty)
        return TrainedStageTask(segment, port, staged.columns, staged.processor)
    return CodedStageTask(segment, port, opened_dataflow(topology, me), segment.layout.sources[0].stage)


def hosting_task(
    topology: Topology, layout: Layout, port: OwnPort, hosted: Hosted, files: WindowFiles,
    journal: WindowJournal | None, is_first: bool, items: int, window: Window,
) -> Task:  # fmt: skip
    """The task of any other stage, joined to its scheme and to the ends of its segments."""
    operator, reader, _, twin = hosted
    alarms = Alarms(port)
    own_port = SegmentPort(port, alarms) if layout.segments else port
    outlet = Outlet(layout, own_port, TaskProgress(), files)
    stage = topology.stages[layout.me.stage]
    make = SegmentEndTask if layout.segments else Task
    threads, pace = ComputeThreads(operator, stage.threads), Pace(layout.leads)
    task = make(layout, own_port, operator, outlet, pace, reader, journal, is_first, threads)
    if isinstance(task, SegmentEndTask):
        task.join(alarms, [end_of(topology, segment, port, alarms, window, hosted) for segment in layout.segments])
    parts = (layout, own_port, operator, outlet.progress, outlet, task.inbox)
    bench = Bench(*parts, items, topology.backup.cpu_share, task.feedback, task.held, journal, twin)
    options = topology.scheme_of(layout.me.stage)
    task.use(scheme_class(options)(bench, options))
    return task


def end_of(
    topology: Topology, segment: CodedSegment, port: OwnPort, alarms: Alarms, window: Window, hosted: Hosted
) -> End:
    """A worker's end of a segment that starts or ends at it."""
    if segment.encodes and hosted.columns:
        return RowsEncoder(segment, port, alarms, port.own_incarnation, topology.links.window_epochs)
    if segment.encodes:
        return PackedEncoder(segment, port, alarms, port.own_incarnation, window.blocks)
    if isinstance(hosted.operator, SinkStage):
        linear = segment.options.get("attachment") == "hybrid"
        sends_linear = linear and hosted.operator.sink.processor.is_linear
        return RowsDecoder(segment, port, alarms, hosted.columns, linear, sends_linear)
    made = opened_dataflow(topology, segment.layout.processors[0])
    return PackedDecoder(segment, port, alarms, made, segment.layout.sources[0].stage)


def row_of(topology: Topology) -> int:
    """Blocks of a stripe row, in a graph of Source, Processor and Sink."""
    (name,) = topology.processors
    tasks, options = topology.stages[name].parallelism, topology.stages[name].fault_tolerance
    return SPREADS[options["scheme"]].row(options, tasks) if options else tasks


def row_blocks(topology: Topology) -> int:
    """Blocks that are dealt as one row: several stripe rows where blocks are small, for a row's word costs more."""
    row = row_of(topology)
    return row * max(1, min(ROW_BLOCKS // row, ROW_BYTES // (row * topology.links.block_bytes)))


def block_unit(topology: Topology) -> int:
    """Multiple that the number of an epoch's blocks is cut into."""
    (name,) = topology.processors
    return row_of(topology) * int((topology.stages[name].fault_tolerance or {}).get("rows", 1))


def host_dataflow(topology: Topology, schema: Mapping[str, Any], layout: Layout, port: OwnPort) -> Hosted:
    """A dataflow operator; a source reads windows that share its part of the input out evenly."""
    me = layout.me
    operator = opened_dataflow(topology, me)
    if not layout.is_source:
        return Hosted(operator, None, twin=partial(opened_dataflow, topology, me))
    verified, tasks = schema.get("verified", ()), topology.stages[me.stage].parallelism
    source, block_bytes = topology.input_of(me.stage), topology.links.block_bytes
    rate = rate_of(source.rate, tasks, topology.micro_batch)
    if source.is_live:
        live = live_input_of(topology, me.stage, me.index, port.report)
        window_s = source.window_seconds or WINDOW_S
        return Hosted(operator, LoggedReader(live, topology.micro_batch, window_s, block_bytes, rate))
    part = input_of(topology, me.stage, verified, me.index, tasks)
    return Hosted(operator, Reader(part, schema["windows"], block_bytes, topology.micro_batch, rate))


def host_staged(topology: Topology, schema: Mapping[str, Any], layout: Layout, port: OwnPort) -> Hosted:
    """A Source, Processor or Sink by its adapter."""
    staged = Staged(topology, schema, layout.me, port.empty)
    if layout.is_sink:
        trains = any(edge.feedback for edge in topology.edges)
        sink = partial(_sink_stage, staged, trains, not topology.keeps_bad_rows)
        return Hosted(sink(), None, staged.columns, sink)
    if not layout.is_source:
        processor = partial(ProcessorStage, staged.processor, len(layout.sinks))
        return Hosted(processor(), None, twin=processor)
    rows = SourceRows(staged.source(), staged.columns)
    rate = rate_of(topology.input.rate, len(layout.sinks), topology.micro_batch)
    cut = (rows, schema["windows"], topology.micro_batch, topology.links.block_bytes, block_unit(topology), rate)
    if layout.segments:
        return Hosted(SourceStage(None), RowsReader(*cut, row=row_blocks(topology)), staged.columns)
    reader = EpochReader(*cut)
    return Hosted(SourceStage(reader.turn), reader, staged.columns)


def _sink_stage(staged: Staged, trains: bool, must_be_finite: bool) -> SinkStage:
    return SinkStage(staged.sink(), trains, must_be_finite)


def _is_staged(schema: Mapping[str, Any]) -> bool:
    """True when the operators are Source, Processor and Sink: their items have columns."""
    return "columns" in schema
