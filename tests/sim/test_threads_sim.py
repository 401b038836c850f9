"""Workers with several compute threads under random kills and hangs: they do what workers with one do (AF 3.2).

A source has read blocks ahead when it dies, other workers have had some prepared. `RIPRAP_SIM_SEEDS` sets how many
seeds each case gets.
"""

from __future__ import annotations

import os
from dataclasses import replace

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation

from riprap.codec.ids import WorkerId
from riprap.operators.dataflow import Emitter, Items

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
SCHEMES = {
    "mini_batch": {"scheme": "mini_batch"},
    "upstream_backup": {"scheme": "upstream_backup", "memory_bytes": 1 << 16},
    "approximate": {
        "scheme": "approximate", "theta": 60.0, "l": 16.0, "gamma": 12.0, "beta": 1.0, "window": "none",
        "window_epochs": 1,
    },
}  # fmt: skip


def signed(items: Items) -> Items:
    """The block, with the sum of its rows beside it."""
    (rows,) = items.arrays
    return items._replace(arrays=(rows, rows.sum(axis=0)))


def checked(items: Items) -> Items:
    """The block that `signed` has got; it must have."""
    rows, total = items.arrays
    assert (total == rows.sum(axis=0)).all()
    return items._replace(arrays=(rows,))


class Spread(dataflow_jobs.Spread):
    """Prepares its blocks."""

    def prepare(self, items: Items) -> Items:
        return signed(items)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return super().process_data(checked(items), first, out)


class Total(dataflow_jobs.Total):
    """Prepares its blocks."""

    def prepare(self, items: Items) -> Items:
        return signed(items)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return super().process_data(checked(items), first, out)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", ["full", "chain", "ssp", "asp"])
def test_threads_change_nothing_whoever_dies(monkeypatch: pytest.MonkeyPatch, scheme: str, shape: str) -> None:
    monkeypatch.setattr(dataflow_jobs, "Spread", Spread)
    monkeypatch.setattr(dataflow_jobs, "Total", Total)
    case = DataflowCase(SCHEMES[scheme], shape, heavy=False, kills=3, kill_at_once=2, hangs=1)
    for seed in range(SEEDS):
        alone, helped = (DataflowSimulation(replace(case, threads=n, log=[]), seed) for n in (1, 3))
        assert (alone.run() == helped.run()).all()
        assert alone.case.log == helped.case.log and alone.now == helped.now, f"seed {seed}"
        assert alone.killed, "or there was nothing to see"
        if scheme != "approximate":
            assert np.array_equal(helped.totals(), helped.truth_of_keys()), f"seed {seed}"


class Watched(DataflowSimulation):
    """Notes how many blocks its victims had read ahead: blocks that have no number."""

    read_ahead = 0

    def kill(self, worker: WorkerId) -> None:
        if self.nodes[worker].alive:
            self.read_ahead += len(self.nodes[worker].task._ahead.entries)
        super().kill(worker)


def test_a_source_that_dies_with_blocks_read_ahead_goes_on_at_the_right_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_jobs, "Spread", Spread)
    case = DataflowCase(SCHEMES["upstream_backup"], kills=2, faulty=("a",), threads=3, kill_until_s=0.06)
    read_ahead = 0
    for seed in range(4 * SEEDS):
        simulation = Watched(replace(case, log=[]), seed)
        assert np.array_equal(simulation.run(), simulation.truth_of_keys()), f"seed {seed}"
        assert not any(node.task.lost for node in simulation.nodes.values())
        read_ahead += simulation.read_ahead
    assert read_ahead
