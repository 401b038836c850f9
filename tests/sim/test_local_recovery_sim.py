"""Only the lost task goes back (`recovery: local`): operators whose output depends on the order of their input put out
again what their receivers have, nobody else is disturbed, and where that cannot be, all go back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import checkpointing
import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from pairs import chosen
from test_checkpoints_sim import FAULTS
from test_dataflow_sim import EXACT, errors

from riprap.controller.steps import restart_lost
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.progress import number_of
from riprap.engine.flow.task import Task
from riprap.engine.schemes.barrier import Barrier, Line
from riprap.engine.schemes.local_barrier import LocalBarrier
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Vector

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
MODULUS = 1_000_003
LAST = 6
"""The key that the marks go to."""


class Marking(DataflowOperator):
    """Hands items on, and marks each block with what its state was before it and is behind it, such that the marks of a
    window add up to nothing if each begins where the one before it ended: in any order, but one order."""

    def __init__(self) -> None:
        self.state: Vector = Vector(2)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        now, weight = int(self.state.values[0]), int(rows[:, 1].sum() % MODULUS) + 1
        then = (now + weight) * 2 % MODULUS
        self.state.add(np.array([0]), np.array([then - now], dtype=float))
        out.send((np.vstack([rows, [LAST, _mark(then) - _mark(now)]]),), items.count + 1)
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        now, before = int(self.state.values[0]), int(self.state.values[1])
        self.state.add(np.array([1]), np.array([now - before], dtype=float))
        out.send((np.array([[LAST, _mark(before) - _mark(now)]]),), 1)


def _mark(state: int) -> float:
    return float(state * state % 65_537)


def _shape(markers: int, stages: int) -> dict[str, Any]:
    middle = {f"b{i}": ("test_local_recovery_sim:Marking", markers, {}) for i in range(stages)}
    all_stages = {"a": ("Spread", 2, {"by_key": False}), **middle, "c": ("Total", 2, {})}
    names = list(all_stages)
    edges = [{"from": one, "to": to, "partitioning": "stripe"} for one, to in pairwise(names)]
    shape = dataflow_jobs._topology(all_stages, edges)
    for stage in middle:
        shape["stages"][stage]["operator"] = "test_local_recovery_sim:Marking"
    return shape


SHAPES = {"one": _shape(2, 1), "two": _shape(2, 2), "three": _shape(1, 3)}
LONG = {"items": 600, "windows": 15, "disk_s": 0.001}
ALONE = {"kills": 10, "faulty": ("b0",), "restart_s": 0.01}
"""Deaths of tasks that no edge joins: nobody else goes back."""
OFTEN_ALONE = ALONE | {"items": 1600, "windows": 40, "kill_until_s": 0.8}
SOON = {"kill_until_s": 0.1}
ALL_FAULTS = {name: fault | SOON for name, fault in (FAULTS | {"alone": ALONE}).items()}
CASES = [(shape, fault, str(seed)) for shape in SHAPES for fault in ALL_FAULTS for seed in range(FIRST, FIRST + SEEDS)]


def _case(shape: str, faults: Mapping[str, Any], scheme: str = "local") -> DataflowCase:
    return DataflowCase(EXACT[scheme], SHAPES[shape], **{**LONG, **faults}, log=[])


@pytest.mark.parametrize(("shape", "fault", "seed"), chosen(CASES))
def test_what_depends_on_the_order_is_put_out_again(shape: str, fault: str, seed: str) -> None:
    simulation = DataflowSimulation(_case(shape, ALL_FAULTS[fault]), int(seed))
    run_or_replay(simulation, __file__, f"again and {shape}-{fault}-{seed}")
    assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
    assert simulation.checkpointing is not None and simulation.killed
    if fault == "alone":
        assert simulation.round == 0, "a loss in one stage alone is nobody else's"
        assert simulation.checkpointing.alone == len(simulation.killed)


def _take_any_order(self: LocalBarrier) -> None:
    self._told_of.clear()
    self._is_ordered = True


def _draw_lines_meanwhile(self: LocalBarrier) -> bool:
    if self._again is not None and not self._again and not self.bench.inbox and not self.bench.feedback:
        self._again = None
    Barrier.on_turn(self)
    return True


def _keep_nothing(self: LocalBarrier) -> bool:
    for link in self.bench.outlet.links.values():
        link.held.clear()
    return TURN(self)


TURN = LocalBarrier.on_turn
MUTANTS = {
    "any order": ("_order", _take_any_order),
    "lines before the turns that others have seen are taken": ("on_turn", _draw_lines_meanwhile),
    "nothing is kept": ("on_turn", _keep_nothing),
    "nobody tells of turns": ("told", lambda self, link: ()),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_left_out_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is needed: without it some seed goes wrong."""
    name, instead = MUTANTS[mutant]
    monkeypatch.setattr(LocalBarrier, name, instead)
    assert any(_goes_wrong(seed, "one", OFTEN_ALONE) for seed in range(20)), mutant


def test_who_ignores_that_a_neighbour_was_lost_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "plan_for", lambda submitted: restart_lost)
    assert any(_goes_wrong(seed, "three", ALL_FAULTS["many"]) for seed in range(10))


def _goes_wrong(seed: int, shape: str, faults: Mapping[str, Any]) -> bool:
    simulation = DataflowSimulation(_case(shape, faults), seed)
    try:
        simulation.run()
    except Exception:
        return True
    return bool(errors(simulation).any())


class OneDies(DataflowSimulation):
    """A task is killed in mid-interval: when it has taken so many blocks since its last line. Counts the items that any
    task processes again."""

    victim, blocks = "b0.0", 40

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.taken: set[tuple[Any, ...]] = set()
        self.again = self.since_line = 0
        super().__init__(case, seed)

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        done, draw = task._done_with, task.scheme._draw
        is_victim = str(node.me) == self.victim

        def note_done(entry: Entry) -> None:
            name = (node.me, entry.link, number_of(entry.block), entry.block.kind)
            self.again += entry.block.items if name in self.taken else 0
            self.taken.add(name)
            done(entry)
            self.since_line += is_victim
            if is_victim and self.since_line == self.blocks and self.checkpointing.marks.completed and not self.killed:
                self.kill(node.me)

        def note_line(line: Line) -> None:
            self.since_line *= not is_victim
            draw(line)

        task._done_with, task.scheme._draw = note_done, note_line
        return task


def _items_again(scheme: str, seed: int) -> int:
    case = _case("one", {"items": 1200, "windows": 30}, scheme)
    simulation = OneDies(replace(case, fault_tolerance=case.fault_tolerance | {"debloat_ms": None}), seed)
    simulation.run()
    assert not errors(simulation).any() and simulation.killed
    return simulation.again


def test_one_task_takes_again_what_it_would_under_a_rollback_of_all() -> None:
    """At most 1.2/n of the items that n tasks take again when all go back. In both as much may wait, for what waits
    decides how much is taken between two lines."""
    alone, together = (sum(_items_again(scheme, seed) for seed in range(3)) for scheme in ("local", "barrier"))
    tasks = sum(stage["parallelism"] for stage in SHAPES["one"]["stages"].values())
    print(f"{alone} items by one task, {together} by all {tasks}")
    assert 0 < alone <= 1.2 / tasks * together, f"{alone} items by one task, {together} by all {tasks}"
