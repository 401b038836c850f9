"""Makes and opens the operators that a worker needs, and says as what its task runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, TypeVar

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.schemes.registry import ENDS, SPREAD
from riprap.operators.base import Context, Empty, Operator, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.inputs.followed_files import FollowedFiles
from riprap.operators.inputs.job_input import ENDLESS, TaskInput, open_input
from riprap.operators.inputs.live_lines import LiveInput, Report
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.tcp_lines import TcpLines, addresses_of
from riprap.operators.learning.classes import CLASSES
from riprap.operators.learning.curvature import unpacked_moments
from riprap.operators.loading import load_operator, make_operator

T = TypeVar("T", bound=Operator)


def is_dataflow(topology: Topology) -> bool:
    """True when the stages are dataflow operators, and not Source, Processor and Sink; ConfigError when one cannot be
    loaded."""
    return any(issubclass(load_operator(stage.operator), DataflowOperator) for stage in topology.stages.values())


def graph_of_stages(topology: Topology) -> Topology:
    """A topology of Source, Processor and Sink as the adapters want it: each finds the task that it sends to itself.

    Under schemes that spread blocks the processors are a coded stage.
    """
    edges = tuple(replace(edge, partitioning="full") for edge in topology.edges)
    if topology.scheme not in SPREAD:
        return replace(topology, edges=edges)
    (name,) = topology.processors
    options = {"scheme": "dealt"} if topology.scheme == "none" else topology.fault_tolerance
    coded = replace(topology.stages[name], fault_tolerance=options)
    stages = MappingProxyType({**topology.stages, name: coded})
    return replace(topology, edges=edges, stages=stages, fault_tolerance=ENDS)


def graph_context(topology: Topology, me: WorkerId) -> Context:
    """The context that opens a dataflow operator."""
    tasks = {name: stage.parallelism for name, stage in topology.stages.items()}
    upstream = {e.upstream: tasks[e.upstream] for e in topology.in_edges(me.stage) if not e.feedback}
    downstream = {e.downstream: tasks[e.downstream] for e in topology.out_edges(me.stage) if not e.feedback}
    return Context(
        index=me.index, parallelism=tasks[me.stage], upstream=upstream, downstream=downstream, seed=topology.seed
    )


def context_of(topology: Topology, schema: Mapping[str, Any], me: WorkerId) -> Context:
    """The context that opens a Source, Processor or Sink."""
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


class Staged:
    """The operators of a topology of Source, Processor and Sink, made and opened for one worker.

    ConfigError where one cannot be made or opened.
    """

    def __init__(self, topology: Topology, schema: Mapping[str, Any], me: WorkerId, empty: Empty) -> None:
        self._topology = topology
        self._context = replace(context_of(topology, schema, me), empty=empty)
        (self._source,), (self._processor,), (self._sink,) = topology.sources, topology.processors, topology.sinks

    def source(self) -> Source:
        """The source."""
        return self._opened(self._source, Source)

    def processor(self) -> Processor:
        """A processor, a new one each time."""
        return self._opened(self._processor, Processor)

    def sink(self) -> Sink:
        """The sink, with a processor of its own."""
        sink = self._made(self._sink, Sink)
        sink.processor = self.processor()
        sink.open(self._context)
        return sink

    @property
    def columns(self) -> int:
        """Columns of an item."""
        return len(self._context.columns)

    def _opened(self, stage: str, role: type[T]) -> T:
        operator = self._made(stage, role)
        operator.open(self._context)
        return operator

    def _made(self, stage: str, role: type[T]) -> T:
        entry = self._topology.stages[stage]
        operator = make_operator(entry.operator, entry.options)
        assert isinstance(operator, role), f"{stage} is checked to be a {role.__name__} before anything starts"
        return operator


def opened_dataflow(topology: Topology, me: WorkerId) -> DataflowOperator:
    """The dataflow operator of a worker; ConfigError where it cannot be made or opened."""
    stage = topology.stages[me.stage]
    operator = make_operator(stage.operator, stage.options)
    assert isinstance(operator, DataflowOperator), "checked before the job was submitted"
    operator.open(graph_context(topology, me))
    return operator


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


def live_input_of(topology: Topology, stage: str, index: int, report: Report) -> LiveInput:
    """The input of a source's task that follows files, or reads from a server."""
    source = topology.input_of(stage)
    assert source.path is not None, "checked before the job was submitted"
    if addresses := addresses_of(source.path):
        return TcpLines(addresses[index], report)
    return FollowedFiles(source.path, index, topology.stages[stage].parallelism, report)


def windows_of(topology: Topology, verified: Sequence[str]) -> tuple[int | None, int | None]:
    """Number of windows of the job, and of the items of all sources; None where the inputs have no end.

    ConfigError where some have one: windows end with all sources, and the others would never.
    """
    totals = {
        stage: ENDLESS if topology.input_of(stage).is_live else input_of(topology, stage, verified).items
        for stage in topology.sources
    }
    endless = [stage for stage, total in totals.items() if total >= ENDLESS]
    if len(endless) == len(totals):
        return None, None
    if endless:
        raise ConfigError(
            f"the inputs of {', '.join(endless)} have no end, others have one",
            "let all sources repeat forever, follow files or read from a server; or none",
        )
    return max(1, -(-max(totals.values()) // topology.micro_batch)), sum(totals.values())
