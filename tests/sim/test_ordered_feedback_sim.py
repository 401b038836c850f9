"""Scheme `partially_active` where stages feed back: what comes back has its place in the one order of all blocks."""

from __future__ import annotations

import os
from functools import cache
from itertools import product
from typing import Any

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation, run_or_replay
from pairs import chosen
from test_dataflow_sim import FAULTS
from test_destination_replicas_sim import Copied
from test_partially_active_sim import MODULUS, OPTIONS, Chained, _states

from riprap.codec.ids import WorkerId
from riprap.engine.flow.rotation import Rotation
from riprap.engine.schemes.partially_active import PartiallyActive
from riprap.operators.dataflow import Emitter, Items

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
D = WorkerId("d", 0)
LONG = {"items": 120, "windows": 6, "disk_s": 0.001}


class Steered(Chained):
    """Hands items on with a number that depends on all blocks so far and on all that was fed back, in their order.

    `feeds_back`: sends that number back after each block, and at each window's end. `remembers`: keeps it in a state;
    without one, only what the block itself says goes on.
    """

    def __init__(self, feeds_back: bool = False, remembers: bool = True) -> None:
        super().__init__()
        self.feeds_back, self.remembers = feeds_back, remembers
        if not remembers:
            self.state = None  # type: ignore[assignment]

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        now = self._link(int(rows.sum() % MODULUS) + items.task)
        if not self.is_last:
            out.send((np.vstack([rows, [[0, now]]]),), items.count + 1)
        self._feed_back(now, out)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self._link(2 * int(items.arrays[0][0]) + items.task)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self._feed_back(self._link(epoch), out)

    def _feed_back(self, number: float, out: Emitter) -> None:
        if self.feeds_back:
            out.feed_back((np.array([number]),))

    def _link(self, weight: int) -> float:
        return super()._link(weight) if self.remembers else float(weight % MODULUS)


def _shape(to: str, of: str = "d", remembers: bool = True, **consistency: Any) -> dict[str, Any]:
    """Stages a to d in a row, of which `of` feeds back to `to`. All but `a` have a state, or d alone."""
    stages: dict[str, tuple[str, int, dict[str, Any]]] = {"a": ("Spread", 2, {"by_key": False})}
    for name, tasks in (("b", 2), ("c", 2), ("d", 1)):
        stages[name] = ("Steered", tasks, {"feeds_back": name == of, "remembers": remembers or name == "d"})
    edges = [{"from": one, "to": other} for one, other in ("ab", "bc", "cd")]
    shape = dataflow_jobs._topology(stages, [*edges, {"from": of, "to": to, "feedback": True} | consistency])
    for name in "bcd":
        shape["stages"][name]["operator"] = "test_ordered_feedback_sim:Steered"
    return shape


SHAPES = {
    "bsp": _shape("b"),
    "ssp": _shape("b", consistency="ssp", staleness=2),
    "to the source": _shape("a"),
    "of tasks without a state": _shape("b", "c", remembers=False),
}
REPLICAS = {"alone": [], "copied": ["a.0", "b", "c.1"], "destination": ["b.1", "d"]}


@cache
def _truth(shape: str) -> list[float]:
    return _sink_of(shape, 0, "truth")


def _sink_of(shape: str, seed: int, replay: str) -> list[float]:
    return _states(_run(shape, seed, replay, []))[D]


def _run(shape: str, seed: int, replay: str, replicas: list[str], **fields: Any) -> DataflowSimulation:
    options = OPTIONS | {"replicate": replicas}
    of_destination = Copied if "d" in replicas else DataflowSimulation
    simulation = of_destination(DataflowCase(options, SHAPES[shape], **{**LONG, **fields}, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    return simulation


@pytest.mark.parametrize("shape", SHAPES)
def test_one_order_whatever_the_order_of_arrival(shape: str) -> None:
    for seed in range(1, 4):
        assert _sink_of(shape, seed, f"one_order and {shape}") == _truth(shape), f"seed {seed}"


CASES = [case for case in product(REPLICAS, SHAPES, FAULTS) if case[0] != "destination" or case[2] != "rollbacks"]


@pytest.mark.parametrize(("copies", "shape", "fault"), chosen(CASES))
def test_what_feedback_has_steered_is_exact_whoever_dies(copies: str, shape: str, fault: str) -> None:
    """Where there are replicas, they compare what they put out, and what they feed back, and find no difference."""
    compared, replicas = 0, REPLICAS[copies]
    for seed in range(FIRST, FIRST + SEEDS):
        replay = f"exact_whoever and {copies}-{shape}-{fault}"
        simulation = _run(shape, seed, replay, replicas, **FAULTS[fault])
        assert _states(simulation)[D] == _truth(shape), f"seed {seed}"
        compared += sum(node.counts.get("windows_compared", 0) for node in simulation.nodes.values())
    assert (compared > 0) == bool(replicas)


def test_feedback_taken_when_it_comes_gives_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: data in its order, and feedback as it comes."""
    monkeypatch.setattr(PartiallyActive, "may_come", _in_turn_but_for_feedback)
    monkeypatch.setattr(PartiallyActive, "_rotation", property(_rotation_of_data))
    monkeypatch.setattr(PartiallyActive, "on_receive", _note_data)
    assert len({tuple(_sink_of("ssp", seed, "control")) for seed in range(6)}) > 1


def _rotation_of_data(scheme: PartiallyActive) -> Rotation:
    leads = scheme.bench.layout.leads
    if "of_data" not in vars(scheme):
        vars(scheme)["of_data"] = Rotation({link: 0 for link in scheme._senders if link not in leads})
    rotation: Rotation = vars(scheme)["of_data"]
    return rotation


def _in_turn_but_for_feedback(scheme: PartiallyActive, link: Any) -> bool:
    return link in scheme.bench.layout.leads or link == scheme._rotation.turn


def _note_data(scheme: PartiallyActive, entry: Any) -> None:
    if not entry.is_input and entry.link not in scheme.bench.layout.leads:
        scheme._rotation.note(entry.block)


@pytest.mark.parametrize("shape", ["bsp", "of tasks without a state"])
def test_all_that_is_fed_back_is_kept_no_longer_than_it_is_needed(shape: str) -> None:
    """Also where no task of the circle has a state, so that each might wait for the next one's checkpoint."""
    fed, most = 0, 0
    simulation = _run(shape, FIRST, "kept_no_longer", [], items=400, windows=24)
    for node in simulation.nodes.values():
        for link in node.task.outlet.links.values():
            if link.joint.feedback:
                fed, most = fed + node.task.progress.sent[link.key].number, max(most, len(link.held))
    assert fed and most * 4 < fed, f"{most} of {fed}"
