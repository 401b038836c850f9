"""What can be found wrong with a job of a general topology before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codec.errors import RiprapError
from configs.problems import Problem
from configs.topology import Topology
from engine.dataflow.build import input_of, place_of, windows_of
from engine.schemes import DATAFLOW_SCHEMES
from operators.dataflow.base import DataflowOperator
from operators.loading import load_operator, make_operator

ONLY_DATAFLOW = DATAFLOW_SCHEMES.keys() - {"none"}


@dataclass(frozen=True)
class DataflowSchema:
    """The items of all sources together, and the windows that they are cut into."""

    items: int
    windows: int
    verified: tuple[str, ...] = ()
    """Fingerprints of the input directories that were looked at (operators/shard_checks.py)."""

    def fields(self) -> dict[str, Any]:
        """What workers are told of it."""
        return {"items": self.items, "windows": self.windows, "verified": list(self.verified)}


def wants_dataflow(topology: Topology) -> bool:
    """Whether the job is meant to be of this form: by its scheme, or by one of its operators."""
    return topology.scheme in ONLY_DATAFLOW or any(_is_dataflow(stage.operator) for stage in topology.stages.values())


def _is_dataflow(operator: str) -> bool:
    try:
        return issubclass(load_operator(operator), DataflowOperator)
    except RiprapError:
        return False  # reported where operators are checked


def dataflow_problems(topology: Topology) -> Iterator[Problem]:
    """Operators of the other form, or that cannot be made; sources without an input; a scheme of the other form."""
    if topology.scheme not in DATAFLOW_SCHEMES:
        schemes = ", ".join(DATAFLOW_SCHEMES)
        yield Problem(("fault_tolerance", "scheme"), f"is {topology.scheme}", f"one of {schemes} for these operators")
    for name, stage in topology.stages.items():
        at = ("stages", name, "operator")
        try:
            if not issubclass(load_operator(stage.operator), DataflowOperator):
                yield Problem(at, f"{stage.operator} is not a DataflowOperator", "one, like all stages of this job")
                continue
            operator = make_operator(stage.operator, stage.options)
            assert isinstance(operator, DataflowOperator)
            operator.start(place_of(topology, topology.tasks(name)[0]))
            yield from _window_problems(topology, name, operator)
            if stage.threads > 1 and not operator.prepares:
                wrong, fix = f"is {stage.threads}", "define prepare in its class, or raise its parallelism"
                yield Problem(("stages", name, "threads"), wrong, f"1, as {stage.operator} prepares nothing", fix)
        except RiprapError as error:
            path = at if operator_is_missing(stage.operator) else ("stages", name, "options")
            yield Problem(path, str(error.args[0]), "an operator that can be made", error.remedy)
        if name in topology.sources and topology.input_of(name).path is None:
            yield Problem(("stages", name), "reads no input", "input.path, or an input of its own")


FORGETTING = (
    "hopping: Windowed of any built-in state, CountMin, and operators that close their windows;"
    " sliding: Windowed, and those that hop; decaying: Decaying of float64"
)
"""Which states (operators.states) can have thresholds of a window."""


def _window_problems(topology: Topology, name: str, operator: DataflowOperator) -> Iterator[Problem]:
    """A state that does not forget as thresholds of a window take for granted: failures would add up beyond Theta.

    One in a source loses nothing, and needs no threshold.
    """
    section, state = topology.fault_tolerance, operator.state
    if topology.scheme != "approximate" or name in topology.sources or state is None:
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


def operator_is_missing(path: str) -> bool:
    """Whether the operator itself cannot be loaded."""
    try:
        load_operator(path)
    except RiprapError:
        return True
    return False


def open_dataflow(topology: Topology, verified: tuple[str, ...]) -> DataflowSchema:
    """Open the inputs as the sources will."""
    for stage in topology.sources:
        for worker in (tasks := topology.tasks(stage)):
            input_of(topology, stage, verified, worker.index, len(tasks))
    windows, items = windows_of(topology, verified)
    return DataflowSchema(items, windows, verified)
