"""Builds the task of one worker of the three-stage form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.links import Window
from riprap.engine.flow.port import Port
from riprap.engine.flow.rate import rate_of
from riprap.engine.flow.three_stage.gate import ThreeStageGate
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.sink import Journal, SinkTask
from riprap.engine.flow.three_stage.source import SourceTask
from riprap.engine.flow.three_stage.task import Task
from riprap.engine.schemes import make_scheme
from riprap.engine.spreads.collector import BLOCKS_MAX
from riprap.engine.spreads.dealer import LAG_BLOCKS_MIN, LAG_SHARES
from riprap.engine.worker.operators import Staged
from riprap.operators.adapters.stages import SourceRows

ITEM_BYTES = 8  # of one column
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
    staged = Staged(topology, schema, layout.me, port.empty)
    task = _task(topology, layout, scheme, port, staged, journal)
    task.columns = staged.columns
    return task


def _task(
    topology: Topology, layout: Layout, scheme: Scheme, port: Port, staged: Staged, journal: Journal | None
) -> Task:
    if layout.me in layout.sources:
        return _source_task(topology, layout, scheme, port, staged)
    if layout.me in layout.sinks:
        assert journal is not None
        task = SinkTask(layout, scheme, port, staged.sink(), journal)
        task.must_be_finite = not topology.keeps_bad_rows
        return task
    return ProcessorTask(layout, scheme, port, staged.processor)


def window_blocks(topology: Topology, schema: Mapping[str, Any]) -> int:
    """Blocks that a link may have unacknowledged: enough for the epochs under way, and for what a receiver may lag."""
    blocks = -(-topology.micro_batch * len(schema["columns"]) * ITEM_BYTES // topology.links.block_bytes)
    blocks = max(blocks, topology.fault_tolerance.get("k", 1) * topology.fault_tolerance.get("rows", 1))
    stage_tasks = max(stage.parallelism for stage in topology.stages.values())
    epochs = max(topology.links.window_epochs, LAG_SHARES + 1) + 1
    return max(WINDOW_BLOCKS_MIN, epochs * (blocks + stage_tasks))


def _source_task(topology: Topology, layout: Layout, scheme: Scheme, port: Port, staged: Staged) -> SourceTask:
    links = topology.links
    blocks = -(-topology.micro_batch * 8 * staged.columns // links.block_bytes)
    if min(blocks, topology.micro_batch) > BLOCKS_MAX:
        raise ConfigError(
            f"an epoch of {topology.micro_batch} items would be cut into {blocks} blocks; {BLOCKS_MAX} are the most",
            "Raise links.block_bytes, or lower micro_batch.",
        )
    rows = SourceRows(staged.source(), staged.columns)
    rate = rate_of(topology.input.rate, len(layout.sources), topology.micro_batch)
    epochs = None if rows.is_endless else -(-rows.items // topology.micro_batch)
    reader = EpochReader(rows, epochs, topology.micro_batch, links.block_bytes, scheme.unit, rate)
    return SourceTask(layout, scheme, port, reader, links.window_epochs)
