"""Schemes with states that are too large to be copied whole: slices of them, and what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation, run_or_replay
from pairs import chosen
from test_dataflow_sim import CASES, EXACT, FAULTS, errors, run
from test_partially_active_sim import DEEP, FAULTS_OF_COPIES, FIRST, SEEDS, _case, _replicated, _states, _truth

from riprap.codec.ids import WorkerId
from riprap.engine.schemes.parts import copies
from riprap.engine.schemes.parts.copies import Copies
from riprap.operators.states import HashMap
from riprap.operators.states.base import Sliced
from riprap.operators.states.vector import ArrayState


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All states count as large."""
    for name, value in {"LARGE_BYTES": 0, "ROUND_SHARE": 0, "SLICES": 2, "CHANGES_MAX": 1000}.items():
        monkeypatch.setattr(copies, name, value)
    for state in (HashMap, ArrayState):
        monkeypatch.setattr(state, "_mostly_changed", lambda self: False)


@pytest.mark.parametrize("fault", FAULTS_OF_COPIES)
def test_the_result_is_the_same_whoever_dies(fault: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _replicated(seed, fault, **FAULTS_OF_COPIES[fault])
        assert _states(simulation)[WorkerId("d", 0)] == _truth(), f"seed {seed}"


WITH_BLOCKS = [(scheme, shape) for scheme, shape in CASES if scheme in ("mini_batch", "upstream_backup")]
"""Which save blocks beside states."""


@pytest.mark.parametrize(
    ("scheme", "shape", "fault"), chosen([(*case, fault) for case in WITH_BLOCKS for fault in FAULTS], 1)
)
def test_each_item_is_counted_once_whoever_dies(scheme: str, shape: str, fault: str) -> None:
    """Pairs of these values stand in the test of this name for small states."""
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(DataflowCase(EXACT[scheme], shape, **FAULTS[fault]), seed, f"{scheme}-{shape}-{fault}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"


def test_nothing_is_copied_whole_once_more_when_a_task_has_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first record builds on those of its former incarnation."""
    restored: list[Copies[Any]] = []
    built: list[Sliced] = []
    go_on, copy_whole, note = Copies.go_on, Copies.copy_whole, Copies.note

    def going_on(self: Copies[Any], base: Any, found: Sequence[Sliced]) -> bool:
        restored.append(self)
        return go_on(self, base, found)

    def refusing(self: Copies[Any]) -> Sliced:
        assert self not in restored
        return copy_whole(self)

    def noting(self: Copies[Any], at: Any, found: Sliced, more_bytes: int = 0) -> Any:
        built.extend([found] if self in restored else ())
        return note(self, at, found, more_bytes)

    monkeypatch.setattr(Copies, "go_on", going_on)
    monkeypatch.setattr(Copies, "copy_whole", refusing)
    monkeypatch.setattr(Copies, "note", noting)
    needless = 0
    for seed in range(FIRST, FIRST + 2 * SEEDS):
        simulation = DataflowSimulation(_case(DEEP, items=400, windows=12, kills=6, faulty=("b", "c", "d")), seed)
        run_or_replay(simulation, __file__, "once_more")
        for written in simulation.disk.values():
            records = [block.meta for _, _, block in written if block.meta.get("what") == "state"]
            needless += bool(records) and all(record["builds_on"] for record in records)
    assert built, "no record went on from one of a former incarnation: the case says nothing"
    assert needless, "no whole state was ever needless: the case says nothing"
