"""Builds the task of one worker from the topology: operators made, opened and joined to the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.links import Window
from riprap.engine.flow.port import Port
from riprap.engine.flow.three_stage.gate import ThreeStageGate
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.sink import Journal, SinkTask
from riprap.engine.flow.three_stage.source import SourceTask, checked
from riprap.engine.flow.three_stage.task import Task
from riprap.engine.schemes import make_scheme
from riprap.engine.spreads.collector import BLOCKS_MAX
from riprap.engine.spreads.dealer import LAG_BLOCKS_MIN, LAG_SHARES
from riprap.operators.base import Context, Operator, Processor, Sink, Source
from riprap.operators.learning.classes import CLASSES
from riprap.operators.learning.curvature import unpacked_moments
from riprap.operators.loading import make_operator

ITEM_BYTES = 8  # of one column
T = TypeVar("T", bound=Operator)

WINDOW_BLOCKS_MIN = 4 * LAG_BLOCKS_MIN


class ThreeStageParts:
    """What the worker needs of this form: layout, gate, window, and the task once there is a port."""

    def __init__(self, topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> None:
        self.topology, self.schema = topology, schema
        self.layout = Layout.of(topology, me)
        self.gate = ThreeStageGate(self.layout)
        self.window = Window(window_blocks(topology, schema))

    def make_task(self, port: Port, journal: Journal | None, run_dir: Path, first_life: bool) -> Task:
        """The task of this worker."""
        scheme = make_scheme(self.layout, self.topology.fault_tolerance)
        return make_task(self.topology, self.schema, self.layout, scheme, port, journal)


def make_task(
    topology: Topology, schema: Mapping[str, Any], layout: Layout, scheme: Scheme, port: Port, journal: Journal | None
) -> Task:
    """The task of `layout.me`. `schema` holds the input's `columns` and `label`, as the submitter found them, and what
    it `verified`.

    Raises ConfigError where an operator cannot be made or opened, or an epoch would have too many blocks.
    """
    context = replace(context_of(topology, schema, layout.me), empty=port.empty)
    task = _task(topology, layout, scheme, port, context, journal)
    task.columns = len(context.columns)
    return task


def context_of(topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> Context:
    """What the operator of a worker learns when it is opened."""
    return Context(
        columns=tuple(schema["columns"]),
        label=schema["label"],
        seed=topology.seed,
        index=me.index,
        parallelism=topology.stages[me.stage].parallelism,
        input=asdict(topology.input) | {"verified": schema.get("verified", ())},
        classes=tuple(schema.get("classes", CLASSES)),
        moments=unpacked_moments(schema.get("moments")),
    )


def _task(
    topology: Topology, layout: Layout, scheme: Scheme, port: Port, context: Context, journal: Journal | None
) -> Task:
    if layout.me in layout.sources:
        return _source_task(topology, layout, scheme, port, context)
    if layout.me in layout.sinks:
        assert journal is not None
        sink = _operator(topology, layout.me.stage, Sink)
        sink.processor = _open(_operator(topology, layout.processors[0].stage, Processor), context)
        task = SinkTask(layout, scheme, port, _open(sink, context), journal)
        task.must_be_finite = not topology.keeps_bad_rows
        return task
    return ProcessorTask(layout, scheme, port, lambda: _open(_operator(topology, layout.me.stage, Processor), context))


def window_blocks(topology: Topology, schema: Mapping[str, Any]) -> int:
    """Blocks that a link may have unacknowledged: enough for the epochs under way, and for what a receiver may lag."""
    blocks = -(-topology.micro_batch * len(schema["columns"]) * ITEM_BYTES // topology.links.block_bytes)
    blocks = max(blocks, topology.fault_tolerance.get("k", 1) * topology.fault_tolerance.get("rows", 1))
    stage_tasks = max(stage.parallelism for stage in topology.stages.values())
    epochs = max(topology.links.window_epochs, LAG_SHARES + 1) + 1
    return max(WINDOW_BLOCKS_MIN, epochs * (blocks + stage_tasks))


def _source_task(topology: Topology, layout: Layout, scheme: Scheme, port: Port, context: Context) -> SourceTask:
    source = _open(_operator(topology, layout.me.stage, Source), context)
    assert source.items is not None, "checked before the job was submitted"
    links = topology.links
    blocks = -(-topology.micro_batch * 8 * len(context.columns) // links.block_bytes)
    if min(blocks, topology.micro_batch) > BLOCKS_MAX:
        raise ConfigError(
            f"an epoch of {topology.micro_batch} items would be cut into {blocks} blocks; {BLOCKS_MAX} are the most",
            "Raise links.block_bytes, or lower micro_batch.",
        )
    read = checked(source, len(context.columns))
    return SourceTask(
        layout, scheme, port, read, int(source.items), topology.micro_batch, links.block_bytes, links.window_epochs
    )


def _operator(topology: Topology, stage: str, role: type[T]) -> T:
    entry = topology.stages[stage]
    operator = make_operator(entry.operator, entry.options)
    assert isinstance(operator, role), f"{stage} is checked to be a {role.__name__} before anything starts"
    return operator


def _open(operator: T, context: Context) -> T:
    operator.open(context)
    return operator
