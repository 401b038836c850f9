"""Stopped and cut-off processors in simulated time: what they cost, and that healthy ones are left alone.

A worker of an even index is on the sink's host, where the system says that it stands still; the silence of the others
is all that the sink has.
"""

from __future__ import annotations

import itertools
import os
import statistics
from typing import Any

import pytest
from staged_jobs import Case, StagedSimulation

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
STOPPED_AT_S, STOPPED_S = 0.6, 5.0
ITEMS = 12_000
"""A stream that is not over when a worker stops."""
ERASURE: dict[str, Any] = {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2}


def gaps_of(
    options: dict[str, Any], victim: int | None, seed: int, items: int = ITEMS
) -> tuple[list[float], float, dict[str, int]]:
    """The gaps between commits of a run in which a processor stops, the longest of them since then, and the counts."""
    simulation = StagedSimulation(Case(ERASURE | options, items=items), seed)
    sink = simulation.nodes[simulation.sinks[0]]
    journal, times = sink.task.journal, []
    committed = journal.committed

    def note(*words: Any) -> None:
        times.append(simulation.now)
        committed(*words)

    journal.committed = note
    if victim is not None:
        simulation.at(STOPPED_AT_S, lambda: simulation._hang(simulation.processors[victim], STOPPED_S))
    simulation.run()
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return gaps, max(gap for gap, end in zip(gaps, times[1:]) if end >= STOPPED_AT_S), sink.counts


@pytest.mark.parametrize("attachment", ["lazy", "eager"])
@pytest.mark.parametrize("victim", [2, 3], ids=["stopped", "cut-off"])
def test_a_worker_that_stops_costs_a_few_usual_gaps(victim: int, attachment: str) -> None:
    for seed in range(SEEDS):
        gaps, longest, counts = gaps_of({"hedge": "cost", "attachment": attachment}, victim, seed)
        usual = statistics.median(gaps)
        assert counts["decoded_rows"] > 0
        assert longest < (4 if victim == 2 else 8) * usual, f"seed {seed}: a fixed 100 ms are 12 gaps here"


def test_without_a_hedge_it_costs_the_whole_stop() -> None:
    _, longest, counts = gaps_of({"hedge": "none", "attachment": "lazy"}, 3, 0)
    assert longest > 0.9 * STOPPED_S and "decoded_rows" not in counts


@pytest.mark.parametrize("attachment", ["lazy", pytest.param("eager", marks=pytest.mark.long)])
def test_fewer_than_a_row_in_a_thousand_is_decoded_in_a_calm_run(attachment: str) -> None:
    found = [gaps_of({"hedge": "cost", "attachment": attachment}, None, seed, 30_000)[2] for seed in range(SEEDS)]
    rows = sum(counts["rows"] for counts in found)
    assert rows == 1200 * SEEDS and sum(counts.get("decoded_rows", 0) for counts in found) < rows / 1000
