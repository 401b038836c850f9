"""Tentative output in place (`reconcile: false`), as in the paper: windows are closed for good without those who are
dead, and what comes of them later is left out.
"""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

import dataflow_jobs
import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation, Paced, run_or_replay
from test_partially_active_sim import DEEP, FAULTS_OF_COPIES, LONG, REPLICATED
from test_tentative_sim import OPTIONS as RECONCILED
from test_tentative_sim import ROWS, SLOW, WHOLE, Count, D, _states

from riprap.codec.ids import WorkerId
from riprap.engine.schemes.partially_active import PartiallyActive

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
OPTIONS = RECONCILED | {"reconcile": False}
JOB = deepcopy(ROWS)
"""Two sources, two times two tasks in rows, and a destination."""
JOB["stages"]["d"]["operator"] = "test_in_place_sim:Silently"
WINDOWS, ALL = SLOW["windows"], SLOW["windows"] * WHOLE


DIRECT = dataflow_jobs._topology({"a": ("Spread", 2, {}), "d": ("Count", 1, {})}, [{"from": "a", "to": "d"}])
DIRECT["stages"]["d"]["operator"] = "test_in_place_sim:Silently"


class Silently(Count):
    """Counts items, and puts nothing out."""

    def outputs(self) -> None:  # type: ignore[override]
        return None


def _killed(seed: int, *victims: str, **fields: Any) -> DataflowSimulation:
    """One run in which these die at once, after some windows; a restart takes as long as several."""
    options, shape = fields.pop("options", OPTIONS), fields.pop("shape", JOB)
    simulation = Paced(DataflowCase(options, shape, **{**SLOW, **fields}, log=[]), seed)
    for victim in victims:
        simulation.at(0.2, lambda victim=victim: simulation.kill(WorkerId.parse(victim)))
    run_or_replay(simulation, __file__, "killed")
    return simulation


def _lacking(simulation: DataflowSimulation) -> dict[int, list[str]]:
    lacking: dict[int, list[str]] = simulation.nodes[D].task.journal.lacking
    return lacking


def _late(simulation: DataflowSimulation) -> int:
    return sum(node.counts.get("late_items_dropped", 0) for node in simulation.nodes.values())


@pytest.mark.parametrize(
    "victims",
    [("b.0",), ("c.0",), ("a.0",), ("b.0", "c.0")],
    ids=["between", "last", "source", "two in a row"],
)
def test_windows_are_closed_without_who_is_dead(victims: tuple[str, ...]) -> None:
    """Those behind a dead task to whom nobody else sends say so. No window is said to be whole that is not."""
    halves = 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _killed(seed, *victims)
        windows, lacking = dict(simulation.announced[D]), _lacking(simulation)
        assert [*windows] == list(range(1, WINDOWS + 1)), f"seed {seed}"
        assert {name for names in lacking.values() for name in names} <= {"c.0"}, lacking
        assert all(items == WHOLE for window, items in windows.items() if window not in lacking), f"seed {seed}"
        halves += sum(windows[window] == WHOLE // 2 for window in lacking)
    assert halves >= 3


@pytest.mark.parametrize(("shape", "victim"), [(JOB, "b.0"), (JOB, "c.0"), (DIRECT, "a.0")])
def test_what_is_missing_in_the_end_is_what_came_too_late(shape: dict[str, Any], victim: str) -> None:
    """Each item goes one way, and the task is back before the end. A source at a rate reads what was done without it
    as fast as it can."""
    missing, is_whole_again = 0, False
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _killed(seed, victim, shape=shape)
        (counted,) = _states(simulation)[D]
        lacking = _lacking(simulation)
        missing, is_whole_again = missing + ALL - counted, is_whole_again or (bool(lacking) and WINDOWS not in lacking)
        if WINDOWS not in lacking:
            assert ALL - counted == _late(simulation), f"seed {seed}"
    assert missing and is_whole_again


def test_without_a_death_nothing_is_left_out() -> None:
    simulation = _killed(FIRST)
    assert _states(simulation)[D] == [ALL]
    assert not _lacking(simulation) and not _late(simulation)


def test_the_control_is_exact() -> None:
    simulation = _killed(FIRST, "b.0", options=RECONCILED)
    assert _states(simulation)[D] == [ALL] and not _lacking(simulation)


def test_no_checkpoint_is_made_of_what_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """But at the very end."""
    saved: list[tuple[int, bool]] = []
    mark = PartiallyActive._mark

    def noting(self: PartiallyActive) -> None:
        if self.bench.layout.is_sink:
            saved.append((self.bench.progress.epoch, self.bench.progress.last))
        mark(self)

    monkeypatch.setattr(PartiallyActive, "_mark", noting)
    simulation = _killed(FIRST, "b.0", options=OPTIONS | {"checkpoint_s": 0.001})
    lacking = _lacking(simulation)
    assert lacking and {window for window, _ in saved} & {*range(1, WINDOWS)}
    assert not [window for window, last in saved if window in lacking and not last]


@pytest.mark.parametrize("fault", FAULTS_OF_COPIES)
def test_the_job_ends_whoever_dies_and_no_item_counts_twice(fault: str) -> None:
    """With replicas too, which need not put out the same any more, so they are not compared."""
    for shape, options in ((JOB, OPTIONS), (DEEP, REPLICATED | {"tentative_after_ms": 5.0, "reconcile": False})):
        for seed in range(FIRST, FIRST + SEEDS):
            fields = {**(SLOW if shape is JOB else LONG), "restart_s": 0.1, **FAULTS_OF_COPIES[fault]}
            simulation = DataflowSimulation(DataflowCase(options, shape, **fields, log=[]), seed)
            run_or_replay(simulation, __file__, f"job_ends and {fault}")
            if shape is JOB:
                (counted,) = _states(simulation)[D]
                assert counted <= ALL, f"seed {seed}"
            assert not any(node.counts.get("windows_compared") for node in simulation.nodes.values())
