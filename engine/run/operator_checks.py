"""Checks of a job's operators: the form they are of, the schemes that suit it, and their options.

All of it comes in one round. That the scheme is for the other form of job is told first and alone of what follows from
it: edges that this scheme would want otherwise are none of the user's business then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from riprap.codec.codes import BLOCKS_MAX
from riprap.codec.codes.laws import check_code
from riprap.codec.errors import RiprapError
from riprap.configs.checks import fitting_schemes
from riprap.configs.problems import FieldPath, Problem, one_of
from riprap.configs.sections import StageOptions
from riprap.configs.three_stage import thread_problems, three_stage_problems
from riprap.configs.topology import Draft, Topology
from riprap.engine.run.dataflow_preflight import stage_problems as dataflow_stage_problems
from riprap.engine.run.live_checks import live_problems
from riprap.engine.run.window_output import output_problems
from riprap.engine.schemes import SPREAD, names_for
from riprap.operators.base import Operator, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import load_operator, make_operator, option_problems
from riprap.operators.names import short_name

POSITIONS: dict[str, type[Operator]] = {"sources": Source, "processors": Processor, "sinks": Sink}
FORMS: dict[bool, tuple[str, list[str]]] = {
    True: ("general topologies", names_for(True)),
    False: ("the three-stage form (source, processor, sink)", names_for(False)),
}
"""Names of the two forms, by whether operators are DataflowOperators, and the schemes of each."""

Loaded = Mapping[str, type[Operator]]


def operator_problems(draft: Draft) -> Iterator[Problem]:
    """Problems of the operators of all stages, and of a scheme that cannot protect them."""
    loaded: dict[str, type[Operator]] = {}
    for name, stage in draft.topology.stages.items():
        try:
            loaded[name] = load_operator(stage.operator)
        except RiprapError as error:
            yield problem_of(("stages", name, "operator"), error, "an operator that can be imported")
    general = _is_general(draft, loaded)
    yield from _form_problems(draft, loaded, general)
    if not general:
        yield from _three_stage_problems(draft)
        yield from _own_scheme_problems(draft)
    if draft.whole:
        yield from live_problems(draft.topology, general)
    for name, operator in loaded.items():
        if issubclass(operator, DataflowOperator) == general:
            yield from _stage_problems(draft, name, operator, general)
    if draft.whole and draft.topology.output is not None:
        yield from _output_problems(draft.topology)


def is_hybrid(topology: Topology) -> bool:
    """True when processors send linear parts of their work (LEC III-D)."""
    return topology.fault_tolerance.get("attachment") == "hybrid"


def problem_of(path: FieldPath, error: RiprapError, expected: str) -> Problem:
    """An error as a problem of the value at `path`."""
    return Problem(path, str(error.args[0]), expected, error.remedy)


def _is_general(draft: Draft, loaded: Loaded) -> bool:
    """True when the job is meant to be of the general form: by all its operators; else by its scheme, or by most."""
    kinds = [issubclass(operator, DataflowOperator) for operator in loaded.values()]
    if kinds and len(set(kinds)) == 1:
        return kinds[0]
    forms = [general for general, (_, schemes) in FORMS.items() if draft.scheme in schemes]
    return forms[0] if len(forms) == 1 else kinds.count(True) >= max(kinds.count(False), 1)


def _form_problems(draft: Draft, loaded: Loaded, general: bool) -> Iterator[Problem]:
    """Operators of the other form than the job's, or a scheme of the other one: each leads."""
    form, schemes = FORMS[general]
    for name, operator in loaded.items():
        if issubclass(operator, DataflowOperator) != general:
            wanted = "a DataflowOperator" if general else "a Source, Processor or Sink"
            wrong = f"{draft.topology.stages[name].operator} is not {wanted}, which the job's other operators are"
            yield Problem(("stages", name, "operator"), wrong, f"operators of one form, here {form}", leads=True)
    if draft.scheme is None or draft.scheme in schemes or not loaded:
        return
    other, _ = FORMS[not general]
    fitting = fitting_schemes(schemes, draft.topology.shape if draft.whole else None) or list(schemes)
    names = ", ".join(dict.fromkeys(short_name(draft.topology.stages[name].operator) for name in loaded))
    yield Problem(
        ("fault_tolerance", "scheme"),
        f"is {draft.scheme}, which protects {other}; these operators are of {form}: {names}",
        one_of(fitting),
        f"set fault_tolerance.scheme to one of these, for example --set fault_tolerance.scheme={fitting[-1]}"
        + ("; a stage without a state may be coded by itself: stages.NAME.fault_tolerance" if general else ""),
        leads=True,
    )


def _output_problems(topology: Topology) -> Iterator[Problem]:
    """Problems of the files for the rows of windows, as far as the destinations' operators can be made."""
    stages = {name: topology.stages[name] for name in topology.sinks}
    try:
        made = {name: make_operator(stage.operator, stage.options) for name, stage in stages.items()}
    except RiprapError:
        return  # told of the stage
    writes = {name: operator.writes for name, operator in made.items() if isinstance(operator, DataflowOperator)}
    yield from output_problems(topology, writes)


def _own_scheme_problems(draft: Draft) -> Iterator[Problem]:
    """Schemes of single stages, which a job that trains or predicts as a whole cannot have."""
    for name, stage in draft.topology.stages.items():
        if stage.fault_tolerance is not None:
            wrong = f"is given, but {stage.operator} is of the three-stage form"
            expected = "one scheme for the job; stages of dataflow operators may have their own"
            yield Problem(("stages", name, "fault_tolerance"), wrong, expected, "set the job's fault_tolerance")


def _three_stage_problems(draft: Draft) -> Iterator[Problem]:
    topology = draft.topology
    if draft.whole:
        yield from three_stage_problems(topology.shape)
        options = topology.fault_tolerance
        if ":" in options.get("code", "") and options["k"] + options["r"] <= BLOCKS_MAX:
            yield from _code_problems(options)
    yield from thread_problems({name: stage.threads for name, stage in topology.stages.items()})


def _stage_problems(draft: Draft, name: str, operator: type[Operator], general: bool) -> Iterator[Problem]:
    """All wrong options of a stage; where there are none, its other problems."""
    stage = draft.topology.stages[name]
    found = list(option_problems(operator, stage.options))
    for one in found:
        yield Problem(("stages", name, "options", one.name), one.wrong, one.expected, one.fix)
    if general:
        yield from dataflow_stage_problems(draft, name, operator_is_sound=not found)
        return
    base = _wanted(draft, name)
    if not issubclass(operator, base):
        wrong, expected = f"{stage.operator} is not a {base.__name__}", f"a {base.__name__}, by its place"
        yield Problem(("stages", name, "operator"), wrong, f"{expected} among the edges")
    elif not found:
        yield from _made_problems(draft.topology, name, stage)


def _wanted(draft: Draft, name: str) -> type[Operator]:
    """The class that a stage's place among the edges asks for; any operator where these are wrong themselves."""
    shape = draft.topology.shape
    if not draft.whole or any(three_stage_problems(shape)):
        return Operator
    return next((base for position, base in POSITIONS.items() if name in getattr(shape, position)), Operator)


def _made_problems(topology: Topology, name: str, stage: StageOptions) -> Iterator[Problem]:
    try:
        made = make_operator(stage.operator, stage.options)
    except RiprapError as error:
        yield problem_of(("stages", name, "options"), error, "options that the operator takes")
        return
    if isinstance(made, Sink) and not made.is_restorable and topology.scheme not in SPREAD:
        yield Problem(
            ("stages", name, "operator"),
            f"{stage.operator} defines no snapshot and restore, without which {topology.scheme} cannot protect it",
            "a sink that does",
            f"define them, or set fault_tolerance.scheme to {' or '.join(sorted(SPREAD))}",
        )
    if is_hybrid(topology) and isinstance(made, Processor) and not made.is_hybrid:
        yield Problem(
            ("stages", name, "operator"),
            f"{stage.operator} does not split its work: it defines no process_linear",
            "a processor that does, for the attachment is hybrid",
            "define it (what is not linear goes into process_nonlinear), or set attachment to lazy",
        )


def _code_problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a code of the user's own."""
    path = ("fault_tolerance", "code")
    try:
        code = check_code(options["code"], options["k"], options["r"])
    except RiprapError as error:
        yield problem_of(path, error, "a code of which any k blocks give back the data")
        return
    if options["attachment"] == "hybrid" and not code.linear:
        wrong = f"{options['code']} does not say that it commutes with linear functions"
        yield Problem(path, wrong, "a code with linear = True, for the attachment is hybrid", "set attachment to lazy")
