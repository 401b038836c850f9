"""Random graphs whose destinations have replicas too, with tentative output and without: all is written once, exact.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from dataflow_simulator import DataflowCase
from random_graphs import Drawn, Graph, is_as_the_model_says
from random_operators import KEYS
from test_destination_replicas_sim import Copied

from riprap.configs.topology import Topology

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "3"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


class CopiedDrawn(Drawn):
    """Any tasks have replicas, and one destination at least; destinations put rows out."""

    def _draw(self) -> None:
        super()._draw()
        for name, stage in self.stages.items():
            if name.startswith("t"):
                stage["operator"] = "random_operators:EndedWithRows"
        tasks = [f"{name}.{i}" for name, stage in self.stages.items() for i in range(stage["parallelism"])]
        self.replicate = sorted({*self.rng.sample(tasks, self.rng.randint(0, len(tasks))), "t0.0"})


class CopiedGraph(Graph, Copied):
    """Runs it. Under this scheme nobody goes back with others."""

    def __init__(self, drawn: Drawn, topology: Topology, case: DataflowCase) -> None:
        super().__init__(drawn, topology, replace(case, rollbacks=0))

    def sums(self) -> dict[str, np.ndarray]:
        """Of the copies that write, once their rows are looked at."""
        self.sinks = tuple(self.writers.values())
        found = super().sums()
        windows = range(1, self.case.windows + 1)
        for stage, whole in found.items():
            rows = [np.array(files.rows) for sink, files in self.files.items() if sink.stage == stage]
            assert all(one[:, 0].tolist() == [*windows] for one in rows), f"seed {self.seed}: {rows}"
            assert (sum(one[:, 1] for one in rows) == whole[:, :KEYS].sum(axis=1)).all(), f"seed {self.seed}: {rows}"
        assert not any(files.lost for files in self.files.values()), f"seed {self.seed}: rows that nobody has"
        return found


@pytest.mark.parametrize("scheme", ["partially_active", "tentative"])
def test_random_destinations_with_replicas_write_all_once(scheme: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        is_as_the_model_says(CopiedGraph, CopiedDrawn(seed, (scheme,)), __file__, scheme)
