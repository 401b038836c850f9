"""Everything that can be found wrong with a job before anything is started: operators, options, input, faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codec.errors import ConfigError, RiprapError
from configs import topology as topologies
from configs.document import read_document
from configs.problems import FieldPath, Problem
from configs.three_stage import thread_problems, three_stage_problems
from configs.topology import Topology
from engine.cli.backup_servers import with_servers
from engine.cli.dataflow_preflight import DataflowSchema, dataflow_problems, open_dataflow, wants_dataflow
from engine.cli.fault_plan import plan_faults
from engine.cli.faults import Fault, faults_of_file, parse_fault
from engine.dataflow.build import is_dataflow
from operators.base import Context, Operator, Processor, Sink, Source
from operators.linearity import check_linear
from operators.loading import load_operator, make_operator

POSITIONS: dict[str, type[Operator]] = {"sources": Source, "processors": Processor, "sinks": Sink}
SAMPLE_ITEMS = 256
"""On how many items a processor that splits its work is tried."""


@dataclass(frozen=True)
class Schema:
    """What the opened sources say: the columns of an item, the label among them, and how many items there are."""

    columns: tuple[str, ...]
    label: str | None
    items: int | None

    def fields(self) -> dict[str, Any]:
        """What workers are told of it."""
        return {"columns": list(self.columns), "label": self.label}


@dataclass(frozen=True)
class Job:
    """What may be started, and the faults to inject into it.

    `unprotected` says why a lost sink cannot be restored, nor the job be resumed; empty when both can be done.
    """

    topology: Topology
    schema: Schema | DataflowSchema
    faults: list[Fault]
    unprotected: str = ""

    @property
    def items(self) -> int | None:
        """The length of the whole stream; None when the source does not know it."""
        return self.schema.items

    def submission(self, run: str, attempt: int, backups: Sequence[str]) -> dict[str, Any]:
        """The topology as it is submitted, with what workers would else have to ask the source or the launcher.

        `run` names the job apart from others of its name, `attempt` counts its starts, `backups` are the addresses of
        the backup servers that the launcher offers.
        """
        values = self.topology.to_dict() | {"schema": self.schema.fields(), "run": run, "attempt": attempt}
        return with_servers(values, backups)


def check_job(path: str, sets: Iterable[str], fault_specs: Iterable[str] = (), faults_file: str | None = None) -> Job:
    """Load a topology, make and open its operators once, settle its faults; any problem is a RiprapError."""
    specs = list(fault_specs)
    if faults_file:
        specs += faults_of_file(read_document(faults_file).values, faults_file)
    faults = [parse_fault(spec) for spec in specs]
    topology = topologies.load(path, sets, checks=[operator_problems])
    schema = open_dataflow(topology) if is_dataflow(topology) else open_operators(topology)
    return Job(topology, schema, plan_faults(faults, topology, schema.items), _unprotected(topology))


def operator_problems(topology: Topology) -> Iterator[Problem]:
    """Operators that cannot be made, or stand where another kind is needed."""
    if wants_dataflow(topology):
        yield from dataflow_problems(topology)
        return
    if topology.scheme == "none":
        yield from three_stage_problems(topology.shape)
    yield from thread_problems({name: stage.threads for name, stage in topology.stages.items()})
    for position, base in POSITIONS.items():
        for name in getattr(topology, position):
            stage = topology.stages[name]
            try:
                operator = load_operator(stage.operator)
            except RiprapError as error:
                yield _problem(("stages", name, "operator"), error, "an operator that can be imported")
                continue
            if not issubclass(operator, base):
                wrong = f"{stage.operator} is not a {base.__name__}"
                yield Problem(("stages", name, "operator"), wrong, f"a {base.__name__}, by its place among the edges")
                continue
            try:
                made = make_operator(stage.operator, stage.options)
            except RiprapError as error:
                yield _problem(("stages", name, "options"), error, "options that the operator takes")
                continue
            if is_hybrid(topology) and isinstance(made, Processor) and not made.is_hybrid:
                yield Problem(
                    ("stages", name, "operator"),
                    f"{stage.operator} does not split its work into process_linear and process_nonlinear",
                    "a processor that does, for the attachment is hybrid",
                    "define both in its class, or set fault_tolerance.attachment to lazy",
                )


def open_operators(topology: Topology) -> Schema:
    """Open all sources and one operator of each other stage, as workers will."""
    sources = [_open_source(topology, index) for index in range(topology.stages[topology.sources[0]].parallelism)]
    columns, label = sources[0].schema()
    processor, sink = (_make(topology, stage) for stage in (topology.processors[0], topology.sinks[0]))
    assert isinstance(processor, Processor) and isinstance(sink, Sink)
    processor.open(_context(topology, topology.processors[0], 0, columns, label))
    if is_hybrid(topology):
        check_linear(processor, sources[0].read(0, min(SAMPLE_ITEMS, sources[0].items or SAMPLE_ITEMS)))
    sink.processor = processor
    sink.open(_context(topology, topology.sinks[0], 0, columns, label))
    counts = [source.items for source in sources]
    if any(count == 0 for count in counts):
        raise ConfigError(
            f"{counts.count(0)} of {len(counts)} source tasks would have no items",
            "raise input.limit or input.repeat, or lower the source's parallelism",
        )
    items = None if None in counts else sum(count for count in counts if count is not None)
    return Schema(columns, label, items)


def is_hybrid(topology: Topology) -> bool:
    """Whether processors send linear parts of their work (LEC III-D)."""
    return topology.fault_tolerance.get("attachment") == "hybrid"


def _unprotected(topology: Topology) -> str:
    """Why a lost sink would end this job; empty when it would not."""
    if topology.backup.servers == 0:
        return "backup.servers is 0"
    if is_dataflow(topology):
        return "" if topology.scheme != "none" else "the scheme is none"
    name = topology.sinks[0]
    sink = _make(topology, name)
    assert isinstance(sink, Sink)
    return "" if sink.is_restorable else f"{topology.stages[name].operator} defines no snapshot and restore"


def _open_source(topology: Topology, index: int) -> Source:
    source = _make(topology, topology.sources[0])
    assert isinstance(source, Source)
    source.open(_context(topology, topology.sources[0], index))
    return source


def _make(topology: Topology, stage: str) -> Operator:
    return make_operator(topology.stages[stage].operator, topology.stages[stage].options)


def _context(
    topology: Topology, stage: str, index: int, columns: tuple[str, ...] = (), label: str | None = None
) -> Context:
    source_input: dict[str, Any] = asdict(topology.input)
    return Context(columns, label, topology.seed, index, topology.stages[stage].parallelism, source_input)


def _problem(path: FieldPath, error: RiprapError, expected: str) -> Problem:
    return Problem(path, str(error.args[0]), expected, error.remedy)
