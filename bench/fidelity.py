"""Output fidelity and internal completeness beside the accuracy of two queries, over the budget (PPA, Figs. 12 and 13).

    python -m bench.fidelity [--quick]

Every task outside the plan is dead (bench/partial_run.py), and what the last stage writes is held against the run
without failures, in which the rates of all links are counted. The control is the plan of all tasks: nothing may be
missing. IC's own plans are those that keep the most items, joins being unions to it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.partial_run import Lines, Members, Played, play
from bench.rounds import await_quiet
from bench.runs import save, table
from riprap.codec.errors import RiprapError
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.controller.planning import dp
from riprap.controller.planning.fidelity import fidelity_of, internal_completeness
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.greedy import plan_greedy
from riprap.controller.planning.rates import StreamRates, task_graph
from riprap.controller.planning.structure_aware import plan_structure_aware
from riprap.engine.plan.premises import joins_of
from riprap.operators.inputs.raw_text import open_raw
from riprap.prep_spark import synth, synth_roads

CONFIGS = Path(__file__).parents[1] / "configs"
BUDGETS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
DP_PAIRS_MAX = 1_000_000
REQUESTS_A_WINDOW, LAST = 2_000, 10
SLICE_S = 10
ERRORS = (
    "query", "plans", "OF - completeness, worst", "OF - accuracy, mean", "worst", "IC - accuracy, mean", "worst",
    "IC's mean / OF's", "SA / dp, least", "greedy / dp, mean",
)  # fmt: skip


def accuracy(tentative: Mapping[int, Collection[Any]], exact: Mapping[int, Collection[Any]]) -> float:
    """The share of the exact set that is in the tentative one, the mean over all exact sets that are not empty:
    |S_T n S_A| / |S_A| of Q1, and |I_T n I_A| / |I_A| of Q2."""
    return statistics.fmean(
        len(set(whole) & set(tentative.get(number, ()))) / len(whole) for number, whole in exact.items() if whole
    )


def tops(window: int, arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, bytes]]:
    """The paths of a file, by its window; as long as no windows are too old to count there is none."""
    paths, offsets, _ = arrays
    if window >= LAST:
        text, ends = paths.tobytes(), offsets.tolist()
        yield from ((window, text[begin:end]) for begin, end in pairwise(ends))


def jams(window: int, arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
    """The segments with a jam, by the start of their five minutes."""
    keys, starts, *_ = arrays
    yield from zip(starts.tolist(), keys.tolist(), strict=True)


@dataclass(frozen=True)
class Query:
    """A job of `configs/` with its input, by source and window, and some parallelisms: overrides of it."""

    title: str
    job: str
    windows: Mapping[str, Sequence[Lines]]
    members: Members
    parallelisms: Sequence[Mapping[str, int]]


def requests(folder: Path, windows: int, own_share: float) -> Query:
    """Q1, of which `own_share` of a path's requests are answered by its own server."""
    path = str(folder / f"requests-{own_share}.txt")
    synth.worldcup(path, windows * REQUESTS_A_WINDOW, own_share=own_share)
    rows, size = open_raw([path]), REQUESTS_A_WINDOW
    parts = [rows.read(number * size, (number + 1) * size) for number in range(windows)]
    sizes = [(1, 4, 2), (1, 8, 4), (2, 8, 4)]
    parallelisms = [dict(zip(("read", "count", "merge"), some, strict=True)) for some in sizes]
    title = f"Q1, {own_share:.0%} of a path on one server"
    return Query(title, "top_paths", {"read": parts}, tops, parallelisms)  # type: ignore[dict-item]


def incidents(folder: Path, windows: int) -> Query:
    """Q2."""
    names = {stream: str(folder / f"{stream}.txt") for stream in synth_roads.STREAMS}
    size = SLICE_S * synth_roads.LOCATIONS_PER_S
    synth.roads(names["locations"], windows * size, stream="locations")
    synth.roads(names["reports"], windows * SLICE_S * 10, stream="reports")
    where, told = (open_raw([names[stream]]) for stream in ("locations", "reports"))
    times = np.loadtxt(names["reports"], np.int64, delimiter=",", usecols=0)
    ends = synth_roads.START_S + SLICE_S * np.arange(windows + 1)
    bounds = np.searchsorted(np.maximum.accumulate(times), ends).tolist()
    parts = {
        "locations": [where.read(number * size, (number + 1) * size) for number in range(windows)],
        "reports": [told.read(first, stop) for first, stop in pairwise(bounds)],
    }
    sizes = [(1, 1, 4, 2, 2), (1, 1, 8, 4, 4), (2, 2, 8, 4, 4)]
    stages = ("locations", "reports", "speeds", "incidents", "jams")
    parallelisms = [dict(zip(stages, some, strict=True)) for some in sizes]
    return Query("Q2", "road_incidents", parts, jams, parallelisms)  # type: ignore[arg-type]


def measured(topology: Topology, run: Played) -> TaskGraph:
    """The graph of tasks, each link with the items that it carried."""
    stages = {name: stage.parallelism for name, stage in topology.stages.items()}
    sources = {name: run.matrix("", 1, name, stages[name])[0].tolist() for name in topology.sources}
    links = {
        edge.name: run.matrix(edge.upstream, stages[edge.upstream], edge.downstream, stages[edge.downstream]).tolist()
        for edge in topology.edges
    }
    return task_graph(topology.shape, StreamRates(sources=sources, links=links), joins_of(topology, {}))


def plan_complete(graph: TaskGraph, budget: int) -> frozenset[int]:
    """The tasks that together process the most items (IC), one after the other."""
    alive = np.zeros(graph.size, bool)
    for _ in range(min(budget, graph.size)):
        tried = alive[:, None] | np.eye(graph.size, dtype=bool)
        gains = np.where(alive, -1.0, internal_completeness(graph, tried))
        alive[int(np.argmax(gains))] = True
    return frozenset(np.flatnonzero(alive).tolist())


PLANNERS: Mapping[str, Callable[[TaskGraph, int], frozenset[int]]] = {
    "dp": dp.plan_dp,
    "SA": plan_structure_aware,
    "greedy": plan_greedy,
    "by IC": plan_complete,
}


@dataclass(frozen=True)
class Point:
    """A plan: its metrics, and what was measured of it."""

    query: str
    tasks: int
    budget: float
    replicas: int
    planner: str
    fidelity: float
    completeness: float
    accuracy: float
    internal: float


def points(query: Query, folder: Path) -> Iterator[Point]:
    """Every plan of a query. Plans of the same tasks are run once."""
    for sizes in query.parallelisms:
        sets = [f"stages.{stage}.parallelism={tasks}" for stage, tasks in sizes.items()]
        topology = load(CONFIGS / f"{query.job}.yaml", sets, with_input=False)
        exact = play(topology, query.windows, query.members)
        graph, known = measured(topology, exact), {frozenset(range(0)): Played()}
        for share in BUDGETS:
            for name, plan in PLANNERS.items():
                budget = int(graph.size * share)
                try:
                    tasks = plan(graph, budget)
                except RiprapError:
                    continue
                if tasks not in known:
                    alive = {graph.names[task] for task in tasks}
                    known[tasks] = play(topology, query.windows, query.members, alive)
                run = known[tasks]
                yield Point(
                    query.title, graph.size, share, len(tasks), name, fidelity_of(graph, tasks),
                    run.arrived(topology.sinks) / exact.arrived(topology.sinks), accuracy(run.sets, exact.sets),
                    float(internal_completeness(graph, graph.mask(tasks))),
                )  # fmt: skip


def errors(title: str, found: Sequence[Point]) -> list[Any]:
    """The row of a query: distances of plans that OF chose (dp, SA, greedy), and the planners beside dp."""
    chosen = [point for point in found if point.planner != "by IC" and 0 < point.budget < 1]
    near = [abs(point.fidelity - point.accuracy) for point in chosen]
    internal = [abs(point.internal - point.accuracy) for point in chosen]
    best = {(point.tasks, point.budget): point.fidelity for point in chosen if point.planner == "dp"}
    ratios = {
        name: [
            point.fidelity / best[point.tasks, point.budget]
            for point in chosen
            if point.planner == name and best.get((point.tasks, point.budget), 0) > 0
        ]
        for name in ("SA", "greedy")
    }
    return [
        title, len(chosen), max(abs(point.fidelity - point.completeness) for point in chosen),
        statistics.fmean(near), max(near), statistics.fmean(internal), max(internal),
        statistics.fmean(internal) / statistics.fmean(near), min(ratios["SA"]), statistics.fmean(ratios["greedy"]),
    ]  # fmt: skip


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few windows, to try the bench")
    quick = parser.parse_args().quick
    load_before = await_quiet(wait_s=0)  # nothing here is measured in seconds
    dp.PAIRS_MAX = DP_PAIRS_MAX
    found: dict[str, list[Point]] = {}
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as name:
        folder = Path(name)
        queries = [requests(folder, 12 if quick else 40, share) for share in (1.0, 0.5, 0.0)]
        for query in [*queries, incidents(folder, 40 if quick else 90)]:
            found[query.title] = list(points(query, folder))
            whole = [point for point in found[query.title] if point.budget == 1]
            assert all(point.accuracy == point.completeness == 1 for point in whole), "all tasks put out all"
            print(f"{query.title}: {len(found[query.title])} plans", flush=True)
    tables = {
        "Distances to what was measured, plans of dp, SA and greedy at 10 to 75 % of the tasks": table(
            ERRORS, [errors(title, some) for title, some in found.items()]
        ),
    }
    figures = {title: [vars(point) for point in some] for title, some in found.items()}
    data = "Q1 semi-real (arrivals and paths real, servers made up), Q2 synthesized"
    save("fidelity", "Output fidelity beside accuracy", tables, figures, data=data, rounds=1, load=load_before)


if __name__ == "__main__":
    main()
