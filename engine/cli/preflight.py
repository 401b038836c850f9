"""Everything that can be found wrong with a job before anything is started: operators, options, input, faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from codec.codes.laws import check_code
from codec.errors import ConfigError, RiprapError
from configs import topology as topologies
from configs.document import read_document
from configs.problems import FieldPath, Problem
from configs.three_stage import thread_problems, three_stage_problems
from configs.topology import Topology
from controller.faults import Fault
from engine.cli.backup_servers import with_servers
from engine.cli.cautions import cautions
from engine.cli.dataflow_preflight import DataflowSchema, dataflow_problems, open_dataflow, wants_dataflow
from engine.cli.fault_plan import plan_faults
from engine.cli.faults import faults_of_file, parse_fault
from engine.dataflow.build import is_dataflow
from engine.schemes import dataflow_scheme
from operators.base import Context, Operator, Processor, Sink, Source
from operators.classes import CLASSES, Classes, Labels
from operators.dataflow.inputs import verify_input
from operators.linearity import check_linear
from operators.loading import load_operator, make_operator
from operators.shard_checks import Checks

POSITIONS: dict[str, type[Operator]] = {"sources": Source, "processors": Processor, "sinks": Sink}
SAMPLE_ITEMS = 256
"""On how many items a processor that splits its work is tried."""


@dataclass(frozen=True)
class Schema:
    """What the opened sources say: the columns of an item, the label among them, and how many items there are.

    `classes` are the labels of the two classes, where the processors tell two apart.
    """

    columns: tuple[str, ...]
    label: str | None
    items: int
    verified: tuple[str, ...] = ()
    """Fingerprints of the input directories that were looked at (operators/shard_checks.py)."""
    classes: Classes = CLASSES

    def fields(self) -> dict[str, Any]:
        """What workers and controllers are told of it."""
        told = {"columns": self.columns, "verified": self.verified, "classes": self.classes}
        return {"label": self.label, "items": self.items, **{name: list(values) for name, values in told.items()}}


@dataclass(frozen=True)
class Job:
    """What may be started, and the faults to inject into it.

    `unprotected` says why a lost sink cannot be restored, nor the job be resumed; empty when both can be done.
    `cautions` is what else the user should know before it starts.
    """

    topology: Topology
    schema: Schema | DataflowSchema
    faults: list[Fault]
    unprotected: str = ""
    cautions: tuple[str, ...] = ()

    @property
    def items(self) -> int:
        """The length of the whole stream."""
        return self.schema.items

    def submission(self, run: str, attempt: int, backups: Sequence[str]) -> dict[str, Any]:
        """The topology as it is submitted, with what workers would else have to ask the source or the launcher.

        `run` names the job apart from others of its name, `attempt` counts its starts, `backups` are the addresses of
        the backup servers that the launcher offers.
        """
        values = self.topology.to_dict() | {"schema": self.schema.fields(), "run": run, "attempt": attempt}
        return with_servers(values, backups)


def check_job(
    path: str, sets: Iterable[str], fault_specs: Iterable[str] = (), faults_file: str | None = None, verify: bool = True
) -> Job:
    """Load a topology, make and open its operators once, settle its faults; any problem is a RiprapError.

    Without `verify` no input is read beforehand, whatever the topology says.
    """
    specs = list(fault_specs)
    if faults_file:
        specs += faults_of_file(read_document(faults_file).values, faults_file)
    faults = [parse_fault(spec) for spec in specs]
    topology = topologies.load(path, sets, checks=[operator_problems])
    if not verify:
        topology = topology.trusting_inputs()
    verified, dropped = verify_inputs(topology)
    open_all = open_dataflow if is_dataflow(topology) else open_operators
    schema = open_all(topology, verified)
    faults = plan_faults(faults, topology, schema.items)
    return Job(topology, schema, faults, _unprotected(topology), (*dropped, *cautions(topology)))


def verify_inputs(topology: Topology) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Look at the shards of all inputs once, where that is asked for: their fingerprints, and cautions for the user.

    DataError for the first file that is damaged, or row that is not finite.
    """
    verified, notes = [], []
    for source in {topology.input_of(stage) for stage in topology.sources}:
        if source.path is None or not source.verify:
            continue
        name, dropped = verify_input(source.path, Checks(True, source.bad_rows))
        verified.append(name)
        if dropped:
            notes.append(f"{dropped:,} rows of {source.path} hold NaN or infinity, and are dropped")
    return tuple(filter(None, verified)), tuple(notes)


def operator_problems(topology: Topology) -> Iterator[Problem]:
    """Operators that cannot be made, or stand where another kind is needed."""
    if wants_dataflow(topology):
        yield from dataflow_problems(topology)
        return
    if topology.scheme == "none":
        yield from three_stage_problems(topology.shape)
    if ":" in topology.fault_tolerance.get("code", ""):
        yield from _code_problems(topology.fault_tolerance)
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
                    f"{stage.operator} does not split its work: it defines no process_linear",
                    "a processor that does, for the attachment is hybrid",
                    "define it (what is not linear goes into process_nonlinear), or set attachment to lazy",
                )


def _code_problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with a code of the user's own."""
    path = ("fault_tolerance", "code")
    try:
        code = check_code(options["code"], options["k"], options["r"])
    except RiprapError as error:
        yield _problem(path, error, "a code of which any k blocks give back the data")
        return
    if options["attachment"] == "hybrid" and not code.linear:
        wrong = f"{options['code']} does not say that it commutes with linear functions"
        yield Problem(path, wrong, "a code with linear = True, for the attachment is hybrid", "set attachment to lazy")


def open_operators(topology: Topology, verified: tuple[str, ...]) -> Schema:
    """Open all sources and one operator of each other stage, as workers will."""
    sources = [
        _open_source(topology, index, verified) for index in range(topology.stages[topology.sources[0]].parallelism)
    ]
    items = _length(topology, sources)
    columns, label = sources[0].schema()
    processor, sink = (_make(topology, stage) for stage in (topology.processors[0], topology.sinks[0]))
    assert isinstance(processor, Processor) and isinstance(sink, Sink)
    processor.open(_context(topology, topology.processors[0], 0, columns, label))
    if is_hybrid(topology):
        check_linear(processor, sources[0].read(0, min(SAMPLE_ITEMS, sources[0].items or 0)))
    classes = _classes(sources, columns.index(label), label) if processor.tells_classes and label else CLASSES
    sink.processor = processor
    sink.open(_context(topology, topology.sinks[0], 0, columns, label))
    return Schema(columns, label, items, verified, classes)


def _length(topology: Topology, sources: Sequence[Source]) -> int:
    """The items of all source tasks; ConfigError for a source without an end, or without any item."""
    counts = [source.items for source in sources]
    if None in counts:
        raise ConfigError(
            f"stages.{topology.sources[0]}: {topology.stages[topology.sources[0]].operator} has no end (its `items` is"
            " None), and streams without end are not supported yet",
            "set `items` in its `open` to the number of items of this task, for example that of input.limit",
        )
    if 0 in counts:
        raise ConfigError(
            f"{counts.count(0)} of {len(counts)} source tasks would have no items",
            "raise input.limit or input.repeat, or lower the source's parallelism",
        )
    return sum(count for count in counts if count is not None)


def _classes(sources: Sequence[Source], index: int, label: str) -> Classes:
    """The labels of the two classes in the sources' samples; DataError when they are not two."""
    labels = Labels(label)
    for number, source in enumerate(sources):
        for start, items in source.sample():
            labels.look(items[:, index], start, f" of source {number}" if len(sources) > 1 else "")
    return labels.classes()


def is_hybrid(topology: Topology) -> bool:
    """Whether processors send linear parts of their work (LEC III-D)."""
    return topology.fault_tolerance.get("attachment") == "hybrid"


def _unprotected(topology: Topology) -> str:
    """Why a lost sink would end this job; empty when it would not."""
    if topology.backup.servers == 0:
        return "backup.servers is 0"
    if is_dataflow(topology):
        saves = dataflow_scheme(topology.fault_tolerance).saves
        return "" if saves else "the scheme is none" if topology.scheme == "none" else "all thresholds are infinite"
    name = topology.sinks[0]
    sink = _make(topology, name)
    assert isinstance(sink, Sink)
    return "" if sink.is_restorable else f"{topology.stages[name].operator} defines no snapshot and restore"


def _open_source(topology: Topology, index: int, verified: tuple[str, ...]) -> Source:
    source = _make(topology, topology.sources[0])
    assert isinstance(source, Source)
    context = _context(topology, topology.sources[0], index)
    source.open(replace(context, input={**context.input, "verified": verified}))
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
