"""Finds every problem of a job before anything is started: `check_job` is the one way in, for jobs of all kinds.

topology    configs/loading.py reads it and checks what needs no operator
operators   operator_checks.py loads and makes them, with their options and the scheme; savepoint_checks.py
faults      faults.py reads them; these three report their problems together
plan        planned.py: a budget of replicas becomes their names
input       the shards are read once, where that is asked for
shapes      the operators are opened as workers will open them: columns, lengths, windows (job_schema.py)
cautions    cautions.py: what a sound job does not promise

The kinds of operators (Source, Processor and Sink; DataflowOperators) differ in kinds/ alone.
"""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from riprap.backupserver.savepoint import Savepoint
from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.importing import own_line
from riprap.configs.document import read_document
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.controller.faults import Fault
from riprap.engine.run.cautions import cautions, old_names
from riprap.engine.run.fault_plan import plan_faults
from riprap.engine.run.faults import faults_of_file, parse_fault
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.run.kinds import kind_of
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.run.operator_checks import operator_problems
from riprap.engine.run.planned import told as told_of_plan
from riprap.engine.run.planned import with_planned_replicas
from riprap.engine.run.savepoint_checks import check_windows, savepoint_of, savepoint_problems
from riprap.engine.services.backup_servers import with_servers
from riprap.operators.inputs.job_input import verify_input
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.names import full_name
from riprap.operators.returns import WrongReturn

if TYPE_CHECKING:
    from riprap.engine.plan.document import PlanReport

T = TypeVar("T")


@dataclass(frozen=True)
class CheckedJob:
    """A job that may be started, and the faults to inject into it.

    `unprotected` says why a lost sink cannot be restored, nor the job be resumed; empty when both can be done.
    `cautions` is what else the user should know before it starts.
    """

    topology: Topology
    kind: JobKind
    schema: JobSchema
    faults: list[Fault]
    unprotected: str = ""
    cautions: tuple[str, ...] = ()
    checkpoints_before: int = 0
    """The number of the savepoint that it begins from; 0 for none."""
    plan: PlanReport | None = None
    """The plan that its budget of replicas was spent by, where it has one."""

    @property
    def items(self) -> int | None:
        """The length of the whole stream; None where it has no end."""
        return self.schema.items

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the input and its label, as far as they are known."""
        return {"columns": list(self.schema.columns), "label": self.schema.label}

    def begun_from(self, savepoint: Savepoint) -> CheckedJob:
        """The same job, which goes on where another, with the same operators, ended with this savepoint."""
        topology = replace(self.topology, start_from=str(savepoint.directory))
        return replace(self, topology=topology, checkpoints_before=savepoint.checkpoint)

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
    topology, plan = with_planned_replicas(topology)
    verified, dropped = _verify_inputs(topology)
    kind = kind_of(topology)
    schema = _opened(partial(kind.open, topology, verified))
    if (savepoint := savepoint_of(topology)) is not None:
        check_windows(savepoint, schema)
    faults = plan_faults(faults, topology, schema.items)
    planned = () if plan is None else (told_of_plan(plan),)
    told = (*dropped, *old_names(given), *planned, *cautions(topology), *kind.cautions(topology, schema))
    unprotected = "backup.servers is 0" if topology.backup.servers == 0 else kind.unprotected(topology)
    before = 0 if savepoint is None else savepoint.checkpoint
    return CheckedJob(topology, kind, schema, faults, unprotected, told, before, plan)


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


def _verify_inputs(topology: Topology) -> tuple[tuple[str, ...], tuple[str, ...]]:
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
