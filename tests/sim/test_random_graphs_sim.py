"""Random graphs under random schemes and faults come to what the plain model says, or are refused before the start.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os

import pytest
from dataflow_simulator import run_or_replay
from random_graphs import JOBS, Drawn, EndlessGraph, Graph, drawn_topology, verdict

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
EXPECTED = "no data edge touches it"
"""The reason for which a graph that is drawn may be refused: one whose loop sends to another stage alone."""


@pytest.mark.parametrize("kind", [Graph, EndlessGraph], ids=["whole", "drained"])
@pytest.mark.parametrize("scheme", JOBS)
def test_random_graphs_are_as_the_plain_model_says(scheme: str, kind: type[Graph]) -> None:
    ran = 0
    for seed in range(FIRST, FIRST + SEEDS):
        drawn = Drawn(seed, (scheme,))
        topology, problems = drawn_topology(drawn)
        if topology is None:
            assert all(problem.wrong == EXPECTED for problem in problems), f"seed {seed}: {problems}"
            continue
        simulation = kind(drawn, topology, drawn.case())
        run_or_replay(simulation, __file__, scheme)
        assert not (wrong := verdict(simulation)), f"seed {seed}: {wrong}"
        ran += 1
    assert ran or SEEDS < 2, "all were refused"
