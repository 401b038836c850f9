"""Who is joined to whom in a graph of stages, and how far it is to the destinations."""

from __future__ import annotations

from itertools import product

import pytest
from dataflow_parts import chain, layout_of, topology

from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology


def joined(partitioning: str, up: int, down: int) -> Topology:
    return topology({"a": up, "b": down}, [{"from": "a", "to": "b", "partitioning": partitioning}])


@pytest.mark.parametrize(
    ("partitioning", "up", "down", "expected"),
    [
        ("one_to_one", 3, 3, {0: [0], 1: [1], 2: [2]}),
        ("split", 2, 4, {0: [0, 2], 1: [1, 3]}),
        ("split", 2, 3, {0: [0, 2], 1: [1]}),
        ("merge", 4, 2, {0: [0], 1: [1], 2: [0], 3: [1]}),
        ("merge", 3, 1, {0: [0], 1: [0], 2: [0]}),
        ("full", 2, 3, {0: [0, 1, 2], 1: [0, 1, 2]}),
    ],
)
def test_each_partitioning_joins_the_tasks_it_names(
    partitioning: str, up: int, down: int, expected: dict[int, list[int]]
) -> None:
    made = joined(partitioning, up, down)
    for index, targets in expected.items():
        (joint,) = layout_of(made, f"a.{index}").outputs
        assert [worker.index for worker in joint.workers] == targets


@pytest.mark.parametrize("partitioning", ["one_to_one", "split", "merge", "full"])
def test_both_ends_agree_about_every_link(partitioning: str) -> None:
    """Whatever the numbers, who is told to send is expected, and nobody else is."""
    for up, down in product(range(1, 6), range(1, 6)):
        if (partitioning == "one_to_one" and up != down) or (partitioning == "split" and up > down):
            continue
        if partitioning == "merge" and up < down:
            continue
        made = joined(partitioning, up, down)
        sent = {(i, to.index) for i in range(up) for to in layout_of(made, f"a.{i}").outputs[0].workers}
        heard = {(by.index, j) for j in range(down) for by in layout_of(made, f"b.{j}").inputs[0].workers}
        assert sent == heard
        assert {i for i, _ in sent} == set(range(up)) and {j for _, j in sent} == set(range(down))


def test_depth_counts_the_operators_of_the_longest_way() -> None:
    edges = [
        {"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "a", "to": "c"}, {"from": "c", "to": "d"},
        {"from": "d", "to": "a", "feedback": True},
    ]  # fmt: skip
    made = topology({"a": 1, "b": 2, "c": 1, "d": 1}, edges)
    assert [layout_of(made, f"{name}.0").depth for name in "abcd"] == [3, 2, 1, 0]


def test_feedback_makes_nobody_a_source_or_sink_less() -> None:
    made = topology({"a": 2, "b": 1}, [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True}])
    source, sink = layout_of(made, "a.1"), layout_of(made, "b.0")
    assert source.is_source and not source.is_sink
    assert sink.is_sink and not sink.is_source
    assert source.sinks == (WorkerId("b", 0),)


def test_every_edge_has_a_reply_edge_against_it() -> None:
    made = topology({"a": 2, "b": 2}, [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True}])
    a, b = layout_of(made, "a.0"), layout_of(made, "b.0")
    numbers = [edge.index for edge in (*a.outgoing(), *b.outgoing())]
    assert len(numbers) == len(set(numbers)), "an edge leads one way"
    assert set(a.outgoing()) == set(b.incoming()) and set(b.outgoing()) == set(a.incoming())
    assert set(a.receivers()) == {WorkerId("b", 0), WorkerId("b", 1)}


def test_the_middle_of_a_chain_is_neither_source_nor_sink() -> None:
    middle = layout_of(chain(("a", 1), ("b", 2), ("c", 3)), "b.1")
    assert not middle.is_source and not middle.is_sink
    assert middle.parallelism == 2 and len(middle.outputs[0].workers) == 3


def test_ways_that_part_and_meet_again_and_again_are_not_gone_one_by_one() -> None:
    """There are 2^40 of them."""
    names = [f"{one}{n}" for n in range(40) for one in "abc"] + ["end"]
    edges = [
        edge
        for at in range(0, 120, 3)
        for a, b, c, after in [names[at : at + 4]]
        for edge in ((a, b), (a, c), (b, after), (c, after))
    ]
    job = topology(dict.fromkeys(names, 1), [{"from": one, "to": other} for one, other in edges])
    layout = layout_of(job, "a0.0")
    assert layout.depth == 80 and not layout.leads_to_feedback
