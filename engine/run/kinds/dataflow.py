"""Jobs of DataflowOperators: blocks of any arrays, in any graph of stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from riprap.codec.errors import RiprapError
from riprap.configs.checks import fitting_schemes
from riprap.configs.problems import Problem, one_of
from riprap.configs.topology import Draft, Topology
from riprap.controller.checkpointing import CHECKPOINTING
from riprap.engine.flow.segment import coded_stages
from riprap.engine.run.inert import notes
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.schemes.registry import SCHEMES, names_for
from riprap.engine.worker.operators import graph_context, input_of, windows_of
from riprap.operators.base import Operator
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.iteration.supersteps import Iteration
from riprap.operators.loading import make_operator
from riprap.operators.names import short_name
from riprap.operators.outputs.transactional import TransactionalSink
from riprap.operators.trial.law import Cause, Outcome

FORGETTING = (
    "hopping: Windowed of any built-in state, CountMin, and operators that close their windows;"
    " sliding: Windowed, and those that hop; decaying: Decaying of float64"
)
"""The states (riprap.operators.states) that can have thresholds of a window, by the kind of window."""

SUPERSTEPS = {
    "optimistic": "which can compensate",
    "partially_active": "whose blocks may come in any order",
}
"""The schemes whose loops go in supersteps, and why they do."""


class DataflowJobs(JobKind):
    """A stage's operator may stand wherever the edges put it."""

    bases = (DataflowOperator,)
    name, one = "DataflowOperators", "a DataflowOperator"
    schemes = names_for(True)
    window = "window"
    reads_live = True

    def job_problems(self, draft: Draft, operators: Iterable[str]) -> Iterator[Problem]:
        """A scheme that codes a job as a whole, whose wishes of the edges are none of the user's business; and edges
        that leave tasks alone."""
        if draft.whole:
            yield from _joint_problems(draft.topology)
        paths = list(operators)
        if draft.scheme is None or draft.scheme in self.schemes or not paths:
            return
        fitting = fitting_schemes(self.schemes, draft.topology.shape if draft.whole else None) or list(self.schemes)
        names = ", ".join(dict.fromkeys(map(short_name, paths)))
        yield Problem(
            ("fault_tolerance", "scheme"),
            f"is {draft.scheme}, which protects jobs of Source, Processor and Sink; these operators are {self.name}:"
            f" {names}",
            one_of(fitting),
            f"set fault_tolerance.scheme to one of these, for example --set fault_tolerance.scheme={fitting[-1]}"
            "; a stage without a state may be coded by itself: stages.NAME.fault_tolerance",
            leads=True,
        )

    def stage_problems(self, draft: Draft, stage: str, operator: type[Operator], is_sound: bool) -> Iterator[Problem]:
        """One that cannot be made or opened, thresholds that its state cannot keep, a source without an input."""
        topology = draft.topology
        if is_sound:
            try:
                yield from _made_problems(draft, stage)
            except RiprapError as error:
                yield Problem.of_error(("stages", stage, "options"), error, "an operator that can be made")
        if draft.whole and stage in topology.sources and topology.input_of(stage).path is None:
            yield Problem(("stages", stage), "reads no input", "input.path, or an input of its own")

    def open(self, topology: Topology, verified: tuple[str, ...]) -> JobSchema:
        """Open the inputs, which the engine reads for the sources."""
        inputs = [
            input_of(topology, stage, verified, worker.index, topology.stages[stage].parallelism)
            for stage in topology.sources
            if not topology.input_of(stage).is_live
            for worker in topology.tasks(stage)
        ]
        windows, items = windows_of(topology, verified)
        schema = inputs[0].schema if inputs else {}
        return JobSchema(items, windows, verified, tuple(schema.get("columns") or ()), schema.get("label"))

    def cautions(self, topology: Topology, schema: JobSchema) -> Iterator[str]:
        """Thresholds that act nowhere."""
        return notes(topology)

    def tried_of(self, topology: Topology, items: int) -> int:
        """Those of all source tasks."""
        return items

    def outcomes(self, topology: Topology, schema: JobSchema, items: int, complaints: set[Cause]) -> Iterator[Outcome]:
        from riprap.engine.run.kinds.dataflow_trial import outcomes  # a job that is run needs none of it

        return outcomes(topology, schema, items, complaints)


def _joint_problems(topology: Topology) -> Iterator[Problem]:
    """Tasks that would send to nobody, or hear nobody and so never close a window."""
    coded = coded_stages(topology)
    for edge in topology.shape.data_edges:
        up, down = (topology.stages[name].parallelism for name in (edge.upstream, edge.downstream))
        if not coded.keys().isdisjoint((edge.upstream, edge.downstream)):
            continue  # dealt as the code wants it
        if edge.partitioning == "split" and up > down:
            alone = f"{edge.upstream}.{down} would send to nobody"
            expected = f"at least {up} tasks of {edge.downstream}, or merge"
        elif edge.partitioning == "merge" and up < down:
            alone = f"nobody would send to {edge.downstream}.{up}"
            expected = f"at most {up} tasks of {edge.downstream}, or split"
        else:
            continue
        wrong = f"is {edge.partitioning}, but {edge.upstream} has {up} tasks and {edge.downstream} {down}: {alone}"
        yield Problem(("edges", edge.index, "partitioning"), wrong, expected)


def _made_problems(draft: Draft, name: str) -> Iterator[Problem]:
    """Problems of an operator that is made, and opened where its neighbours are known; RiprapError where it cannot."""
    topology = draft.topology
    stage = topology.stages[name]
    operator = make_operator(stage.operator, stage.options)
    assert isinstance(operator, DataflowOperator)
    if draft.whole:
        operator.open(graph_context(topology, topology.tasks(name)[0]))
        yield from _window_problems(topology, name, operator)
        yield from _coding_problems(topology, name, operator)
        yield from _transaction_problems(topology, name, operator)
        yield from _superstep_problems(topology, name, operator)
        yield from _order_problems(topology, name, operator)
    if stage.threads > 1 and not operator.prepares:
        wrong, fix = f"is {stage.threads}", "define prepare in its class, or raise its parallelism"
        yield Problem(("stages", name, "threads"), wrong, f"1, as {stage.operator} prepares nothing", fix)


def _coding_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """A state in a coded stage, whose tasks compute different blocks."""
    if name in coded_stages(topology) and operator.state is not None:
        where = ("stages", name, "fault_tolerance", "scheme")
        path = topology.stages[name].operator
        wrong = f"is {topology.scheme_of(name)['scheme']}, but {path} keeps a state between blocks"
        fix = "set it to approximate, mini_batch, reactive or upstream_backup"
        yield Problem(where, wrong, "an operator without a state", fix)


def _transaction_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """Output in transactions, and nothing to commit them with."""
    scheme = topology.scheme_of(name)["scheme"]
    if not isinstance(operator, TransactionalSink):
        return
    if scheme not in CHECKPOINTING:
        wrong = f"is {scheme}, but stage {name} puts out transactions, which are committed with checkpoints"
        expected = f"{' or '.join(CHECKPOINTING)} for {topology.stages[name].operator}"
        yield Problem(("fault_tolerance", "scheme"), wrong, expected, f"set it to {CHECKPOINTING[0]}")
    if topology.scheme_of(name).get("guarantee") == "at_least_once":
        at, wrong = ("fault_tolerance", "guarantee"), f"is at_least_once, but stage {name} puts out transactions"
        yield Problem(at, wrong, f"exactly_once for {topology.stages[name].operator}")
    if any(edge.upstream == name and not edge.feedback for edge in topology.edges):
        wrong = "puts out transactions, and an edge leads on from it"
        yield Problem(("stages", name), wrong, "a destination", "take out the edges from it")


def _superstep_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """A loop that cannot begin once more from what it had found, or whose output may depend on an order that is not
    repeated: one without supersteps."""
    scheme, loops = topology.scheme_of(name)["scheme"], any(e.loop and e.upstream == name for e in topology.edges)
    if loops and scheme in SUPERSTEPS and not isinstance(operator, Iteration):
        wrong = f"is {scheme}, but {topology.stages[name].operator}, which loops, is no operators.iteration:Iteration"
        yield Problem(
            ("fault_tolerance", "scheme"), wrong, f"an operator of supersteps, {SUPERSTEPS[scheme]}",
            "set it to barrier, whose checkpoints may lie within any loop",
        )  # fmt: skip


def _order_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """A loop that says other things when it hears its peers in another order, and a scheme that repeats no order."""
    scheme, path = topology.scheme_of(name)["scheme"], topology.stages[name].operator
    if operator.needs_order and SCHEMES[scheme].reorders:
        wrong = f"is {scheme}, but what stage {name} puts out depends on the order in which blocks come ({path})"
        fit = names_for(True, needs_order=True)
        yield Problem(("fault_tolerance", "scheme"), wrong, one_of(fit), "set it to barrier or mini_batch")


def _window_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """A state that does not forget as thresholds of a window take for granted: failures would add up beyond Theta.

    One in a source loses nothing, and needs no threshold.
    """
    section, state = topology.scheme_of(name), operator.state
    if section["scheme"] != "approximate" or name in topology.sources or state is None:
        return
    window, epochs = section["window"], section["window_epochs"]
    if not state.forgets(window, epochs):
        own = f"{state.window}, window_epochs {state.window_epochs}" if state.window != "none" else "none"
        yield Problem(
            ("fault_tolerance", "window"),
            f"is {window}, window_epochs {epochs}, but {type(state).__name__} of stage {name} forgets by: {own}",
            f"a window by which it forgets, or a state that does ({FORGETTING})",
            "set fault_tolerance.window to none, or use a state of that window (docs/states.md)",
        )
