"""`riprap adapt`: rates of now from two answers of the controller, and the replicas that fit them better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.engine.plan.adaptation import adaptation
from riprap.engine.plan.live_rates import rates_between

ROOT = Path(__file__).parents[3]
SCHEME = "fault_tolerance={scheme: partially_active, adapt: true, replicate: [read.0, sketch.0]}"


@pytest.fixture(scope="module")
def topology() -> Topology:
    """read (2) -> sketch (2) -> merge (1)."""
    return load(ROOT / "configs/heavy_hitters_staged.yaml", [SCHEME], with_input=False)


def told(*links: list[int], incarnation: int = 1) -> dict[str, Any]:
    return {"incarnation": incarnation, "state": "up", "stats": {"carried": list(links)}}


BEFORE = {
    "sketch.0": told([0, 0, 100], [0, 1, 5]),
    "sketch.1": told([0, 0, 7], [0, 1, 7]),
    "merge.0": told([1, 0, 10], [1, 1, 10]),
}
AFTER = {
    "sketch.0": told([0, 0, 110], [0, 1, 5]),
    "sketch.1": told([0, 0, 7], [0, 1, 97]),
    "merge.0": told([1, 0, 12], [1, 1, 16]),
}
"""Of late most comes from read.1, through sketch.1."""


def test_what_links_have_carried_meanwhile(topology: Topology) -> None:
    rates = rates_between(BEFORE, AFTER, topology)
    assert rates.links == {"read->sketch": [[10, 0], [0, 90]], "sketch->merge": [[2], [6]]}


def test_the_replica_tells_for_a_primary_that_has_died_meanwhile(topology: Topology) -> None:
    again = AFTER | {"sketch.1": told([0, 0, 0], [0, 1, 0], incarnation=2), "sketch.1~1": AFTER["sketch.1"]}
    rates = rates_between(BEFORE | {"sketch.1~1": BEFORE["sketch.1"]}, again, topology)
    assert rates.links["read->sketch"] == [[10, 0], [0, 90]]


def test_an_edge_is_left_out_where_somebody_has_not_told_twice(topology: Topology) -> None:
    again = AFTER | {"sketch.1": told([0, 0, 0], [0, 1, 0], incarnation=2)}
    assert rates_between(BEFORE, again, topology).links == {"sketch->merge": [[2], [6]]}
    assert rates_between(BEFORE, BEFORE, topology).links == {}
    assert rates_between({}, AFTER, topology).links == {}


def test_replicas_move_to_where_the_items_are(topology: Topology) -> None:
    found = adaptation(topology, rates_between(BEFORE, AFTER, topology), ["read.0", "sketch.0"], 2)
    assert (found.begins, found.ends) == (["read.1", "sketch.1"], ["read.0", "sketch.0"])
    assert (found.fidelity, found.report.plan.fidelity) == pytest.approx((0.25, 0.75))
    assert found.words == (
        "the replicas that run (read.0, sketch.0) keep 25 % of the output if every other task dies, and the best 2"
        " 75 %: begin read.1, sketch.1, end read.0, sketch.0"
    )


def test_what_is_best_already_stays(topology: Topology) -> None:
    found = adaptation(topology, rates_between(BEFORE, AFTER, topology), ["read.1", "sketch.1"], 2)
    assert (found.gain, found.begins, found.ends) == (0, [], [])
