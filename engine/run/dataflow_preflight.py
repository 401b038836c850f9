"""Checks of a job of a general topology before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from riprap.codec.errors import RiprapError
from riprap.configs.problems import Problem
from riprap.configs.topology import Draft, Topology
from riprap.controller.checkpoints import SCHEMES as CHECKPOINTING
from riprap.engine.flow.segment import coded_stages
from riprap.engine.worker.operators import graph_context, input_of, windows_of
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import make_operator
from riprap.operators.outputs.transactional import TransactionalSink


@dataclass(frozen=True)
class DataflowSchema:
    """The items of all sources together, and the windows that they are cut into; None without end."""

    items: int | None
    windows: int | None
    verified: tuple[str, ...] = ()
    """Fingerprints of the input directories that were looked at (operators/inputs/shard_checks.py)."""
    columns: tuple[str, ...] = ()
    """The columns of the first source's input, where it is a matrix."""
    label: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields that workers are told."""
        return {"items": self.items, "windows": self.windows, "verified": list(self.verified)}


def stage_problems(draft: Draft, name: str, operator_is_sound: bool) -> Iterator[Problem]:
    """An operator that cannot be made or started, thresholds that its state cannot keep, a source without an input."""
    topology = draft.topology
    stage = topology.stages[name]
    if operator_is_sound:
        try:
            operator = make_operator(stage.operator, stage.options)
            assert isinstance(operator, DataflowOperator)
            if draft.whole:
                operator.open(graph_context(topology, topology.tasks(name)[0]))
                yield from _window_problems(topology, name, operator)
                if name in coded_stages(topology) and operator.state is not None:
                    where = ("stages", name, "fault_tolerance", "scheme")
                    wrong = (
                        f"is {topology.scheme_of(name)['scheme']}, but {stage.operator} keeps a state between blocks"
                    )
                    fix = "set it to approximate, mini_batch, reactive or upstream_backup"
                    yield Problem(where, wrong, "an operator without a state", fix)
            if draft.whole:
                yield from _transaction_problems(topology, name, operator)
            if stage.threads > 1 and not operator.prepares:
                wrong, fix = f"is {stage.threads}", "define prepare in its class, or raise its parallelism"
                yield Problem(("stages", name, "threads"), wrong, f"1, as {stage.operator} prepares nothing", fix)
        except RiprapError as error:
            at = ("stages", name, "options")
            yield Problem(at, str(error.args[0]), "an operator that can be made", error.remedy)
    if draft.whole and name in topology.sources and topology.input_of(name).path is None:
        yield Problem(("stages", name), "reads no input", "input.path, or an input of its own")


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


FORGETTING = (
    "hopping: Windowed of any built-in state, CountMin, and operators that close their windows;"
    " sliding: Windowed, and those that hop; decaying: Decaying of float64"
)
"""The states (riprap.operators.states) that can have thresholds of a window, by the kind of window."""


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


def open_dataflow(topology: Topology, verified: tuple[str, ...]) -> DataflowSchema:
    """Open the inputs as the sources will."""
    inputs = [
        input_of(topology, stage, verified, worker.index, topology.stages[stage].parallelism)
        for stage in topology.sources
        if not topology.input_of(stage).is_live
        for worker in topology.tasks(stage)
    ]
    windows, items = windows_of(topology, verified)
    schema = inputs[0].schema if inputs else {}
    return DataflowSchema(items, windows, verified, tuple(schema.get("columns") or ()), schema.get("label"))
