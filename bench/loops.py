"""The cost of protecting a loop while nothing fails, and of a task that dies in its middle (ABS 6.0.4).

    python -m bench.loops [--rounds N] [--quick]

All schemes in turn, in an order that changes from round to round; ratios to `none` within a round. The control is
`barrier` with a checkpoint each iteration: as soon as one is whole the next begins, which must cost what `optimistic`
saves. Kills come in the middle of the loop; extra supersteps are those beside an undisturbed run's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.afstream.jobs import Job, Outcome, run
from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import median, riprap, save, table

CASES = {
    "none": "{scheme: none}",
    "optimistic": "{scheme: optimistic, interval_ms: 1000}",
    "barrier, 1 s": "{scheme: barrier, interval_ms: 1000}",
    "barrier, each iteration (control)": "{scheme: barrier, interval_ms: 1}",
}
KILLED = ("optimistic", "barrier, 1 s", "barrier, each iteration (control)")
ALGORITHMS = {
    "PageRank": ("configs/pagerank.yaml", "stages.rank.options={tolerance: 1.0e-10, supersteps: 300}", "rank.1"),
    "components": ("configs/components.yaml", "stages.component.options={delta: false}", "component.1"),
}
COSTS = ("scheme", "seconds of the loop", "CPU seconds", "seconds, median", "checkpoints a run")
KILLS = ("scheme", "seconds, median", "supersteps before the kill", "supersteps in all", "furthest off", "kills")
EXACT = ("components",)
WITHIN = 1e-6


def graph(edges: int) -> str:
    """Lines of a synthesized graph, made when they are not there."""
    base = Path(".data/bench") / f"graph-{edges}"
    if not (base / "lines/manifest.json").exists():
        base.mkdir(parents=True, exist_ok=True)
        riprap("prep", "synth", "graph", str(base / "edges.txt"), "--rows", str(edges))
        riprap("prep", "text", str(base / "edges.txt"), "--out", str(base / "lines"))
    return str(base / "lines")


def seconds(one: Outcome) -> float:
    """From the first line that is read to the end of the loop: the job has one window."""
    return float(one.summary["epoch_latency_ms"]["max"]) / 1000


def cpu(one: Outcome) -> float:
    """CPU seconds of all workers."""
    return float(sum(one.summary["cpu_seconds"].values()))


def values(one: Outcome) -> dict[int, float]:
    """By vertex."""
    found: dict[int, float] = {}
    for part in one.results:
        found |= dict(zip(part["vertices"].tolist(), part["values"].tolist(), strict=True))
    return found


def furthest(one: Outcome, truth: dict[int, float]) -> float:
    """The greatest distance of a value from the undisturbed run's."""
    found = values(one)
    return max(abs(found[vertex] - value) for vertex, value in truth.items())


def supersteps(one: Outcome) -> tuple[int, int]:
    """Before the kill, and in all; 0 and 0 of a loop that was not begun once more."""
    told = [event for event in one.events if event["event"] == "compensated"]
    return (told[0]["before"], told[0]["before"] + told[0]["supersteps"]) if told else (0, 0)


def cost_rows(found: dict[str, Found[Outcome]]) -> list[list[Any]]:
    """A row for each scheme while nobody dies."""
    rows: list[list[Any]] = []
    for name, case in found.items():
        made = [one.summary["checkpoints"]["completed"] for one in case.done if "checkpoints" in one.summary]
        times, used = (str(ratio(case, found["none"], value)) for value in (seconds, cpu))
        rows.append([name, times, used, case.median(seconds), median(made) if made else "-"])
    return rows


def kill_rows(found: dict[str, Found[Outcome]], calm: Outcome, about: str) -> list[list[Any]]:
    """A row for each scheme when a task dies in the middle of the loop."""
    truth, rows = values(calm), []
    for name, case in found.items():
        hit = [one for one in case.done if one.kills]
        again = [pair for pair in map(supersteps, hit) if any(pair)]
        off = max((furthest(one, truth) for one in hit), default=float("nan"))
        assert not hit or off <= (0.0 if about in EXACT else WITHIN), f"{name}: off by {off}"
        behind = median(before for before, _ in again) if again else "-"
        whole = median(total for _, total in again) if again else "-"
        took = case.median(lambda one: one.summary["seconds"])
        rows.append([name, took, behind, whole, off, f"{len(hit)} of {len(case.rounds)}"])
    return rows


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small graph and one round, to try the bench")
    options = parser.parse_args()
    edges, rounds = (20_000, 1) if options.quick else (1_000_000, options.rounds)
    source, load = graph(edges), await_quiet()
    tables: dict[str, str] = {}
    figures: dict[str, Any] = {}
    for about, (config, setting, victim) in ALGORITHMS.items():
        job = Job(config, [f"input.path={source}", setting])
        found = alternate(about, {name: job.under(scheme) for name, scheme in CASES.items()}, run, rounds)
        tables[f"{about}: ratios to `none`, with their range"] = table(COSTS, cost_rows(found))
        middle = found["none"].median(lambda one: one.summary["seconds"]) * 0.6
        kill = f"kill:{victim}@seconds={middle:.2f}"
        hit = alternate(f"{about}, kill", {name: job.under(CASES[name], kill) for name in KILLED}, run, rounds, False)
        tables[f"{about}: {kill}"] = table(KILLS, kill_rows(hit, found["none"].done[0], about))
        figures[about] = {
            name: {"seconds": [seconds(one) for one in case.done], "cpu": [cpu(one) for one in case.done]}
            for name, case in found.items()
        }
    about = f"synthesized: a graph of {edges:,} edges, 3 tasks"
    save("loops", "Loops and their protection", tables, figures, data=about, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
