"""Finds every problem of a job before anything is started: operators, options, input, faults."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.importing import own_line
from riprap.configs.document import read_document
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.controller.faults import Fault
from riprap.engine.run.cautions import cautions, old_names
from riprap.engine.run.dataflow_preflight import DataflowSchema, open_dataflow
from riprap.engine.run.fault_plan import plan_faults
from riprap.engine.run.faults import faults_of_file, parse_fault
from riprap.engine.run.operator_checks import is_hybrid, operator_problems
from riprap.engine.run.savepoint_checks import number_of_savepoint, savepoint_problems
from riprap.engine.schemes import SPREAD, scheme_class
from riprap.engine.services.backup_servers import with_servers
from riprap.engine.worker.operators import is_dataflow
from riprap.operators import returns
from riprap.operators.base import Context, Operator, Processor, Sink, Source
from riprap.operators.inputs.job_input import verify_input
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.learning.classes import CLASSES, Classes, Labels
from riprap.operators.learning.curvature import constant_features, packed_moments, second_moments
from riprap.operators.learning.linearity import check_linear
from riprap.operators.loading import make_operator
from riprap.operators.names import full_name
from riprap.operators.returns import WrongReturn

T = TypeVar("T")
OpenAll = Callable[[Topology, tuple[str, ...]], "JobSchema | DataflowSchema"]

NAMES_MAX = 8
SAMPLE_ITEMS = 256
"""The number of items on which a processor that splits its work is tried."""


@dataclass(frozen=True)
class JobSchema:
    """Schema of the opened sources: the columns of an item, the label among them, and the number of items.

    `classes` are the labels of the two classes, where the processors tell two apart.
    """

    columns: tuple[str, ...]
    label: str | None
    items: int | None
    verified: tuple[str, ...] = ()
    """Fingerprints of the input directories that were looked at (operators/inputs/shard_checks.py)."""
    classes: Classes = CLASSES
    moments: np.ndarray | None = None
    """Second moments of the features in the sources' samples, where the sink wants them
    (operators/learning/curvature.py)."""
    windows: int | None = None
    """The epochs that each sink closes; None without end."""

    def fields(self) -> dict[str, Any]:
        """The fields that workers and controllers are told."""
        told = {"columns": self.columns, "verified": self.verified, "classes": self.classes}
        moments = {} if self.moments is None else {"moments": packed_moments(self.moments)}
        values = {name: list(values) for name, values in told.items()}
        return {"label": self.label, "items": self.items, "windows": self.windows, **values, **moments}


@dataclass(frozen=True)
class CheckedJob:
    """A job that may be started, and the faults to inject into it.

    `unprotected` says why a lost sink cannot be restored, nor the job be resumed; empty when both can be done.
    `cautions` is what else the user should know before it starts.
    """

    topology: Topology
    schema: JobSchema | DataflowSchema
    faults: list[Fault]
    unprotected: str = ""
    cautions: tuple[str, ...] = ()
    checkpoints_before: int = 0
    """The number of the savepoint that it begins from; 0 for none."""

    @property
    def items(self) -> int | None:
        """The length of the whole stream; None where it has no end."""
        return self.schema.items

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the input and its label, as far as they are known."""
        return {"columns": list(self.schema.columns), "label": self.schema.label}

    def submission(self, run: str, attempt: int, backups: Sequence[str], checkpoint: int = 0) -> dict[str, Any]:
        """The topology as it is submitted, with what workers would else have to ask the source or the launcher.

        `run` names the job apart from others of its name, `attempt` counts its starts, `backups` are the addresses of
        the backup servers that the launcher offers; `checkpoint` is that of an earlier attempt to go on from.
        """
        values = self.topology.to_dict() | {"schema": self.schema.fields(), "run": run, "attempt": attempt}
        values |= {"checkpoint": checkpoint} if checkpoint else {}
        values |= {"checkpoints_before": self.checkpoints_before} if self.checkpoints_before else {}
        values["restorable"] = not self.unprotected
        return with_servers(values, backups)


def check_job(
    path: str, sets: Iterable[str], fault_specs: Iterable[str] = (), faults_file: str | None = None, verify: bool = True
) -> CheckedJob:
    """Load a topology, make and open its operators once, settle its faults; any problem is a RiprapError.

    Without `verify` no input is read beforehand, whatever the topology says.
    """
    specs = list(fault_specs)
    if faults_file:
        specs += faults_of_file(read_document(faults_file).values, faults_file)
    given, faults = _all_sound(lambda: load(path, sets, checks=[operator_problems, savepoint_problems]), specs)
    topology = given.with_operators(full_name)  # what a short name stands for is decided here, not at each worker
    if not verify:
        topology = topology.trusting_inputs()
    verified, dropped = verify_inputs(topology)
    open_all: OpenAll = open_dataflow if is_dataflow(topology) else open_operators
    schema = _opened(partial(open_all, topology, verified))
    faults = plan_faults(faults, topology, schema.items)
    told = (*dropped, *old_names(given), *cautions(topology), *_unlearnt(schema))
    return CheckedJob(topology, schema, faults, _unprotected(topology), told, number_of_savepoint(topology))


def _all_sound(load: Callable[[], Topology], specs: Sequence[str]) -> tuple[Topology, list[Fault]]:
    """The topology and the faults; one ConfigError for all problems of either."""
    wrong: list[ConfigError] = []
    given = _kept(wrong, load)
    faults = [_kept(wrong, partial(parse_fault, spec)) for spec in specs]
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        told = [f"{error.args[0]}\n    {error.remedy}" for error in wrong]
        raise ConfigError("\n".join(told), "correct the topology and the faults, as said behind each")
    return given, faults


def _kept(wrong: list[ConfigError], part: Callable[[], Any]) -> Any:
    """The result of `part`; its ConfigError is kept."""
    try:
        return part()
    except ConfigError as error:
        return wrong.append(error)


def verify_inputs(topology: Topology) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Look at the shards of all inputs once, where that is asked for: their fingerprints, and cautions for the user.

    DataError for the first file that is damaged, or row that is not finite.
    """
    verified, notes = [], []
    for source in {topology.input_of(stage) for stage in topology.sources}:
        if source.path is None or source.is_live or not source.verify:
            continue
        name, dropped = verify_input(source.path, Checks(True, source.bad_rows))
        verified.append(name)
        if dropped:
            notes.append(f"{dropped:,} rows of {source.path} hold NaN or infinity, and are dropped")
    return tuple(filter(None, verified)), tuple(notes)


def open_operators(topology: Topology, verified: tuple[str, ...]) -> JobSchema:
    """Open all sources and one operator of each other stage, as workers will."""
    sources = [
        _open_source(topology, index, verified) for index in range(topology.stages[topology.sources[0]].parallelism)
    ]
    lengths = _lengths(topology, sources)
    columns, label = returns.schema(sources[0])
    processor, sink = (_make(topology, stage) for stage in (topology.processors[0], topology.sinks[0]))
    assert isinstance(processor, Processor) and isinstance(sink, Sink)
    processor.open(_context(topology, topology.processors[0], 0, columns, label))
    if is_hybrid(topology):
        count = SAMPLE_ITEMS if lengths is None else min(SAMPLE_ITEMS, lengths[0])
        check_linear(processor, returns.items(sources[0], 0, count, sources[0].read(0, count), len(columns)))
    classes = _classes(sources, columns, label) if processor.tells_classes and label else CLASSES
    sink.processor = processor
    sink.open(_context(topology, topology.sinks[0], 0, columns, label))
    features = [index for index, name in enumerate(columns) if name != label]
    moments = second_moments(_samples(sources, len(columns)), features) if sink.wants_moments else None
    items = None if lengths is None else sum(lengths)
    windows = None if lengths is None else max(-(-length // topology.micro_batch) for length in lengths)
    return JobSchema(columns, label, items, verified, classes, moments, windows)


def _samples(sources: Sequence[Source], width: int) -> Iterator[np.ndarray]:
    for source in sources:
        yield from (returns.sampled(source, run, width)[1] for run in source.sample())


def _lengths(topology: Topology, sources: Sequence[Source]) -> list[int] | None:
    """The items of each source task, None where they have no end; ConfigError where only some have one, or no item."""
    counts = [returns.stream_length(source) for source in sources]
    if all(count is None for count in counts):
        return None
    if None in counts:
        raise ConfigError(
            f"stages.{topology.sources[0]}: some tasks of {topology.stages[topology.sources[0]].operator} have no end"
            f" (their `items` is None), others have one",
            "let `open` set `items` in all of them, or in none",
        )
    if 0 in counts:
        raise ConfigError(
            f"{counts.count(0)} of {len(counts)} source tasks would have no items",
            "raise input.limit or input.repeat, or lower the source's parallelism",
        )
    return [count for count in counts if count is not None]


def _opened(opening: Callable[[], T]) -> T:
    """The result of `opening`; ConfigError with the user's line where an operator raises or returns wrongly."""
    try:
        return opening()
    except WrongReturn as wrong:
        raise ConfigError(str(wrong.args[0]), wrong.remedy) from wrong
    except (RiprapError, BdbQuit):
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"opening the operators failed: {own_line(error)}", "Correct that line.") from error


def _classes(sources: Sequence[Source], columns: Sequence[str], label: str) -> Classes:
    """The labels of the two classes in the sources' samples; DataError when they are not two."""
    labels, index = Labels(label), columns.index(label)
    for number, source in enumerate(sources):
        for run in source.sample():
            start, items = returns.sampled(source, run, len(columns))
            labels.look(items[:, index], start, f" of source {number}" if len(sources) > 1 else "")
    return labels.classes()


def _unlearnt(schema: JobSchema | DataflowSchema) -> Iterator[str]:
    """Features whose weights are not learnt, for want of a step."""
    if isinstance(schema, DataflowSchema) or schema.moments is None:
        return
    features = [name for name in schema.columns if name != schema.label]
    if names := [features[index] for index in constant_features(schema.moments)]:
        shown = ", ".join(names[:NAMES_MAX]) + (", ..." if len(names) > NAMES_MAX else "")
        yield (
            f"{len(names)} of {len(features)} features are the same in all items that were looked at beforehand "
            f"({shown}), so their weights stay 0; a learning_rate of your own changes that"
        )


def _unprotected(topology: Topology) -> str:
    """The reason why a lost sink would end this job; empty when it would not."""
    if topology.backup.servers == 0:
        return "backup.servers is 0"
    if is_dataflow(topology) or topology.scheme not in SPREAD:
        bare = [name for name in topology.sinks if not scheme_class(topology.scheme_of(name)).saves]
        none = any(topology.scheme_of(name)["scheme"] == "none" for name in bare)
        return "" if not bare else "the scheme is none" if none else "all thresholds are infinite"
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
