"""Checks of the savepoint that a job is to begin from: stages and states that are missing, or left
over, and tasks that its parts cannot be dealt out to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from riprap.backupserver.savepoint import Savepoint, read_savepoint
from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.ids import WorkerId
from riprap.codec.key_groups import GROUPS
from riprap.configs.problems import Problem, config_error
from riprap.configs.topology import Draft, Topology
from riprap.engine.flow.segment import coded_stages
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.schemes.registry import SCHEMES
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import make_operator
from riprap.operators.states.base import State

AT = ("start_from",)


def savepoint_problems(draft: Draft) -> Iterator[Problem]:
    """The reasons why the job cannot begin from the savepoint that it names."""
    topology = draft.topology
    if not draft.whole or topology.start_from is None:
        return
    try:
        savepoint = read_savepoint(Path(topology.start_from))
        savepoint.check()
    except RiprapError as error:
        yield Problem.of_error(AT, error, "a savepoint that is whole")
        return
    yield from _stage_problems(topology, savepoint)
    yield from _window_problems(topology, savepoint)
    yield from _rescaling_problems(topology, savepoint)
    yield from _moving_problems(topology, savepoint)
    for name in topology.stages:
        if savepoint.tasks(name):
            yield from _state_problems(topology, savepoint, name)


def savepoint_of(topology: Topology) -> Savepoint | None:
    """The savepoint that the job begins from; None where it begins with nothing."""
    return None if topology.start_from is None else read_savepoint(Path(topology.start_from))


def check_windows(savepoint: Savepoint, schema: JobSchema) -> None:
    """ConfigError where the sources would cut their input otherwise than those of the savepoint that the job begins
    from: a place in the input is told by windows and items, and would be another one."""
    former = savepoint.topology.get("schema")
    if former is None:
        return  # of a version that did not tell
    before, now = (former.get("items"), former.get("windows")), (schema.items, schema.windows)
    if before != now:
        raise ConfigError(
            f"start_from: the job of {savepoint.directory} reads {_length(*before)}, and this one {_length(*now)}, so"
            " its sources could not go on where they stood",
            "give the input that it had, with its repeat and limit",
        )


def _length(items: int | None, windows: int | None) -> str:
    return "an input without end" if items is None else f"{items:,} items in {windows:,} windows"


def check_rescaling(before: Topology, after: Topology) -> None:
    """ConfigError where a savepoint of the one, which is not made yet, could not be dealt out to tasks of the other."""
    problems = list(_rescaling_problems(after, Savepoint(Path(), before.job, 0, before.to_dict())))
    if problems:
        raise config_error(lambda path: before.job, "the command", problems)


def check_moving(topology: Topology, savepoint: Savepoint) -> None:
    """ConfigError where something was on its way that finds other numbers of tasks at its ends."""
    problems = list(_moving_problems(topology, savepoint))
    if problems:
        raise config_error(lambda path: topology.job, str(savepoint.directory), problems)


def _moving_problems(topology: Topology, savepoint: Savepoint) -> Iterator[Problem]:
    """Items on their way are let in by the task that they were for, as sent by a task of the same number."""
    changed = {name for name, stage in topology.stages.items() if savepoint.tasks(name) not in (0, stage.parallelism)}
    if not changed:
        return
    tasks = [WorkerId(name, index) for name in topology.stages for index in range(savepoint.tasks(name))]
    pairs = {(str(sender), task.stage) for task in tasks for _, sender, *_ in savepoint.fields(task)["moving"]}
    for one, to in sorted(pairs):
        for name in sorted(changed & {one, to}):
            wrong = f"is {topology.stages[name].parallelism}, and items from {one} to {to} were on their way when the"
            at = ("stages", name, "parallelism")
            yield Problem(at, f"{wrong} savepoint was made", f"{savepoint.tasks(name)}, or another savepoint")


def _rescaling_problems(topology: Topology, savepoint: Savepoint) -> Iterator[Problem]:
    yield from _scheme_problems(topology)
    for name in topology.stages:
        if savepoint.tasks(name) not in (0, topology.stages[name].parallelism):
            yield from _task_problems(topology, savepoint, name)
            yield from _key_problems(topology, savepoint, name)


def _scheme_problems(topology: Topology) -> Iterator[Problem]:
    """An incarnation that starts again must know from its scheme that it goes on, and where."""
    exact = [name for name, scheme in SCHEMES.items() if scheme.exact and scheme.saves]
    names = sorted({topology.scheme_of(stage)["scheme"] for stage in topology.stages})
    if coded_stages(topology) or not set(names) <= set(exact):
        wrong = f"is {', '.join(names)}, and the job begins from a savepoint"
        yield Problem(("fault_tolerance", "scheme"), wrong, f"one of {', '.join(exact)} for all stages")
    if SCHEMES[topology.scheme].ordered and any(edge.feedback and not edge.loop for edge in topology.edges):
        wrong = f"is {topology.scheme}, and no savepoint says where the windows of feedback end"
        yield Problem(("fault_tolerance", "scheme"), wrong, "another one for a job that feeds back and begins from one")
    if topology.fault_tolerance.get("checkpoint_s", math.inf) is None:
        wrong = "is null, and the job begins from a savepoint, whose states would not be those of a later incarnation"
        yield Problem(("fault_tolerance", "checkpoint_s"), wrong, "checkpoint_s in seconds for that")


def _stage_problems(topology: Topology, savepoint: Savepoint) -> Iterator[Problem]:
    former = savepoint.topology["stages"]
    missing = [name for name in topology.stages if name not in former]
    left_over = [name for name in former if name not in topology.stages]
    if missing:
        yield Problem(AT, f"{savepoint.directory} has nothing for {', '.join(missing)}", "the stages of its job")
    if left_over:
        wrong = f"{savepoint.directory} also holds {', '.join(left_over)}, which would be left over"
        yield Problem(AT, wrong, "a topology with all its stages", "name the stages as its job did")
    known = {(edge["from"], edge["to"]) for edge in savepoint.topology["edges"]}
    if not missing and not left_over and {(edge.upstream, edge.downstream) for edge in topology.edges} != known:
        yield Problem(("edges",), "are not those of the savepoint's job", "the same edges between its stages")


def _window_problems(topology: Topology, savepoint: Savepoint) -> Iterator[Problem]:
    """Sources go on at a window and an item of it, so windows are to hold what they held."""
    before, now = int(savepoint.topology["micro_batch"]), topology.micro_batch
    if before != now:
        yield Problem(("micro_batch",), f"is {now}, and the windows of the savepoint hold {before}", f"{before}")


def _task_problems(topology: Topology, savepoint: Savepoint, name: str) -> Iterator[Problem]:
    before, now, at = savepoint.tasks(name), topology.stages[name].parallelism, ("stages", name, "parallelism")
    if name in topology.sources:
        wrong = f"is {now}, and the savepoint has read the parts of {before} tasks"
        yield Problem(at, wrong, f"{before}: a source goes on where its tasks stood")
    elif now > GROUPS:
        yield Problem(at, f"is {now}", f"at most {GROUPS}, the groups of keys of a savepoint")
    elif any(edge.partitioning != "full" for edge in topology.in_edges(name)):
        yield Problem(at, f"is {now}, and not {before}", f"{before}, as not all edges to it are full")


def _key_problems(topology: Topology, savepoint: Savepoint, name: str) -> Iterator[Problem]:
    operator = _made(topology, name)
    state = None if operator is None else operator.state
    if state is not None and type(state).recover_groups is State.recover_groups:
        wrong = f"is another than {savepoint.tasks(name)}, and the state of its operator, {type(state).__name__},"
        yield Problem(("stages", name, "parallelism"), f"{wrong} is not kept by key", "the number of tasks that it had")


def _state_problems(topology: Topology, savepoint: Savepoint, name: str) -> Iterator[Problem]:
    saved = int(savepoint.fields(WorkerId(name, 0))["state"])
    operator = _made(topology, name)
    if operator is not None and bool(saved) != (operator.state is not None):
        kept = ("no", "a") if saved else ("a", "none")
        wrong = f"{topology.stages[name].operator} keeps {kept[0]} state, and that of the savepoint {kept[1]}"
        yield Problem(("stages", name, "operator"), wrong, "an operator with a state of the same kind")


def _made(topology: Topology, name: str) -> DataflowOperator | None:
    """The DataflowOperator of a stage; None when it cannot be made, which other checks report."""
    stage = topology.stages[name]
    try:
        operator = make_operator(stage.operator, stage.options)
    except RiprapError:
        return None
    return operator if isinstance(operator, DataflowOperator) else None
