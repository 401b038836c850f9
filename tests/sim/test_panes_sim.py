"""Panes of event time under random kills: each row is the same, early, late and retracted ones too.

A row counts in the totals as often as its bounds and its kind say, so totals differ where a row does.
"""

from __future__ import annotations

import itertools
import os
from functools import cache
from typing import Any

import numpy as np
import pytest
from dataflow_jobs import COPIED, STRIPED, _coded, panes
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation
from pairs import chosen
from test_dataflow_sim import EXACT, FAULTS, run

from riprap.engine.flow.task import Task

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))

HARD = ("many", "rollbacks")
FIXED = {"panes": "fixed", "size": 7, "mode": "retracting", "early_items": 2, "lateness": 4}
SHAPES = {
    "fixed": panes(**FIXED, marks=True),
    "sliding": panes(panes="sliding", size=12, slide=4, mode="discarding", lateness=1, late_items=2, marks=True),
    "sessions": panes(panes="sessions", gap=2, mode="retracting", lateness=5, marks=True),
}


def coded(scheme: dict[str, Any]) -> dict[str, Any]:
    """A coded stage passes watermarks on."""
    last = {"b": ("PanesOf", 2, {"aggregate": "sum", "marks": True} | FIXED), "c": ("Sums", 1, {})}
    behind = {"m": ("Timely", 2, {}), **last}
    return _coded({"a": ("Timed", 2, {"by_key": False})}, behind, scheme)


CODED = {"coded": coded(STRIPED), "copied": coded(COPIED)}


def totals(shape: dict[str, Any], scheme: dict[str, Any], seed: int, **faults: Any) -> tuple[np.ndarray, Any]:
    simulation = run(DataflowCase(scheme, shape, **faults), seed, "panes")
    return simulation.totals(), late_of(simulation)


@cache
def undisturbed(shape: str) -> tuple[np.ndarray, Any]:
    """The totals when nothing happens."""
    return totals((SHAPES | CODED)[shape], {"scheme": "none"}, 0)


def late_of(simulation: DataflowSimulation) -> tuple[int, int]:
    """Rows put out, and items too late, in all tasks."""
    states = [node.task.operator.state for worker, node in simulation.nodes.items() if worker.stage == "b"]
    return sum(state.fired for state in states), sum(state.late for state in states)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_scheme_makes_the_same_rows(shape: str) -> None:
    found = [totals(SHAPES[shape], scheme, FIRST + i) for i, scheme in enumerate([{"scheme": "none"}, *EXACT.values()])]
    sums, (fired, late) = found[0]
    assert fired > 20 and late > 0 and sums.any(), "it is about something"
    for others, counts in found[1:]:
        assert (others == sums).all() and counts == (fired, late)


class Reporting(DataflowSimulation):
    """Keeps what workers report."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.said: list[dict[str, Any]] = []
        super().__init__(case, seed)

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        node.report = lambda event, **fields: self.said.append({"event": event, "by": str(node.me)} | fields)
        return task


def test_who_never_promises_anything_is_named() -> None:
    """Each task that waits for it says so, once."""
    shape = panes(**FIXED)
    stages = shape["stages"] | {"s": shape["stages"]["a"] | {"operator": "dataflow_jobs:Silent", "parallelism": 1}}
    silent = shape | {"stages": stages, "edges": [*shape["edges"], shape["edges"][0] | {"from": "s"}]}
    simulation = Reporting(DataflowCase({"scheme": "none"}, silent, items=480, windows=120), FIRST)
    simulation.run()
    stood = [one for one in simulation.said if one["event"] == "event_time_stands"]
    assert {one["by"] for one in stood} == {"b.0", "b.1", "b.2"} and len(stood) == 3
    assert {(one["waits_for"], one["at"]) for one in stood} == {("s.0", None)}


@pytest.mark.parametrize(("scheme", "shape", "fault"), chosen(list(itertools.product(EXACT, SHAPES, HARD))))
def test_rows_are_the_same_whoever_dies(scheme: str, shape: str, fault: str) -> None:
    expected = undisturbed(shape)
    for seed in range(FIRST, FIRST + SEEDS):
        found = totals(SHAPES[shape], EXACT[scheme], seed, **FAULTS[fault])
        assert (found[0] == expected[0]).all() and found[1] == expected[1], f"seed {seed}"


@pytest.mark.parametrize("fault", HARD[:1])
@pytest.mark.parametrize("code", CODED)
@pytest.mark.parametrize("scheme", ["mini_batch", "upstream_backup"])
def test_watermarks_pass_a_coded_stage(scheme: str, code: str, fault: str) -> None:
    expected = undisturbed(code)
    assert expected[1][1] > 0
    for seed in range(FIRST, FIRST + SEEDS):
        found = totals(CODED[code], EXACT[scheme], seed, **FAULTS[fault])
        assert (found[0] == expected[0]).all() and found[1] == expected[1], f"seed {seed}"
