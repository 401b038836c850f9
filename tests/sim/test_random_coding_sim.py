"""Random jobs of Source, Processor and Sink, and random graphs with coded stages, under random faults.

Each comes to what a plain model says. `RIPRAP_SIM_SEEDS` sets how many seeds each case gets, `RIPRAP_SIM_FIRST` the
first of them.
"""

from __future__ import annotations

import os

import pytest
from dataflow_simulator import run_or_replay
from random_graphs import EndlessGraph, Graph, drawn_topology
from random_graphs import verdict as verdict_of_graph
from random_segments import JOBS, DrawnSegments
from random_training import OTHERS, SPREADING, EndlessTraining, RandomTraining, drawn_case, verdict
from test_random_graphs_sim import EXPECTED

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
        drawn = DrawnSegments(seed, (scheme,))
        topology, problems = drawn_topology(drawn)
        if topology is None:
            assert all(problem.wrong == EXPECTED for problem in problems), f"seed {seed}: {problems}"
            continue
        simulation = (EndlessGraph if seed % 3 == 0 else Graph)(drawn, topology, drawn.case())
        run_or_replay(simulation, __file__, scheme)
        assert not (wrong := verdict_of_graph(simulation)), f"seed {seed}: {wrong}"
