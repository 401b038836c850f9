"""A plan with all that is said of it, and its form in plan.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from riprap.configs.topology import Topology
from riprap.controller.planning.domains import FailureDomain
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.planner import ReplicationPlan

VERSION = 1


@dataclass(frozen=True)
class PlanReport:
    """One plan of a topology. `curve` has by budget the plan of the same planner, that of `budget` among them."""

    topology: Topology
    graph: TaskGraph
    algorithm: str
    objective: str
    budget: int
    plan: ReplicationPlan
    curve: Mapping[int, ReplicationPlan]
    completeness: float
    """Internal completeness of the plan."""
    first_budget: int
    """The fewest replicas that keep any output."""
    rates_file: str | None = None
    notes: Sequence[str] = ()
    """Premises that the reader should know of: assumed rates, edges that are left out."""
    domains: Sequence[FailureDomain] = ()
    replicas: Mapping[int, str] = field(default_factory=dict)
    """By task of the plan, the domain of its replica; empty without domains."""
    expected: float | None = None
    """The mean OF over failures of single domains; None without domains."""
    expected_bound: float | None = None
    """A number that no plan's exceeds; None unless the plan is made for it."""
    spare: int = 0
    """Replicas of the plan that would add nothing in the worst case, and are chosen for failures of single domains."""

    @property
    def tasks(self) -> list[str]:
        """The worker ids of the tasks with a replica, in the topology's order."""
        return [self.graph.names[task] for task in sorted(self.plan.tasks)]


def identity(topology: Topology) -> dict[str, Any]:
    """The premises of a plan: stages with their tasks, and edges. A topology that differs needs another plan."""
    edges = [
        {"from": edge.upstream, "to": edge.downstream, "partitioning": edge.partitioning, "feedback": edge.feedback}
        for edge in topology.edges
    ]
    return {"stages": dict(topology.shape.parallelism), "edges": edges}


def document(report: PlanReport) -> dict[str, Any]:
    """The content of plan.json; docs/planning.md explains each key."""
    found: dict[str, Any] = {
        "version": VERSION,
        "job": report.topology.job,
        "topology": identity(report.topology),
        "correlated_inputs": [group.name for group in report.graph.operators if group.correlated],
        "rates": report.rates_file or "assumed",
        "objective": report.objective,
        "algorithm": report.algorithm,
        "budget": report.budget,
        "tasks": report.tasks,
        "spare": report.spare,
        "output_fidelity": report.plan.fidelity,
        "upper_bound": report.plan.bound,
        "gap": report.plan.gap,
        "internal_completeness": report.completeness,
        "curve": [
            {"budget": budget, "replicas": len(one.tasks), "output_fidelity": one.fidelity, "upper_bound": one.bound}
            for budget, one in sorted(report.curve.items())
        ],
        "notes": list(report.notes),
    }
    if report.expected is not None:
        placed = {report.graph.names[task]: domain for task, domain in sorted(report.replicas.items())}
        found |= {"expected_fidelity": report.expected, "expected_bound": report.expected_bound, "replicas": placed}
    return found
