"""Draws plan.html: the graph of tasks with the replicas, what other budgets would keep, and the failure domains."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from riprap.engine.pages.fill import fill
from riprap.engine.plan.document import PlanReport
from riprap.engine.plan.words import percent, sentences

TEMPLATE = Path(__file__).with_name("page.html")
SQUARE, GAP, ROW = 14, 4, 8
"""The side of a task's square, the space between two, both in px, and the tasks of one row."""
STAGE_WIDTH, COLUMN, MARGIN = ROW * (SQUARE + GAP) + 20, 240, 20
CURVE_WIDTH, CURVE_HEIGHT, AXIS = 640, 260, 40


def page(report: PlanReport) -> str:
    """The whole page; it needs nothing else."""
    parts = {
        "title": html.escape(report.topology.job),
        "head": _head(report),
        "graph": _graph(report),
        "curve": _curve(report),
        "domains": _domains(report),
    }
    return fill(TEMPLATE, parts)


def _head(report: PlanReport) -> str:
    plan = report.plan
    facts = {
        "replicas": f"{len(plan.tasks)} of {report.graph.replaceable} tasks",
        "output fidelity": percent(plan.fidelity),
        "at most": percent(plan.bound),
        "internal completeness": percent(report.completeness),
        "algorithm": report.algorithm,
    }
    if report.expected is not None:
        facts["expected, one domain fails"] = percent(report.expected)
    listed = "".join(f"<div><dt>{name}</dt><dd>{html.escape(text)}</dd></div>" for name, text in facts.items())
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in report.notes)
    said = html.escape(" ".join(sentences(report)))
    return f'<h1>{html.escape(report.topology.job)}</h1><p>{said}</p><dl class="facts">{listed}</dl>{notes}'


def _graph(report: PlanReport) -> str:
    places = _places(report)
    boxes = [_stage(report, place, *at) for place, at in enumerate(places)]
    edges = []
    for stream in report.graph.substreams:
        (left, top), (right, bottom) = places[stream.upstream], places[stream.downstream]
        x, y, to_x, to_y = left + STAGE_WIDTH, top + 20, right, bottom + 20
        bend = (to_x - x) / 2
        edges.append(f'<path class="edge" d="M{x} {y} C{x + bend:g} {y} {to_x - bend:g} {to_y} {to_x} {to_y}"/>')
    width = max(x for x, _ in places) + STAGE_WIDTH + MARGIN
    height = max(y + _height(report, place) for place, (_, y) in enumerate(places)) + MARGIN
    label = f"{len(report.plan.tasks)} of {report.graph.replaceable} tasks have a replica"
    inside = "".join(edges + boxes)
    return f'<svg width="{width}" height="{height}" role="img" aria-label="{label}">{inside}</svg>'


def _places(report: PlanReport) -> list[tuple[int, int]]:
    """By operator, the place of its box: columns by the longest way from a source, rows by their order."""
    depth = [0] * len(report.graph.operators)
    for stream in sorted(report.graph.substreams, key=lambda one: one.upstream):
        depth[stream.downstream] = max(depth[stream.downstream], depth[stream.upstream] + 1)
    filled: dict[int, int] = {}
    found = []
    for place in range(len(depth)):
        top = filled.get(depth[place], MARGIN)
        found.append((MARGIN + depth[place] * COLUMN, top))
        filled[depth[place]] = top + _height(report, place) + MARGIN
    return found


def _height(report: PlanReport, place: int) -> int:
    rows = -(-report.graph.operators[place].count // ROW)
    return 40 + rows * (SQUARE + GAP)


def _stage(report: PlanReport, place: int, x: int, y: int) -> str:
    group = report.graph.operators[place]
    squares = []
    for local in range(group.count):
        task = group.first + local
        kind = "task replica" if task in report.plan.tasks else "task"
        left, top = x + 10 + local % ROW * (SQUARE + GAP), y + 32 + local // ROW * (SQUARE + GAP)
        where = f", replica in {html.escape(report.replicas[task])}" if task in report.replicas else ""
        squares.append(
            f'<rect class="{kind}" x="{left}" y="{top}" width="{SQUARE}" height="{SQUARE}" rx="3">'
            f"<title>{report.graph.names[task]}{where}</title></rect>"
        )
    join = " (joins)" if group.correlated else ""
    box = f'<rect class="stage" x="{x}" y="{y}" width="{STAGE_WIDTH}" height="{_height(report, place)}" rx="8"/>'
    return f'{box}<text x="{x + 10}" y="{y + 20}">{html.escape(group.name)}{join}</text>{"".join(squares)}'


def _curve(report: PlanReport) -> str:
    points = sorted(report.curve.items())
    last = max(1, points[-1][0])

    def at(budget: int, share: float) -> tuple[float, float]:
        return AXIS + budget / last * (CURVE_WIDTH - 2 * AXIS), CURVE_HEIGHT - AXIS - share * (CURVE_HEIGHT - 2 * AXIS)

    lines = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(0, share)
        lines.append(f'<line class="grid" x1="{x:g}" x2="{CURVE_WIDTH - AXIS}" y1="{y:g}" y2="{y:g}"/>')
        lines.append(f'<text class="soft" x="{x - 6:g}" y="{y + 4:g}" text-anchor="end">{100 * share:g} %</text>')
    for budget in sorted({0, last, report.budget}):
        x, y = at(budget, 0)
        lines.append(f'<text class="soft" x="{x:g}" y="{y + 16:g}" text-anchor="middle">{budget}</text>')
    kept = [at(budget, plan.fidelity) for budget, plan in points]
    most = [at(budget, plan.bound) for budget, plan in points]
    dots = [
        f'<circle class="dot" cx="{x:g}" cy="{y:g}" r="{5 if budget == report.budget else 3}">'
        f"<title>{budget} replicas keep {percent(plan.fidelity)}</title></circle>"
        for (budget, plan), (x, y) in zip(points, kept)
    ]
    drawn = [f'<polyline class="most" points="{_joined(most)}"/>', f'<polyline class="kept" points="{_joined(kept)}"/>']
    label = f"{report.budget} replicas keep {percent(report.plan.fidelity)} of the output"
    inside = "".join(lines + drawn + dots)
    return f'<svg width="{CURVE_WIDTH}" height="{CURVE_HEIGHT}" role="img" aria-label="{label}">{inside}</svg>'


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _domains(report: PlanReport) -> str:
    if not report.domains:
        return ""
    heading = "<tr><th>domain</th><th>weight</th><th>tasks</th><th>replicas here</th></tr>"
    rows = "".join(_domain_rows(report))
    return (
        '<section class="card"><h2>Failure domains</h2><p class="soft">A replica is never beside its task.</p>'
        f'<div class="scroll"><table>{heading}{rows}</table></div></section>'
    )


def _domain_rows(report: PlanReport) -> Iterator[str]:
    for domain in report.domains:
        tasks = ", ".join(report.graph.names[task] for task in sorted(domain.tasks))
        here = [report.graph.names[task] for task, name in sorted(report.replicas.items()) if name == domain.name]
        yield (
            f"<tr><td>{html.escape(domain.name)}</td><td>{domain.probability:g}</td>"
            f'<td class="names">{tasks}</td><td class="names">{", ".join(here) or "none"}</td></tr>'
        )
