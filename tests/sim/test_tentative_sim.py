"""Tentative output of `partially_active`: windows without those who are dead, while the task itself waits for them; in
the end all is as if nobody had died.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from test_dataflow_sim import EXACT
from test_partially_active_sim import DEEP, FAULTS_OF_COPIES, LONG, REPLICATED, PrimariesAlone, _states, _truth

from riprap.codec.blocks import Block
from riprap.codec.ids import Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.schemes.parts.absent import Absent
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Vector

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
OPTIONS = EXACT["partially_active"] | {"tentative_after_ms": 5.0}
SLOW = LONG | {"items": 320, "windows": 16, "restart_s": 0.3}
"""A restart takes as long as many windows."""


class HandOn(DataflowOperator):
    """Hands items on, and counts them."""

    def __init__(self) -> None:
        self.state: Vector = Vector(1)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.state.add(np.array([0]), np.array([float(items.count)]))
        out.send(items.arrays, items.count)
        return items.count


class Count(HandOn):
    """Counts items; a destination, which puts out what it has counted."""

    def outputs(self) -> np.ndarray:
        return self.state.values.reshape(1, 1).copy()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.state.add(np.array([0]), np.array([float(items.count)]))
        return items.count


def _counting() -> dict[str, Any]:
    """Two sources, two times two tasks in rows, and a destination: each item goes one way."""
    stages = {"a": ("Spread", 2, {"by_key": False}), "b": ("HandOn", 2, {}), "c": ("HandOn", 2, {})}
    stages |= {"d": ("Count", 1, {})}
    edges = [{"from": one, "to": to} for one, to in ("ab", "bc", "cd")]
    edges[0]["partitioning"] = edges[1]["partitioning"] = "one_to_one"
    shape = dataflow_jobs._topology(stages, edges)
    for name in "bcd":
        shape["stages"][name]["operator"] = f"test_tentative_sim:{stages[name][0]}"
    return shape


ROWS = _counting()
D, WHOLE = WorkerId("d", 0), 40
"""The destination, and the items of a window at it."""


def _simulated(shape: Mapping[str, Any], seed: int, replay: str, **fields: Any) -> DataflowSimulation:
    options = fields.pop("options", OPTIONS)
    kind = PrimariesAlone if replay == "primaries" else DataflowSimulation
    simulation = kind(DataflowCase(options, shape, **{**SLOW, **fields}, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    return simulation


def _killed(seed: int, *victims: str, shape: Mapping[str, Any] = ROWS, **fields: Any) -> DataflowSimulation:
    """One run in which these die at once, after some windows."""
    at_s = fields.pop("at_s", 0.06)
    case = DataflowCase(fields.pop("options", OPTIONS), shape, **{**SLOW, **fields}, log=[])
    simulation = DataflowSimulation(case, seed)
    for victim in victims:
        simulation.at(at_s, lambda victim=victim: simulation.kill(WorkerId.parse(victim)))
    run_or_replay(simulation, __file__, "killed")
    return simulation


def _shown(simulation: DataflowSimulation) -> list[tuple[int, int, list[str]]]:
    shown: list[tuple[int, int, list[str]]] = simulation.nodes[D].task.journal.shown
    return shown


@pytest.mark.parametrize(
    ("victims", "absent"),
    [(("b.0",), ["b.0"]), (("c.0",), ["c.0"]), (("a.0",), ["c.0"]), (("b.0", "c.0"), ["c.0"])],
    ids=["between", "last", "source", "two in a row"],
)
def test_windows_go_on_without_who_is_dead(victims: tuple[str, ...], absent: list[str]) -> None:
    """Half of the items go another way: they are there, the others are not, and the absent one next before is named."""
    simulation = _killed(FIRST, *victims)
    shown = _shown(simulation)
    assert len(shown) >= 3
    windows = [window for window, _, _ in shown]
    assert windows == sorted(set(windows))
    whole = dict(simulation.announced[D])
    half = [items for window, items, _ in shown[1:-1]]
    assert all(items < whole[window] for (window, items, _) in shown), shown
    assert set(half) == {whole[2] // 2}
    assert {name for _, _, names in shown for name in names} <= {*absent, *victims, "b.0", "c.0"}
    assert simulation.nodes[D].counts["tentative_windows"] == len(shown)


def test_the_end_is_exact_and_each_window_shown_is_closed_later() -> None:
    simulation = _killed(FIRST, "b.0")
    assert [window for window, _ in simulation.announced[D]] == list(range(1, 17))
    assert sum(items for _, items in simulation.announced[D]) == 16 * WHOLE
    assert _states(simulation)[D] == [16.0 * WHOLE]
    assert all(node.task.scheme._tentative._lane is None for node in simulation.nodes.values())
    assert {node.counts["tentative_now"] for node in simulation.nodes.values() if "tentative_now" in node.counts} == {0}


def test_without_the_option_nothing_is_shown() -> None:
    simulation = _killed(FIRST, "b.0", options=EXACT["partially_active"])
    assert not _shown(simulation)


def test_a_replica_leaves_nothing_to_be_shown() -> None:
    assert not _shown(_killed(FIRST, "b.0", options=OPTIONS | {"replicate": ["b"], "tentative_after_ms": 50.0}))


def test_of_two_copies_one_shows_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin a lane when their sender dies; the one that is not asked for its output keeps silent."""
    said: Counter[tuple[str, str]] = Counter()
    transmit = DataflowNode.transmit

    def noting(self: DataflowNode, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        said[str(self.me), block.kind.name] += 1
        transmit(self, edge, to, seq, block)

    monkeypatch.setattr(DataflowNode, "transmit", noting)
    simulation = _killed(FIRST, "b.0", options=OPTIONS | {"replicate": ["c"]})
    lanes = {str(worker) for worker, node in simulation.nodes.items() if node.counts.get("tentative_lanes")}
    assert {"c.0", "c.0~1"} <= lanes
    assert said["c.0", "TENTATIVE"] and not said["c.0~1", "TENTATIVE"]


def test_nobody_is_held_up_by_a_receiver_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where senders wait for the dead task, those who live beside it get no more items either."""
    crossed = dataflow_jobs._topology(
        {"a": ("Spread", 1, {"by_key": False}), "b": ("HandOn", 2, {}), "d": ("Count", 1, {})},
        [{"from": "a", "to": "b", "partitioning": "split"}, {"from": "b", "to": "d", "partitioning": "merge"}],
    )
    for name, operator in (("b", "HandOn"), ("d", "Count")):
        crossed["stages"][name]["operator"] = f"test_tentative_sim:{operator}"
    long = {"shape": crossed, "items": 1600, "windows": 80, "window": 4, "at_s": 0.06}
    with_room = len(_shown(_killed(FIRST, "b.0", **long)))
    monkeypatch.setattr(Absent, "let_pass", lambda self: None)
    without = len(_shown(_killed(FIRST, "b.0", **long)))
    assert with_room > 3 * without, f"{with_room} beside {without} windows"


def _counted(simulation: DataflowSimulation) -> list[tuple[int, int, int]]:
    """Of each window shown: its number, the items it is said to have, and those by which the count grew. A lane that
    begins has all of the windows before it."""
    found, before, count = [], 0, 0
    for (window, items, _), rows in zip(_shown(simulation), simulation.nodes[D].task.journal.shown_rows, strict=True):
        now = int(rows[0, 0])
        went_on = window == before + 1 and now - count <= WHOLE
        found.append((window, items, now - (count if went_on else WHOLE * (window - 1))))
        before, count = window, now
    return found


def test_an_item_counts_once_in_a_lane() -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        first, *others = _counted(_killed(seed, "b.0"))
        assert all(grown == items for _, items, grown in others), f"seed {seed}"
        assert first[1] <= first[2] <= WHOLE, f"seed {seed}"


@pytest.mark.parametrize("faulty", ["a", "b", "c", "bc", "abc"])
def test_no_item_counts_twice_whoever_dies_how_often(faulty: str) -> None:
    """What a dead task had sent of the open window counts, though it is not said how much that is."""
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _simulated(ROWS, seed, "how_often", kills=3, faulty=tuple(faulty), kill_until_s=0.3)
        assert _states(simulation)[D] == [16.0 * WHOLE]
        assert all(items <= grown <= WHOLE for _, items, grown in _counted(simulation)), f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS_OF_COPIES)
def test_what_depends_on_the_order_is_exact_whoever_dies(fault: str) -> None:
    options = REPLICATED | {"tentative_after_ms": 5.0} if fault in ("primaries", "both") else OPTIONS
    for seed in range(FIRST, FIRST + SEEDS):
        fields = {**LONG, "restart_s": 0.1, **FAULTS_OF_COPIES[fault]}
        simulation = _simulated(DEEP, seed, fault, options=options, **fields)
        assert _states(simulation)[D] == _truth(), f"seed {seed}"
