"""Which thresholds act: by the place of states in the topology, and by what stages put out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from riprap.configs.topology import Topology
from riprap.engine.run.inert import acting, notes, reaches

FORWARD = "forward:Forward"
SKETCH, MERGE = "heavy_hitters:LocalSketch", "heavy_hitters:GlobalSketch"
SPLIT, COUNT = "word_count:SplitWords", "word_count:CountWords"
TRAIN, AVERAGE = "online_logistic:LocalModel", "online_logistic:GlobalModel"


def chain(*operators: str, **fault_tolerance: Any) -> Topology:
    """Stages a, b, c, ... one behind the other."""
    names = "abc"[: len(operators)]
    plain = {"scheme": "approximate", "theta": 10.0, "l": 10.0, "gamma": 10.0, "window": "none", "window_epochs": 1}
    return Topology.from_dict(
        {
            "job": "job",
            "input": {"path": "none", "repeat": 1, "limit": None},
            "micro_batch": 10,
            "seed": 1,
            "stages": {n: {"operator": o, "parallelism": 1, "options": {}} for n, o in zip(names, operators)},
            "edges": [{"from": a, "to": b, "partitioning": "merge", "feedback": False} for a, b in pairwise(names)],
            "fault_tolerance": plain | fault_tolerance,
            "links": {"block_bytes": 100, "window_epochs": 2},
            "backup": {"servers": 1, "storage": None, "durability": "fsync", "interval_ms": 1},
            "cluster": dict.fromkeys(
                ("heartbeat_timeout_s", "startup_timeout_s", "recovery_timeout_s", "stall_timeout_s"), 1.0
            ),
        }
    )


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ((SPLIT, COUNT), {"theta": ("b",), "l": ("b",), "gamma": ()}),
        ((SKETCH, MERGE), {"theta": (), "l": (), "gamma": ()}),
        ((FORWARD, SKETCH, MERGE), {"theta": ("b",), "l": ("b",), "gamma": ()}),
        ((TRAIN, AVERAGE), {"theta": ("b",), "l": ("b",), "gamma": ()}),
        ((FORWARD, TRAIN, AVERAGE), {"theta": ("b", "c"), "l": ("b", "c"), "gamma": ("b",)}),
        ((FORWARD, FORWARD, COUNT), {"theta": ("c",), "l": ("b", "c"), "gamma": ("b",)}),
    ],
    ids=["words", "fused-sketch", "sketch-behind", "fused-model", "model-behind", "stateless-between"],
)
def test_where_each_threshold_acts(operators: tuple[str, ...], expected: dict[str, tuple[str, ...]]) -> None:
    topology = chain(*operators)
    assert {name: reach.acts for name, reach in reaches(topology).items()} == expected
    assert acting(topology) == tuple(name for name, stages in expected.items() if stages)


def test_a_threshold_that_does_not_act_is_said_to_with_the_reason() -> None:
    found = list(notes(chain(SKETCH, MERGE)))
    assert [note.split()[0] for note in found] == ["theta", "l", "gamma"] and all("acts nowhere" in n for n in found)
    assert "a: it reads the input" in found[0] and "b: it gets only results of whole windows" in found[0]
    (note,) = list(notes(chain(FORWARD, TRAIN, AVERAGE)))
    assert note.startswith("gamma acts on b alone")


def test_an_infinite_threshold_is_not_expected_to_act_and_other_schemes_have_none() -> None:
    infinite = dict.fromkeys(("theta", "l", "gamma"), float("inf"))
    assert list(notes(chain(SKETCH, MERGE, **infinite))) == []
    assert list(notes(chain(SKETCH, MERGE, scheme="mini_batch"))) == []
