"""A plan in words and tables, as `riprap plan` prints it."""

from __future__ import annotations

from collections.abc import Iterator

from riprap.engine.plan.document import PlanReport
from riprap.engine.plan.make import next_budget


def text(report: PlanReport, whole_curve: bool) -> str:
    """The answer, the plan stage by stage, and the budgets of the curve if they are asked for."""
    lines = [*sentences(report), "", *_stages(report)]
    if whole_curve:
        lines += ["", *_curve(report)]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def sentences(report: PlanReport) -> Iterator[str]:
    """The plan as one would tell it."""
    used, plan = len(report.plan.tasks), report.plan
    if plan.fidelity > 0:
        further = _further(report) if report.objective == "worst" else ""
        kept = f"{_replicas(used)} keep{_s(used)} {percent(plan.fidelity)}"
        yield f"{kept} of the output if every other task dies{further}."
    elif report.objective == "worst":
        yield (
            f"{_replicas(report.budget)} keep{_s(report.budget)} nothing of the output if every other task dies: "
            f"the first that keep any are {report.first_budget}."
        )
    else:
        yield f"{_replicas(used)}, of which none would keep any output if every other task died."
    if report.expected is not None:
        yield f"If one domain fails, {percent(report.expected)} of the output is kept in the mean."
    if report.objective == "worst":
        yield _certainty(report)
    if report.spare:
        verb = "adds nothing then, and is" if report.spare == 1 else "add nothing then, and are"
        yield f"{report.spare} of them {verb} for failures of single {_lesser(report)}."


def _lesser(report: PlanReport) -> str:
    return "domains" if report.domains else "tasks"


def _further(report: PlanReport) -> str:
    after = next_budget(report.graph.replaceable, report.budget)
    if after == report.budget or after not in report.curve:
        return ""
    gain = report.curve[after].fidelity - report.plan.fidelity
    return f"; the next {after - report.budget} add {percent(max(0.0, gain))}"


def _certainty(report: PlanReport) -> str:
    plan = report.plan
    if plan.gap < 1e-3:
        return "No plan of as many replicas keeps more."
    return f"No plan of as many replicas keeps more than {percent(plan.bound)} (gap {percent(plan.gap)})."


def _stages(report: PlanReport) -> Iterator[str]:
    names = [group.name for group in report.graph.operators]
    width = max(len("stage"), *map(len, names))
    yield f"{'stage':<{width}}  tasks  replicas"
    for group in report.graph.operators:
        chosen = [task for task in sorted(report.plan.tasks) if group.first <= task < group.tasks.stop]
        named = ", ".join(_task(report, task) for task in chosen)
        join = "  (joins its inputs)" if group.correlated else ""
        yield f"{group.name:<{width}}  {group.count:>5}  {len(chosen):>8}  {named}{join}".rstrip()


def _task(report: PlanReport, task: int) -> str:
    name = report.graph.names[task]
    alone = {domain.name for domain in report.domains} <= set(report.graph.names)
    return name if alone else f"{name} in {report.replicas[task]}"


def _curve(report: PlanReport) -> Iterator[str]:
    yield "budget  replicas  output kept  at most"
    for budget, plan in sorted(report.curve.items()):
        kept, most = percent(plan.fidelity), percent(plan.bound)
        yield f"{budget:>6}  {len(plan.tasks):>8}  {kept:>11}  {most:>7}"


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def _s(count: int) -> str:
    return "s" if count == 1 else ""


def percent(share: float) -> str:
    """A share as people say it."""
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"
