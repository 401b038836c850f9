"""Checks of a job's operators: their kind, the schemes that suit it, and their options, all in one round.

What would not matter with another scheme, or other operators, is left out where one of these is wrong (Problem.leads).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.codec.errors import RiprapError
from riprap.configs.problems import Problem
from riprap.configs.topology import Draft, Topology
from riprap.engine.run.kinds import kind_meant
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.run.live_checks import live_problems
from riprap.engine.run.window_output import output_problems
from riprap.operators.base import Operator
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import load_operator, make_operator, option_problems

Loaded = Mapping[str, type[Operator]]


def operator_problems(draft: Draft) -> Iterator[Problem]:
    """Problems of the operators of all stages, and of a scheme that cannot protect them."""
    loaded: dict[str, type[Operator]] = {}
    for name, stage in draft.topology.stages.items():
        try:
            loaded[name] = load_operator(stage.operator)
        except RiprapError as error:
            yield Problem.of_error(("stages", name, "operator"), error, "an operator that can be imported")
    kind = kind_meant(draft.scheme, loaded.values())
    yield from _kind_problems(draft, loaded, kind)
    yield from kind.job_problems(draft, [draft.topology.stages[name].operator for name in loaded])
    if draft.whole:
        yield from live_problems(draft.topology, kind)
    for name, operator in loaded.items():
        if kind.has(operator):
            yield from _stage_problems(draft, name, operator, kind)
    if draft.whole and draft.topology.output is not None:
        yield from _output_problems(draft.topology)


def _kind_problems(draft: Draft, loaded: Loaded, kind: JobKind) -> Iterator[Problem]:
    """Operators of another kind than the job's: each leads."""
    for name, operator in loaded.items():
        if not kind.has(operator):
            wrong = f"{draft.topology.stages[name].operator} is not {kind.one}, which the job's other operators are"
            expected = f"operators of one kind, here {kind.name}"
            yield Problem(("stages", name, "operator"), wrong, expected, leads=True)


def _stage_problems(draft: Draft, name: str, operator: type[Operator], kind: JobKind) -> Iterator[Problem]:
    """All wrong options of a stage; where there are none, its other problems."""
    found = list(option_problems(operator, draft.topology.stages[name].options))
    for one in found:
        yield Problem(("stages", name, "options", one.name), one.wrong, one.expected, one.fix)
    yield from kind.stage_problems(draft, name, operator, is_sound=not found)


def _output_problems(topology: Topology) -> Iterator[Problem]:
    """Problems of the files for the rows of windows, as far as the destinations' operators can be made."""
    stages = {name: topology.stages[name] for name in topology.sinks}
    try:
        made = {name: make_operator(stage.operator, stage.options) for name, stage in stages.items()}
    except RiprapError:
        return  # told of the stage
    writes = {name: operator.writes for name, operator in made.items() if isinstance(operator, DataflowOperator)}
    yield from output_problems(topology, writes)
