"""Replicas by a budget alone: a job of `partially_active` has its plan made before it starts for the first time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.files import replace as replace_file
from riprap.codec.json_text import to_json
from riprap.configs.budget import replicas_allowed
from riprap.configs.topology import Topology

if TYPE_CHECKING:
    from riprap.engine.plan.document import PlanReport

PLAN = "plan.json"


def with_planned_replicas(topology: Topology) -> tuple[Topology, PlanReport | None]:
    """The topology with the replicas that its budget buys by name, and their plan; itself and None without a budget.

    So the run directory holds the names, and later attempts have the same replicas. ConfigError where the planner that
    is asked for cannot plan it.
    """
    options = topology.fault_tolerance
    if options.get("budget") is None:
        return topology, None
    report = _plan(topology, str(options["budget"]), options["planner"])
    chosen = {"replicate": report.tasks, "budget": None, "planner": "auto"}
    return replace(topology, fault_tolerance=MappingProxyType({**options, **chosen})), report


def told(report: PlanReport) -> str:
    """The plan in a sentence, with the way to a better one."""
    return (
        f"the tasks with a replica are {', '.join(report.tasks) or 'none'}, chosen as if sources put out the same and"
        " stages as much as they get; choose by what the links of a run have carried:"
        f" riprap plan TOPOLOGY --budget {report.budget} --from RUNDIR, and name its plan.json in fault_tolerance.plan"
    )


def write_plan(run_dir: Path, report: PlanReport) -> None:
    """Write plan.json, as `riprap plan` does, into a run directory; OSError."""
    from riprap.engine.plan.document import document

    replace_file(run_dir / PLAN, to_json(document(report), indent=2) + "\n")


def _plan(topology: Topology, budget: str, planner: str) -> PlanReport:
    from riprap.controller.planning.rates import StreamRates  # other jobs need none of it
    from riprap.engine.plan.make import make_plan
    from riprap.engine.plan.premises import graph_of, notes_of

    shape, rates = topology.shape, StreamRates()
    try:
        graph = graph_of(topology, rates)
        number = replicas_allowed(budget, graph.replaceable)
        notes = notes_of(shape, rates, graph)
        return make_plan(topology, graph, number, cast(Any, planner), "worst", (), None, notes, [number])
    except RiprapError as error:
        raise ConfigError(f"fault_tolerance.planner {planner}: {error.args[0]}", error.remedy) from error
