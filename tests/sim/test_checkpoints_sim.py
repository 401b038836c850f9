"""Checkpoints parted by barriers, in streams long enough for many of them: whoever dies when, all go back to the last
whole one, each item counts once and nothing is announced twice or taken back.

By default each scheme meets each shape and each fault, and each shape each fault, and in further tests each value
stands; `make sim` runs all combinations.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product

import pytest
from dataflow_jobs import BEHIND_FEEDBACK, SHAPES
from dataflow_simulator import DataflowCase, DataflowSimulation, run_or_replay
from pairs import IS_WHOLE, chosen
from test_dataflow_sim import CASES as ALL_CASES
from test_dataflow_sim import CHECKPOINTS, EXACT, LOOPS, errors

from riprap.controller.checkpointing import CHECKPOINTING
from riprap.engine.flow.entry import Entry
from riprap.engine.schemes.parts import copies
from riprap.operators.states.base import Sliced
from riprap.operators.states.hash_map import HashMap
from riprap.operators.states.tracked import TrackedState
from riprap.operators.states.vector import ArrayState

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
MORE = 5
"""Seeds beside these, until a life went on from a checkpoint."""
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
CASES = [(name, shape) for name, shape in ALL_CASES if EXACT[name]["scheme"] in CHECKPOINTING]
LONG = {"items": 1600, "windows": 40} if IS_WHOLE else {"items": 800, "windows": 20}
LONG |= {"disk_s": 0.001, "kill_until_s": 0.3}
LOOPING = LONG | ({"items": 480, "windows": 12} if IS_WHOLE else {"items": 240, "windows": 6})
"""Windows of a loop last longer."""
FAULTS = {
    "few": {"kills": 5},
    "many": {"kills": 12, "restart_s": 0.01, "kill_until_s": 0.6},
    "everybody": {"kills": 3, "kill_at_once": 99},
    "cuts": {"cuts": 6, "hangs": 3, "kills": 6, "kill_until_s": 0.8},
    "leaders": {"kills": 4, "leaders": 0.03},
    "narrow": {"kills": 4, "window": 3, "items": 400, "windows": 10},
}


class Counting(DataflowSimulation):
    """Notes from which checkpoint each life went on."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.went_on_from: list[int] = []
        super().__init__(case, seed)

    def restore(self, node):  # type: ignore[no-untyped-def]
        assert self.checkpointing is not None
        self.went_on_from.append(self.checkpointing.marks.completed)
        super().restore(node)


@pytest.mark.parametrize(("scheme", "shape", "fault"), chosen([(*case, fault) for case in CASES for fault in FAULTS]))
def test_all_go_back_to_the_last_whole_checkpoint(scheme: str, shape: str, fault: str) -> None:
    went_on: list[int] = []
    for seed in range(FIRST, FIRST + SEEDS + MORE):
        if seed >= FIRST + SEEDS and any(went_on):
            break
        long = LOOPING if shape in LOOPS else LONG
        simulation = Counting(DataflowCase(EXACT[scheme], shape, **long | FAULTS[fault], log=[]), seed)
        run_or_replay(simulation, __file__, f"{scheme}-{shape}-{fault}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        for sink, announced in simulation.announced.items():
            assert [window for window, _ in announced] == list(range(1, simulation.case.windows + 1)), (
                f"seed {seed}: {sink}"
            )
        counted = sum(items for ends in simulation.announced.values() for _, items in ends)
        assert counted == simulation.items, f"seed {seed}: the windows hold {counted} items"
        went_on += simulation.went_on_from
    assert any(went_on), "no life went on from a checkpoint: the case says nothing"


class AllDieAtTheEnd(DataflowSimulation):
    """Everybody dies once when all windows are closed, before or after the last checkpoint."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        super().__init__(case, seed)
        self.at(0.001, self.look)

    def look(self) -> None:
        if all(self.nodes[sink].task.epoch == self.case.windows for sink in self.sinks):
            when = self.rng.uniform(0, 0.05)
            for worker in list(self.nodes):
                self.at(when, lambda worker=worker: self.kill(worker))
        else:
            self.at(0.001, self.look)


@pytest.mark.parametrize(("scheme", "shape"), chosen(CASES, 1))
def test_who_dies_at_the_end_announces_all_before_it_is_done(scheme: str, shape: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = AllDieAtTheEnd(DataflowCase(EXACT[scheme], shape, windows=12, log=[]), seed)
        run_or_replay(simulation, __file__, f"{scheme}-{shape}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"


@pytest.mark.parametrize("scheme", [name for name, shape in CASES if shape == "bsp"])
def test_what_waits_for_feedback_as_a_line_is_drawn_is_saved_once(scheme: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS + 2):
        case = DataflowCase(EXACT[scheme], BEHIND_FEEDBACK, **LONG | FAULTS["few"], log=[])
        simulation = DataflowSimulation(case, seed)
        run_or_replay(simulation, __file__, f"waits_for_feedback and {scheme}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"


REPEATING = EXACT["barrier"] | {"guarantee": "at_least_once"}
OPEN_SHAPES = [shape for shape in SHAPES if not shape.startswith(("coded", "copied"))]


@pytest.mark.parametrize("fault", ["few", "many"])
def test_at_least_once_nothing_is_lost_and_windows_close_once(fault: str) -> None:
    """And some of it is counted again: the case would say nothing otherwise."""
    again = 0
    for shape in ("full", "windows", "keyed", "ssp"):
        for seed in range(FIRST, FIRST + 2 * SEEDS):
            simulation = Counting(DataflowCase(REPEATING, shape, **LONG | FAULTS[fault], log=[]), seed)
            run_or_replay(simulation, __file__, f"at_least_once and {fault}")
            assert (errors(simulation) >= 0).all(), f"{shape}, seed {seed}: {errors(simulation)}"
            for sink, announced in simulation.announced.items():
                closed = [window for window, _ in announced]
                assert closed == list(range(1, simulation.case.windows + 1)), f"{shape}, seed {seed}: {sink}"
            assert sum(items for ends in simulation.announced.values() for _, items in ends) == simulation.items
            again += errors(simulation).any()
    assert again


LED_BACK = [shape for shape in OPEN_SHAPES if shape in (*LOOPS, "bsp", "asp")]


@pytest.mark.parametrize("shape", LED_BACK)
def test_at_least_once_nothing_is_lost_of_what_leads_back(shape: str) -> None:
    """Lines are drawn within loops too, where what came before the barriers of some links still waits."""
    faults = {"items": 240, "windows": 6, "disk_s": 0.001, "kills": 8, "restart_s": 0.01, "kill_until_s": 0.3}
    for seed in range(FIRST, FIRST + SEEDS + 1):
        simulation = Counting(DataflowCase(REPEATING, shape, **faults, log=[]), seed)
        run_or_replay(simulation, __file__, f"leads_back and {shape}")
        assert (errors(simulation) >= 0).all(), f"seed {seed}: {errors(simulation)}"
        for sink, announced in simulation.announced.items():
            assert [window for window, _ in announced] == list(range(1, 7)), f"seed {seed}: {sink}"


@pytest.mark.parametrize("seed", (8, 11))
def test_at_least_once_what_waits_behind_a_barrier_that_was_let_in_is_not_of_its_line(seed: int) -> None:
    """It waits for feedback, and its senders have not sent it as far as the checkpoint knows."""
    faults = {"items": 240, "windows": 6, "disk_s": 0.001, "kills": 8, "restart_s": 0.01, "kill_until_s": 0.3}
    simulation = Counting(DataflowCase(REPEATING, BEHIND_FEEDBACK, **faults, log=[]), seed)
    run_or_replay(simulation, __file__, "let_in_is_not_of_its_line")
    assert (errors(simulation) >= 0).all(), errors(simulation)


@pytest.mark.parametrize("shape", OPEN_SHAPES)
def test_at_least_once_without_a_loss_is_exactly_once(shape: str) -> None:
    long = LOOPING if shape in LOOPS else LONG
    simulation = Counting(DataflowCase(REPEATING, shape, **long, log=[]), FIRST)
    run_or_replay(simulation, __file__, f"without_a_loss and {shape}")
    assert not errors(simulation).any()


@pytest.mark.parametrize(
    ("scheme", "shape"), chosen(list(product(("barrier", "unaligned"), ("full", "windows", "keyed", "ssp"))), 1)
)
def test_large_states_are_saved_in_rounds_of_slices(scheme: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All states count as large, and none is saved whole but at first and when what was copied last is lost."""
    monkeypatch.setattr(copies, "LARGE_BYTES", 0)
    monkeypatch.setattr(copies, "ROUND_SHARE", 0)
    monkeypatch.setattr(copies, "SLICES", 2)
    monkeypatch.setattr(copies, "CHANGES_MAX", 1000)
    for state in (HashMap, ArrayState):
        monkeypatch.setattr(state, "_mostly_changed", lambda self: False)
    restored: list[int] = []
    recover = TrackedState.recover_chain

    def noting(self: TrackedState, backups: Sequence[Sliced]) -> None:
        restored.append(0 if backups[0].backup.full else sum(one.slice is not None for one in backups))
        recover(self, backups)

    monkeypatch.setattr(TrackedState, "recover_chain", noting)
    for seed in range(FIRST, FIRST + 2 * SEEDS):
        simulation = Counting(
            DataflowCase(
                EXACT[scheme], shape, **LONG | {"items": 1600, "windows": 40, "kills": 6, "kill_until_s": 1.2}, log=[]
            ),
            seed,
        )
        run_or_replay(simulation, __file__, f"slices and {scheme} and {shape}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
    assert any(restored), "no life went on from slices alone: the case says nothing"


class Watching(DataflowSimulation):
    """Notes how many blocks of others have waited before a task at most."""

    longest = 0

    def make_task(self, node):  # type: ignore[no-untyped-def]
        task = super().make_task(node)
        on_receive = task.scheme.on_receive

        def noting(entry: Entry) -> None:
            self.longest = max(self.longest, 0 if entry.is_input else len(task.inbox))
            on_receive(entry)

        task.scheme.on_receive = noting
        return task


@pytest.mark.parametrize("shape", ["chain", "sources", "asp"])
def test_no_more_waits_before_a_task_than_it_processes_in_a_while(shape: str) -> None:
    """In a millisecond that is two blocks of each link, and what was on its way before that was known."""
    longest = []
    for debloat_ms in (None, 1):
        options = CHECKPOINTS | {"scheme": "barrier", "alignment": "aligned", "debloat_ms": debloat_ms}
        simulation = Watching(DataflowCase(options, shape, **LONG, log=[]), FIRST)
        run_or_replay(simulation, __file__, f"waits_before and {shape}")
        assert not errors(simulation).any()
        longest.append(simulation.longest)
    assert longest[1] < 0.7 * longest[0], longest
