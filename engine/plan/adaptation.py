"""Another choice of replicas for a running job, by the output that it would keep at the rates of now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from riprap.configs.topology import Topology
from riprap.controller.planning.fidelity import fidelity_of
from riprap.controller.planning.rates import StreamRates
from riprap.engine.plan.document import PlanReport
from riprap.engine.plan.make import make_plan
from riprap.engine.plan.premises import graph_of
from riprap.engine.plan.words import percent


@dataclass(frozen=True)
class Adaptation:
    """The plan for the rates of now, beside the replicas that run."""

    report: PlanReport
    running: tuple[str, ...]
    """Tasks with a replica."""
    fidelity: float
    """The output that those keep, by the rates of now."""

    @property
    def begins(self) -> list[str]:
        """Tasks that get a replica."""
        return [task for task in self.report.tasks if task not in self.running]

    @property
    def ends(self) -> list[str]:
        """Tasks that lose theirs."""
        return [task for task in self.running if task not in self.report.tasks]

    @property
    def gain(self) -> float:
        """Output fidelity that the change adds."""
        return self.report.plan.fidelity - self.fidelity

    @property
    def words(self) -> str:
        """The choice beside the present one, as one would tell it."""
        now, best = percent(self.fidelity), percent(self.report.plan.fidelity)
        return (
            f"the replicas that run ({_some(self.running)}) keep {now} of the output if every other task dies, and the"
            f" best {self.report.budget} {best}: begin {_some(self.begins)}, end {_some(self.ends)}"
        )


def _some(tasks: Collection[str]) -> str:
    return ", ".join(tasks) or "none"


def adaptation(topology: Topology, rates: StreamRates, running: Collection[str], budget: int) -> Adaptation:
    """Plan anew for so many replicas, at most one for each task that can have one; `running` are the tasks with one."""
    graph = graph_of(topology, rates)
    report = make_plan(topology, graph, budget, "auto", "worst", (), None, (), [budget])
    chosen = frozenset(graph.names.index(name) for name in running)
    return Adaptation(report, tuple(running), fidelity_of(graph, chosen))
