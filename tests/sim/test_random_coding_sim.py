"""Random jobs of Source, Processor and Sink, and random graphs with coded stages, under random faults.

Each comes to what a plain model says. `RIPRAP_SIM_SEEDS` sets how many seeds each case gets, `RIPRAP_SIM_FIRST` the
first of them.
"""

from __future__ import annotations

import os

import pytest
from dataflow_simulator import run_or_replay
from random_graphs import EndlessGraph, Graph, is_as_the_model_says
from random_segments import JOBS, DrawnSegments
from random_training import OTHERS, SPREADING, EndlessTraining, RandomTraining, drawn_case, verdict

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


@pytest.mark.parametrize("kind", [RandomTraining, EndlessTraining], ids=["whole", "drained"])
@pytest.mark.parametrize("scheme", SPREADING)
def test_random_jobs_that_spread_blocks_come_to_the_plain_model(scheme: str, kind: type[RandomTraining]) -> None:
    for seed in range(FIRST, FIRST + 3 * SEEDS):
        _train(kind, scheme, seed)


@pytest.mark.parametrize("scheme", OTHERS)
def test_random_jobs_on_plain_links_come_to_the_plain_model(scheme: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        _train(RandomTraining if seed % 2 else EndlessTraining, scheme, seed)


def _train(kind: type[RandomTraining], scheme: str, seed: int) -> None:
    simulation = kind(drawn_case(seed, scheme), seed)
    run_or_replay(simulation, __file__, scheme)
    assert not (wrong := verdict(simulation)), f"seed {seed} of {simulation.case.fault_tolerance}: {wrong}"


@pytest.mark.parametrize("scheme", JOBS)
def test_random_graphs_with_coded_stages_are_as_the_plain_model_says(scheme: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        kind = EndlessGraph if seed % 3 == 0 else Graph
        is_as_the_model_says(kind, DrawnSegments(seed, (scheme,)), __file__, scheme)
