"""Jobs of Source, Processor and Sink: items with named columns, on one stage of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from riprap.codec.codes.laws import check_code
from riprap.codec.errors import RiprapError
from riprap.codec.ids import BLOCKS_MAX
from riprap.configs.problems import Problem
from riprap.configs.roles import role_problems, thread_problems
from riprap.configs.sections import StageOptions
from riprap.configs.topology import Draft, Topology
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.run.kinds.role_sources import is_hybrid, open_roles
from riprap.engine.schemes.registry import SPREAD, names_for
from riprap.operators.base import Operator, Processor, Sink, Source
from riprap.operators.learning.curvature import constant_features
from riprap.operators.loading import make_operator
from riprap.operators.trial.law import Cause, Outcome

NAMES_MAX = 8
POSITIONS: dict[str, type[Operator]] = {"sources": Source, "processors": Processor, "sinks": Sink}


class RoleJobs(JobKind):
    """A stage's place among the edges says which of the three it is."""

    bases = (Source, Processor, Sink)
    name, one = "Source, Processor and Sink", "a Source, Processor or Sink"
    schemes = names_for(False)
    window = "micro-batch"
    reads_live = False

    def job_problems(self, draft: Draft, operators: Iterable[str]) -> Iterator[Problem]:
        topology = draft.topology
        if draft.whole:
            yield from role_problems(topology.shape)
            options = topology.fault_tolerance
            if ":" in options.get("code", "") and options["k"] + options["r"] <= BLOCKS_MAX:
                yield from _code_problems(options)
        yield from thread_problems({name: stage.threads for name, stage in topology.stages.items()})
        yield from _own_scheme_problems(topology)

    def stage_problems(self, draft: Draft, stage: str, operator: type[Operator], is_sound: bool) -> Iterator[Problem]:
        entry, base = draft.topology.stages[stage], _wanted(draft, stage)
        if not issubclass(operator, base):
            wrong, expected = f"{entry.operator} is not a {base.__name__}", f"a {base.__name__}, by its place"
            yield Problem(("stages", stage, "operator"), wrong, f"{expected} among the edges")
        elif is_sound:
            yield from _made_problems(draft.topology, stage, entry)

    def open(self, topology: Topology, verified: tuple[str, ...]) -> JobSchema:
        """Open all sources and one operator of each other stage."""
        return open_roles(topology, verified)

    def unprotected(self, topology: Topology) -> str:
        """Around a coded stage a sink that can be restored is saved under any scheme."""
        if topology.scheme not in SPREAD:
            return super().unprotected(topology)
        (name,) = topology.sinks
        stage = topology.stages[name]
        sink = make_operator(stage.operator, stage.options)
        assert isinstance(sink, Sink)
        return "" if sink.is_restorable else f"{stage.operator} defines no snapshot and restore"

    def cautions(self, topology: Topology, schema: JobSchema) -> Iterator[str]:
        """Features whose weights are not learnt, for want of a step."""
        if schema.rows is None or schema.rows.moments is None:
            return
        features = [name for name in schema.columns if name != schema.label]
        if names := [features[index] for index in constant_features(schema.rows.moments)]:
            shown = ", ".join(names[:NAMES_MAX]) + (", ..." if len(names) > NAMES_MAX else "")
            yield (
                f"{len(names)} of {len(features)} features are the same in all items that were looked at beforehand "
                f"({shown}), so their weights stay 0; a learning_rate of your own changes that"
            )

    def tried_of(self, topology: Topology, items: int) -> int:
        """Those of the first source task."""
        return -(-items // topology.stages[topology.sources[0]].parallelism)

    def outcomes(self, topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
        from riprap.engine.run.kinds.role_trial import outcomes  # a job that is run needs none of it

        return outcomes(topology, schema, items, complaints)


def _own_scheme_problems(topology: Topology) -> Iterator[Problem]:
    """Schemes of single stages, which a job that trains or predicts as a whole cannot have."""
    for name, stage in topology.stages.items():
        if stage.fault_tolerance is not None:
            wrong = f"is given, but {stage.operator} is a Source, Processor or Sink"
            expected = "one scheme for the job; stages of dataflow operators may have their own"
            yield Problem(("stages", name, "fault_tolerance"), wrong, expected, "set the job's fault_tolerance")


def _wanted(draft: Draft, name: str) -> type[Operator]:
    """The class that a stage's place among the edges asks for; any operator where these are wrong themselves."""
    shape = draft.topology.shape
    if not draft.whole or any(role_problems(shape)):
        return Operator
    return next((base for position, base in POSITIONS.items() if name in getattr(shape, position)), Operator)


def _made_problems(topology: Topology, name: str, stage: StageOptions) -> Iterator[Problem]:
    try:
        made = make_operator(stage.operator, stage.options)
    except RiprapError as error:
        yield Problem.of_error(("stages", name, "options"), error, "options that the operator takes")
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
        yield Problem.of_error(path, error, "a code of which any k blocks give back the data")
        return
    if options["attachment"] == "hybrid" and not code.linear:
        wrong = f"{options['code']} does not say that it commutes with linear functions"
        yield Problem(path, wrong, "a code with linear = True, for the attachment is hybrid", "set attachment to lazy")
