"""Only the lost task goes back (`recovery: local`): operators whose output depends on the order of their input put out
again what their receivers have, nobody else is disturbed, and where that cannot be, all go back.
"""

from __future__ import annotations

import os
from typing import Any

import checkpointing
import numpy as np
import pytest
from dataflow_jobs import _topology
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from test_checkpoints_sim import FAULTS, LONG
from test_dataflow_sim import EXACT, errors

from riprap.codec.ids import WorkerId
from riprap.controller.steps import Rollback, restart_lost
from riprap.controller.view import View
from riprap.engine.flow.task import Task
from riprap.engine.schemes.barrier import Barrier
from riprap.engine.schemes.local_barrier import LocalBarrier
from riprap.engine.schemes.plans import plan_for
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Vector

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "3"))
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
    edges = [{"from": one, "to": to, "partitioning": "stripe"} for one, to in zip(names, names[1:])]
    shape = _topology(all_stages, edges)
    for stage in middle:
        shape["stages"][stage]["operator"] = "test_local_recovery_sim:Marking"
    return shape


SHAPES = {"one": _shape(2, 1), "two": _shape(2, 2), "three": _shape(1, 3)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_depends_on_the_order_is_put_out_again(shape: str, fault: str) -> None:
    alone = 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = DataflowSimulation(
            DataflowCase(EXACT["local"], SHAPES[shape], **LONG | FAULTS[fault], log=[]), seed
        )
        run_or_replay(simulation, __file__, f"again and {shape}-{fault}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        assert simulation.checkpointing is not None
        alone += simulation.checkpointing.alone
    assert alone or fault == "everybody"


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
    assert any(_goes_wrong(seed, "one", FAULTS["few"] | {"rollbacks": 6}) for seed in range(20)), mutant


def test_who_ignores_that_a_neighbour_was_lost_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "plan_for", lambda submitted: restart_lost)
    assert any(_goes_wrong(seed, "three", FAULTS["many"]) for seed in range(10))


def _goes_wrong(seed: int, shape: str, faults: dict[str, Any]) -> bool:
    simulation = DataflowSimulation(DataflowCase(EXACT["local"], SHAPES[shape], **LONG | faults, log=[]), seed)
    try:
        simulation.run()
    except Exception:
        return True
    return bool(errors(simulation).any())
