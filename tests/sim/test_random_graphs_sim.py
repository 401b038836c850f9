"""Random graphs under random schemes and faults come to what the plain model says, or are refused before the start.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os

import pytest
from random_graphs import JOBS, Drawn, EndlessGraph, Graph, is_as_the_model_says

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


@pytest.mark.parametrize("kind", [Graph, EndlessGraph], ids=["whole", "drained"])
@pytest.mark.parametrize("scheme", JOBS)
def test_random_graphs_are_as_the_plain_model_says(scheme: str, kind: type[Graph]) -> None:
    seeds = range(FIRST, FIRST + SEEDS)
    ran = sum(is_as_the_model_says(kind, Drawn(seed, (scheme,)), __file__, scheme) for seed in seeds)
    assert ran or SEEDS < 2, "all were refused"
