"""Makes the plan of a topology, and the plans of other budgets that its curve shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riprap.codec.errors import RiprapError
from riprap.configs.topology import Topology
from riprap.controller.planning.domains import (
    FailureDomain,
    each_alone,
    expected_fidelity,
    place_replicas,
    plan_expected,
)
from riprap.controller.planning.fidelity import fidelity_of, internal_completeness
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.paths import largest_tree, plans_up_to
from riprap.controller.planning.planner import Algorithm, Planner, ReplicationPlan
from riprap.engine.plan.document import PlanReport

CURVE_TASKS_MAX = 200
"""The largest graph that is planned for all budgets; of larger ones, for some up to the budget alone."""
POINTS = 20


def make_plan(
    topology: Topology,
    graph: TaskGraph,
    budget: int,
    algorithm: Algorithm,
    objective: str,
    domains: Sequence[FailureDomain],
    rates_file: str | None,
    notes: Sequence[str],
    wanted: Sequence[int],
) -> PlanReport:
    """The plan, and of the budgets `wanted`, its own among them, the curve; RiprapError where the algorithm cannot plan
    this graph."""
    planner = Planner(graph, algorithm)
    curve = {max(wanted): planner.plan(max(wanted))} if algorithm != "dp" else {}
    curve |= _plans(planner, [number for number in wanted if number not in curve], budget)
    plan = curve[budget]
    expected, bound, spare = None, None, 0
    replicas: Mapping[int, str] = {}
    if objective == "expected":
        domains = domains or each_alone(graph)
        tasks, bound = plan_expected(graph, budget, domains)
        plan = ReplicationPlan(tasks, fidelity_of(graph, tasks), plan.bound)
    elif len(plan.tasks) < budget:  # what would add nothing in the worst case helps in lesser ones
        tasks, _ = plan_expected(graph, budget, domains or each_alone(graph), plan.tasks)
        spare, plan = len(tasks - plan.tasks), ReplicationPlan(tasks, fidelity_of(graph, tasks), plan.bound)
    if domains:
        replicas = place_replicas(plan.tasks, domains)
        expected = expected_fidelity(graph, domains, replicas)
    completeness = float(internal_completeness(graph, graph.alive(plan.tasks)))
    first = first_budget(graph)
    return PlanReport(
        topology, graph, algorithm, objective, budget, plan, curve, completeness, first, rates_file, notes,
        domains, replicas, expected, bound, spare,
    )  # fmt: skip


def budgets(tasks: int, budget: int) -> list[int]:
    """The budgets of the curve: evenly over all tasks, or in a large graph up to the budget; with the next after it."""
    last, points = (tasks, POINTS) if tasks <= CURVE_TASKS_MAX else (budget, 4)
    spread = {round(number * last / points) for number in range(points + 1)}
    return sorted(spread | {budget} | ({next_budget(tasks, budget)} if tasks <= CURVE_TASKS_MAX else set()))


def next_budget(tasks: int, budget: int) -> int:
    """The budget that the words compare with: half as many replicas more."""
    return min(tasks, budget + max(1, budget // 2))


def first_budget(graph: TaskGraph) -> int:
    """The fewest replicas that keep any output."""
    _, values = plans_up_to(graph, min(graph.replaceable, largest_tree(graph)))
    return int((values > 0).argmax())


def _plans(planner: Planner, wanted: Sequence[int], budget: int) -> dict[int, ReplicationPlan]:
    """By budget; the curve ends where an algorithm cannot plan any further, after the budget that was asked for."""
    found = {}
    for number in sorted(wanted):
        try:
            found[number] = planner.plan(number)
        except RiprapError:
            if number <= budget:
                raise
            break
    return found
