"""Scheme `partially_active` where stages loop: supersteps say the same in whatever order the blocks of peers come."""

from __future__ import annotations

import os
from functools import cache
from itertools import product
from pathlib import Path

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation, run_or_replay
from pairs import chosen
from test_dataflow_sim import FAULTS, IN_SUPERSTEPS, SLOW_WIRE, errors
from test_destination_replicas_sim import Copied
from test_partially_active_sim import OPTIONS
from test_savepoints_sim import MAKERS, go_on

from riprap.operators.iteration.loop_state import LoopState

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


class Told(LoopState):
    """Shows its sums as other states show their values."""

    @property
    def values(self) -> np.ndarray:
        return self.arrays["sums"]


class Ending(dataflow_jobs.Circulate):
    """At the end of a job."""

    def __init__(self) -> None:
        super().__init__(delta=True)
        self.state = Told(2, sums=np.zeros(dataflow_jobs.KEYS))


AT_THE_END = dataflow_jobs._topology(
    {"a": ("Spread", 2, {}), "b1": ("Ending", 3, {})},
    [{"from": "a", "to": "b1"}, {"from": "b1", "to": "b1", "loop": True}],
)
AT_THE_END["stages"]["b1"]["operator"] = "test_ordered_loops_sim:Ending"
"""The tasks that loop are destinations."""
REPLICAS = {"one": ["b1.1"], "loop": ["b1"], "all": ["a", "b1"]}
HITS = FAULTS | {"slow": SLOW_WIRE}


def _run(shape: str, replicas: list[str], seed: int, replay: str, fault: str = "") -> DataflowSimulation:
    at_the_end, faults = shape == "at the end", HITS[fault] if fault else {}
    case = DataflowCase(OPTIONS | {"replicate": replicas}, AT_THE_END if at_the_end else shape, **faults)
    simulation = (Copied if at_the_end and replicas else DataflowSimulation)(case, seed)
    run_or_replay(simulation, __file__, replay)
    return simulation


def _found(simulation: DataflowSimulation) -> list[list[float]]:
    """The sums of each task that loops, and of all copies of it, when all windows have ended."""
    nodes = sorted(simulation.nodes.items())
    return [node.task.operator.state.values.tolist() for worker, node in nodes if worker.stage == "b1"]


@cache
def _truth() -> list[list[float]]:
    return _found(_run("at the end", [], 0, "truth"))


@pytest.mark.parametrize(("copies", "shape", "fault"), chosen([*product(REPLICAS, IN_SUPERSTEPS, HITS)]))
def test_loops_with_replicas_are_exact_whoever_dies(copies: str, shape: str, fault: str) -> None:
    """And copies compare what they put out, and find no difference."""
    compared = 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _run(shape, REPLICAS[copies], seed, f"exact_whoever and {copies}-{shape}-{fault}", fault)
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        compared += sum(node.counts.get("windows_compared", 0) for node in simulation.nodes.values())
    assert compared


@pytest.mark.parametrize("fault", [fault for fault in HITS if fault != "rollbacks"])
@pytest.mark.parametrize("copies", ["none", "one", "loop"])
def test_a_loop_at_the_end_finds_the_same_whoever_dies(copies: str, fault: str) -> None:
    """All copies of a destination do, and one of them has announced each window."""
    replicas = [] if copies == "none" else REPLICAS[copies]
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _run("at the end", replicas, seed, f"at_the_end and {copies}-{fault}", fault)
        found, truth = _found(simulation), _truth()
        assert [sums for sums in truth if sums in found] == truth and all(sums in truth for sums in found), seed
        for announced in simulation.announced.values():
            assert [window for window, _ in announced] == list(range(1, simulation.case.windows + 1)), f"seed {seed}"


@pytest.mark.parametrize("shape", IN_SUPERSTEPS)
def test_a_loop_begins_from_a_savepoint(shape: str, tmp_path: Path) -> None:
    """Made within a loop's window, or before any has ended."""
    for seed in range(FIRST, FIRST + SEEDS):
        maker = list(MAKERS)[(seed + IN_SUPERSTEPS.index(shape)) % len(MAKERS)]
        go_on(maker, "partially_active", shape, {}, seed, tmp_path / str(seed))


def test_a_loop_without_supersteps_goes_wrong() -> None:
    """The control, which is refused (engine/run/kinds/dataflow.py). Under other seeds copies may happen to agree."""
    for seed in (16, 17, 18):
        with pytest.raises(AssertionError, match=r"copies of b1\.\d differ"):
            _run("async_loop", ["b1"], seed, "control", "many")


def test_replicas_take_over_within_a_loop() -> None:
    """On a slow wire a task seldom dies elsewhere, so that the tests above say something of that."""
    within = 0

    class Noting(DataflowSimulation):
        def on_lost(self, worker: object) -> None:
            nonlocal within
            within += any(node.task.progress.iterating for node in self.nodes.values() if node.me.stage == "b1")
            super().on_lost(worker)

    for seed in range(4):
        case = DataflowCase(OPTIONS | {"replicate": ["b1"]}, "self", **SLOW_WIRE)
        simulation = Noting(case, seed)
        run_or_replay(simulation, __file__, "take_over")
    assert within
