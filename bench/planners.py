"""The planners of partially active replication on random topologies, and on large ones (PPA VI-C, Fig. 14).

    python -m bench.planners [--topologies N] [--quick]

Output fidelity by planner and replication ratio, for the specifications of each part of the figure; the certified gap
of `auto`; and seconds for large graphs. The control is a ratio of 1, at which all planners must keep all. `dp` has
the topologies on which it ends, and their number is named. Seconds are wall time, the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.random_topologies import Specification, random_topology
from bench.rounds import await_quiet
from bench.runs import save, table
from riprap.codec.errors import RiprapError
from riprap.configs.shape import EdgeSection, Shape, placed
from riprap.controller.planning import dp
from riprap.controller.planning.fidelity import fidelity_of
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.greedy import plan_greedy
from riprap.controller.planning.planner import Planner
from riprap.controller.planning.rates import StreamRates, task_graph
from riprap.controller.planning.structure_aware import plan_structure_aware

RATIOS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
USUAL = Specification("structured", parallelism=(1, 10), zipf=0.1)
SPECIFICATIONS = {
    "usual (Zipf 0.1, parallelism 1-10, structured, no joins)": USUAL,
    "14a, uniform rates": replace(USUAL, zipf=0.0),
    "14b, parallelism 10-20": replace(USUAL, parallelism=(10, 20)),
    "14c, full": replace(USUAL, kind="full"),
    "14d, half joins": replace(USUAL, joins=0.5),
}
"""Each part of the figure changes one thing of what is usual."""
DP_PAIRS_MAX = 1_000_000
FIDELITY = ("specification", "ratio", "greedy", "SA", "dp", "auto", "SA / greedy", "SA / dp", "dp ended")
GAPS = ("specification", "median gap", "worst gap", "plans")
SECONDS = ("graph", "tasks", "replicas", "planner", "seconds", "OF", "gap")


@dataclass
class Cell:
    """One specification at one ratio: by topology, OF of each planner; `dp` only of those that it ended on."""

    greedy: list[float] = field(default_factory=list)
    aware: list[float] = field(default_factory=list)
    auto: list[float] = field(default_factory=list)
    by_dp: list[tuple[float, float]] = field(default_factory=list)
    """(OF of SA, OF of dp)."""
    gaps: list[float] = field(default_factory=list)

    def add(self, graph: TaskGraph, planner: Planner, budget: int) -> None:
        """Plan one topology, by all but dp."""
        self.aware.append(fidelity_of(graph, plan_structure_aware(graph, budget)))
        self.greedy.append(fidelity_of(graph, plan_greedy(graph, budget)))
        found = planner.plan(budget)
        self.auto.append(found.fidelity)
        self.gaps.append(found.gap)

    def add_dp(self, graph: TaskGraph, budget: int) -> bool:
        """Plan the topology added last by dp; False where it does not end."""
        try:
            self.by_dp.append((self.aware[-1], fidelity_of(graph, dp.plan_dp(graph, budget))))
        except RiprapError:
            return False
        return True

    def extend(self, further: Cell) -> None:
        """Take in the topologies of another cell."""
        for name, values in vars(self).items():
            values.extend(getattr(further, name))

    def row(self) -> list[Any]:
        """Means; SA / dp is the mean of the ratios where dp keeps anything."""
        means = [statistics.fmean(one) for one in (self.greedy, self.aware)]
        shares = [aware / best for aware, best in self.by_dp if best > 0]
        best = statistics.fmean(best for _, best in self.by_dp) if self.by_dp else "-"
        against = means[1] / means[0] if means[0] > 0 else "all" if means[1] > 0 else "-"
        near = statistics.fmean(shares) if shares else "-"
        return [*means, best, statistics.fmean(self.auto), against, near, f"{len(self.by_dp)} of {len(self.aware)}"]


def cells(wanted: Specification, seed: tuple[int, int], ratios: tuple[float, ...]) -> dict[float, Cell]:
    """By ratio, one topology of a specification."""
    dp.PAIRS_MAX = DP_PAIRS_MAX
    graph = random_topology(np.random.default_rng(seed), wanted).graph
    planner, found = Planner(graph), {ratio: Cell() for ratio in ratios}
    for ratio in sorted(ratios, reverse=True):
        found[ratio].add(graph, planner, round(graph.size * ratio))
    for ratio in sorted(ratios):
        if not found[ratio].add_dp(graph, round(graph.size * ratio)):
            break  # with a larger budget it has only more to look at
    everything = found[1.0]
    assert min(everything.greedy + everything.aware + everything.auto) > 1 - 1e-9, "all replicas keep all output"
    return found


def joined(each: list[dict[float, Cell]]) -> dict[float, Cell]:
    """By ratio, all topologies of a specification."""
    found = {ratio: Cell() for ratio in each[0]}
    for one in each:
        for ratio, cell in one.items():
            found[ratio].extend(cell)
    return found


def of_edges(stages: dict[str, int], edges: list[tuple[str, str, str]], seed: int) -> TaskGraph:
    """A graph with random rates of its first stage's tasks."""
    first = next(iter(stages))
    rates = StreamRates(sources={first: np.random.default_rng(seed).random(stages[first]).tolist()})
    return task_graph(Shape(stages, placed(EdgeSection(*edge) for edge in edges)), rates)  # type: ignore[arg-type]


def merging(tasks: int) -> TaskGraph:
    """Structured: three 2:1 merges."""
    unit = tasks // 15
    stages = {"a": 8 * unit, "b": 4 * unit, "c": 2 * unit, "d": unit}
    return of_edges(stages, [("a", "b", "merge"), ("b", "c", "merge"), ("c", "d", "merge")], 1)


def across(tasks: int) -> TaskGraph:
    """Full edges alone."""
    stages = dict.fromkeys("abcd", tasks // 4)
    return of_edges(stages, [("a", "b", "full"), ("b", "c", "full"), ("c", "d", "full")], 2)


def timed(make: Callable[[int], TaskGraph], tasks: int, planner: str, rounds: int) -> list[Any]:
    """The row of one planner on one large graph, at a ratio of 0.1."""
    graph, spent = make(tasks), []
    budget = graph.size // 10
    gap: Any = "-"
    for _ in range(rounds):
        began = time.perf_counter()
        if planner == "SA":
            reached = fidelity_of(graph, plan_structure_aware(graph, budget))
        else:
            found = Planner(graph, "exact").plan(budget)
            reached, gap = found.fidelity, found.gap
        spent.append(time.perf_counter() - began)
    return [make.__name__, graph.size, budget, planner, statistics.median(spent), reached, gap]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topologies", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="few topologies and one round, to try the bench")
    options = parser.parse_args()
    topologies, ratios, rounds = (1, RATIOS[::5], 1) if options.quick else (options.topologies, RATIOS, 5)
    load = await_quiet(wait_s=0) if options.quick else await_quiet()
    fidelity, gaps, figures = [], [], {}
    with ProcessPoolExecutor(2) as pool:  # nothing is timed here
        jobs = {
            name: [pool.submit(cells, wanted, (seed, number), ratios) for number in range(topologies)]
            for seed, (name, wanted) in enumerate(SPECIFICATIONS.items())
        }
    for name in SPECIFICATIONS:
        found = joined([one.result() for one in jobs[name]])
        fidelity += [[name, ratio, *cell.row()] for ratio, cell in found.items()]
        every = [gap for ratio, cell in found.items() if ratio < 1 for gap in cell.gaps]
        gaps.append([name, statistics.median(every), max(every), len(every)])
        figures[name] = {ratio: vars(cell) for ratio, cell in found.items()}
    large = [(merging, 1000, "SA"), (across, 1000, "SA"), (merging, 5000, "SA"), (across, 5000, "SA")]
    large += [(merging, 5000, "exact"), (across, 1000, "exact")]
    seconds = [timed(*case, rounds) for case in large]
    tables = {
        "Mean output fidelity by planner and replication ratio": table(FIDELITY, fidelity),
        "Certified gap of `auto`, ratios below 1": table(GAPS, gaps),
        "Large graphs": table(SECONDS, seconds),
    }
    about = f"synthesized: {topologies} random topologies a specification, of 5-10 operators"
    save("planners", "Planners of partially active replication", tables, figures, data=about, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
