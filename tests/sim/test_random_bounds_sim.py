"""The bounds of AF 3.5 on random graphs of several operators, with stages of exact schemes among them: what a
destination lacks is what the failures of those above it and its own may cost, each stage's taken together; and nothing
counts twice.

`RIPRAP_SIM_SEEDS` sets how many seeds there are, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import numpy as np
from dataflow_simulator import run_or_replay
from random_graphs import APPROXIMATE, OF_STAGES, Drawn, Graph, drawn_topology
from random_operators import KEYS

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "8"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
THETA, L, GAMMA, ALPHA = APPROXIMATE["theta"], APPROXIMATE["l"], APPROXIMATE["gamma"], 3.0
"""The user's thresholds for each operator, and the greatest value of an item."""
ITEMS = 480
"""Of all sources together: more take too long where a window of gamma waits for durable states."""


class Bounded(Drawn):
    """Each item that an operator gets goes on as itself, so that beta is the number of those who get it."""

    def _kind(self, name: str) -> str:
        return self.rng.choice(["Pass", "Summed", "Prepared"])

    def _mix(self) -> None:
        super()._mix()
        for stage in self.stages.values():
            if stage.get("fault_tolerance", {}).get("scheme") == "none":
                stage["fault_tolerance"] = dict(APPROXIMATE)


class Flowing(Graph):
    """Items come as long as workers die."""

    def _rows(self, number: int) -> np.ndarray:
        numbers, items = np.random.default_rng([self.seed, number]), min(160, ITEMS // len(self.sources))
        return np.column_stack([numbers.integers(0, KEYS, items), numbers.integers(1, 4, items)]).astype(float)


def reached(drawn: Drawn, end: str) -> dict[str, int]:
    """By stage, how often an item that it gets comes to a destination."""
    edges = [edge for edge in drawn.edges if "mode" in edge]

    @cache
    def from_here(name: str) -> int:
        return int(name == end) + sum(
            from_here(edge["to"]) * (drawn.stages[edge["to"]]["parallelism"] if edge["mode"] == "all" else 1)
            for edge in edges
            if edge["from"] == name
        )

    return {name: from_here(name) for name in drawn.stages}


def bound(simulation: Graph, end: str) -> float:
    """The most that a destination stage may lack of the sum of all values (AF 3.5.2, 3.5.3). A source goes back to what
    its receivers have. Each failure may overshoot by an item on both sides of theta."""
    drawn, most = simulation.drawn, 0.0
    often = reached(drawn, end)
    for name, times in often.items():
        deaths = sum(worker.stage == name for worker in simulation.killed)
        own = drawn.stages[name].get("fault_tolerance", {}).get("scheme")
        if not deaths or not times or name.startswith("s") or own in (*OF_STAGES, "erasure", "replication"):
            continue
        if name == end:
            most += THETA + L * ALPHA + 2 * ALPHA * deaths
        else:
            onwards = max(often[edge["to"]] for edge in drawn.edges if edge["from"] == name and "mode" in edge)
            most += ALPHA * (L * times + GAMMA * onwards)
    return most


def lacking(seed: int, scheme: str = "approximate") -> list[tuple[float, float]]:
    """What each destination stage lacks, and the bound. AssertionError where anything counts twice."""
    drawn = Bounded(seed, (scheme,))
    topology, problems = drawn_topology(drawn)
    assert topology is not None, f"seed {seed}: {problems}"
    case = replace(drawn.case(), rollbacks=0, kills=drawn.rng.choice([3, 8]), kill_until_s=0.15)
    simulation = Flowing(drawn, topology, case)
    run_or_replay(simulation, __file__, "bounds")
    found, model = simulation.sums(), simulation.model()
    for stage in model:
        assert (found[stage] <= model[stage]).all(), f"seed {seed}: {stage} counts something twice"
    return [((model[stage] - found[stage])[:, :KEYS].sum(), bound(simulation, stage)) for stage in model]


def test_destinations_of_random_graphs_stay_within_the_bounds() -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        for off, most in lacking(seed):
            assert off <= most, f"seed {seed}: lacks {off}, of which the bound is {most}"


def test_without_a_scheme_they_lack_more() -> None:
    """The control."""
    assert any(off > most for seed in range(10) for off, most in lacking(seed, "none"))
