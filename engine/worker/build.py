"""Builds the task of one worker of a general topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
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
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.inputs.job_input import ENDLESS, TaskInput, open_input
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.loading import load_operator, make_operator

ENDLESS_STATES = 100
"""Windows of an input without end in which a scheme saves as many states as in a whole input that has one."""


def is_dataflow(topology: Topology) -> bool:
    """Whether the stages are dataflow operators; ConfigError when one cannot be loaded."""
    return any(issubclass(load_operator(stage.operator), DataflowOperator) for stage in topology.stages.values())


def graph_context(topology: Topology, me: WorkerId) -> Context:
    """What the operator of a task learns when it is opened."""
    tasks = {name: stage.parallelism for name, stage in topology.stages.items()}
    upstream = {e.upstream: tasks[e.upstream] for e in topology.in_edges(me.stage) if not e.feedback}
    downstream = {e.downstream: tasks[e.downstream] for e in topology.out_edges(me.stage) if not e.feedback}
    return Context(
        index=me.index, parallelism=tasks[me.stage], upstream=upstream, downstream=downstream, seed=topology.seed
    )


def input_of(
    topology: Topology, stage: str, verified: Sequence[str], index: int = 0, parallelism: int = 1
) -> TaskInput:
    """The part of the input that a task of a source reads; DataError when it cannot be read.

    What is `verified` (see operators/inputs/shard_checks.py) is not looked at again.
    """
    source = topology.input_of(stage)
    assert source.path is not None, "checked before the job was submitted"
    checks = Checks(source.verify, source.bad_rows, verified)
    repeat = ENDLESS if source.repeat == "forever" else source.repeat
    return open_input(source.path, repeat, source.limit, index, parallelism, checks)


def windows_of(topology: Topology, verified: Sequence[str]) -> tuple[int | None, int | None]:
    """How many windows the job has, and the items of all sources; None where the inputs have no end.

    ConfigError where some have one: windows end with all sources, and the others would never.
    """
    totals = {stage: input_of(topology, stage, verified).items for stage in topology.sources}
    endless = [stage for stage, total in totals.items() if total >= ENDLESS]
    if len(endless) == len(totals):
        return None, None
    if endless:
        raise ConfigError(
            f"the inputs of {', '.join(endless)} have no end, others have one",
            "let all sources repeat forever, or none",
        )
    return max(1, -(-max(totals.values()) // topology.micro_batch)), sum(totals.values())


class DataflowParts:
    """What the worker needs of this form: layout, gate, window, and the task once there is a port."""

    def __init__(self, topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> None:
        self.topology, self.schema = topology, schema
        self.layout = DataflowLayout.of(topology, me)
        self.gate = DataflowGate(self.layout)
        self.scheme = dataflow_scheme(topology.fault_tolerance)
        self.window = self.scheme.window

    def make_task(self, port: Port, journal: WindowJournal | None, run_dir: Path, first_life: bool) -> DataflowTask:
        """The task of this worker. ConfigError where the operator cannot be made or started."""
        topology, layout = self.topology, self.layout
        stage = topology.stages[layout.me.stage]
        operator = make_operator(stage.operator, stage.options)
        assert isinstance(operator, DataflowOperator), "checked before the job was submitted"
        operator.open(graph_context(topology, layout.me))
        files = WindowFiles(run_dir, layout.me.index, type(operator), topology.output if layout.is_sink else None)
        outlet = Outlet(layout, port, TaskProgress(), files)
        stale = {edge.index: edge.stale_windows for edge in topology.in_edges(layout.me.stage) if edge.feedback}
        links = [(joint.edge, worker) for joint in layout.inputs if joint.feedback for worker in joint.workers]
        pace = Pace({link_key(edge, worker): stale[edge.index] for edge, worker in links})
        reader = None
        if layout.is_source:
            verified = self.schema.get("verified", ())
            source = input_of(topology, layout.me.stage, verified, layout.me.index, stage.parallelism)
            reader = Reader(source, self.schema["windows"], topology.links.block_bytes, topology.micro_batch)
        threads = ComputeThreads(operator, stage.threads)
        task = DataflowTask(layout, port, operator, outlet, pace, reader, journal, first_life, threads)
        parts = (layout, port, operator, outlet.progress, outlet, task.inbox)
        bench = Bench(*parts, self.schema["items"] or ENDLESS_STATES * topology.micro_batch, topology.backup.cpu_share)
        task.use(self.scheme(bench, topology.fault_tolerance))
        return task
