"""The table, the figure and the kept numbers of a comparison with the peers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.peers.rows import Key, Row
from bench.peers.workloads import WORKLOADS, Workload
from bench.runs import RESULTS, table

_JVM = {"spark": 50.0, "flink": 3.0, "flink_py": 30.0}
#: Workload -> contender, by the longest beginning of its name -> how many times as fast the yardstick is asked to be.
#: Of all others it is asked to be faster, of those with a zero nothing.
ASKED = {
    "logistic, 11 attributes": {"numpy": 0.5, **_JVM},
    "logistic, 28 attributes": {"numpy": 0.0, **_JVM},
}
YARDSTICK = {
    "logistic": "riprap erasure (4,2)",
    "words": "riprap approximate",
    "flows": "riprap approximate",
}
"""The scheme of ours that the others are compared with: it survives failures."""


def report(workload: Workload, rows: Mapping[str, Row], lines: Mapping[str, int]) -> str:
    """A table, the fastest first, then the contenders that gave no measurement, with the reasons."""
    yardstick = YARDSTICK[workload.program]
    best = rows[yardstick].rate if yardstick in rows else math.nan
    loop = rows["numpy"].rate if "numpy" in rows else math.nan
    cells: list[list[Any]] = []
    for name, row in sorted(rows.items(), key=lambda pair: -pair[1].rate if pair[1].measured else 1):
        if row.measured:
            last = row.runs[-1]
            rates = [row.rate / 1e6, row.rate / loop, best / row.rate, _asked(workload, name)]
            costs = [row.median("startup_seconds"), row.median("peak_rss_mb"), lines[name]]
            cells.append([name, last.version, *rates, *costs, _answer(last.result)])
        else:
            cells.append([name, *["-"] * 7, lines[name], row.why])
    heading = ["contender", "version", f"M {workload.unit}/s", "of NumPy", f"{yardstick}: times as fast", "asked"]
    heading += ["start-up, s", "peak MB", "lines of code", "answer, or why there is none"]
    return table(heading, [["-" if cell != cell else cell for cell in row] for row in cells])  # NaN: not measured


def _asked(workload: Workload, name: str) -> str:
    asked = ASKED.get(workload.name, {})
    beginnings = [one for one in asked if name.startswith(one)]
    times = asked[max(beginnings, key=len)] if beginnings else 1.0
    return f"{times:g}" if times and not name.startswith("riprap") else ""


def _answer(result: Mapping[str, Any]) -> str:
    if "log_loss" in result:
        return f"log loss {result['log_loss']:.4f}, accuracy {result['accuracy']:.4f}"
    if "flows" in result:
        return f"{len(result['flows'])} heavy flows"
    return f"{result['distinct']:,} different words"


def pictures(rows: Mapping[Key, Row]) -> list[str]:
    """One bar chart per workload; the names of the SVG files."""
    names = []
    for workload in WORKLOADS:
        rates = {name: row.rate / 1e6 for (of, name), row in rows.items() if of == workload.name and row.measured}
        if rates:
            file = "peers_" + workload.name.replace(", ", "_").replace(" ", "_")
            names.append(_bars(file, workload.name, f"M {workload.unit}/s", rates))
    return names


def _bars(file: str, title: str, unit: str, rates: Mapping[str, float]) -> str:
    """Horizontal bars, the fastest on top, on a logarithmic axis: rates differ by orders of magnitude."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "riprap"  # the same figures, the same file
    from matplotlib import pyplot as plot

    ordered = sorted(rates.items(), key=lambda pair: pair[1])
    figure, axes = plot.subplots(figsize=(7, 1 + 0.25 * len(ordered)), layout="constrained")
    colors = ["tab:blue" if name.startswith("riprap") else "tab:gray" for name, _ in ordered]
    bars = axes.barh([name for name, _ in ordered], [rate for _, rate in ordered], color=colors)
    axes.bar_label(bars, [f"{rate:.3g}" for _, rate in ordered], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(unit)
    axes.tick_params(axis="y", labelsize=8)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{file}.svg", metadata={"Date": None})
    plot.close(figure)
    return f"{file}.svg"


def kept(rows: Mapping[Key, Row]) -> list[dict[str, Any]]:
    """All runs, for bench/results."""
    return [
        {
            "workload": workload,
            "contender": name,
            "why": row.why,
            "runs": [{**vars(one), "rate": one.rate, "result": _answer(one.result)} for one in row.runs],
        }
        for (workload, name), row in rows.items()
    ]
