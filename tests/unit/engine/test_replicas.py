"""Active replicas at both ends of a link: who gets what is put out, who is asked for it, when it may be forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from dataflow_parts import DataflowPort, chain, layout_of, no_files
from test_dataflow_outlet import Gatekeeper, put, rows

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.answers import Answers
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.progress import At, Heard, TaskProgress

TOPOLOGY = chain(("a", 1), ("b", 1), ("c", 2), scheme="partially_active", replicate=["b", "c.1"])
B0, B1, C1, C1_COPY = WorkerId("b", 0), WorkerId("b", 0, 1), WorkerId("c", 1), WorkerId("c", 1, 1)


def outlet() -> Outlet:
    """The outlet of b.0, whose links retain what they send; all receivers are there, and ask for its output."""
    layout = layout_of(TOPOLOGY, "b.0")
    made = Outlet(layout, DataflowPort(layout, 64), TaskProgress(), no_files())
    made.scheme = Gatekeeper()
    for link in made.all_links:
        link.retains = True
        made.place(link, Heard())
    return made


def numbers(made: Outlet, to: WorkerId) -> list[int]:
    sent: list[tuple[Any, WorkerId, Block]] = made.port.sent  # type: ignore[attr-defined]
    return [block.key.row for _, receiver, block in sent if receiver == to]


def test_a_job_has_its_replicas_behind_its_tasks() -> None:
    assert [str(worker) for worker in TOPOLOGY.workers()] == ["a.0", "b.0", "c.0", "c.1", "b.0~1", "c.1~1"]
    assert TOPOLOGY.to_dict()["copies"] == ["b.0~1", "c.1~1"]
    assert TOPOLOGY.to_dict()["sinks"] == ["c.0", "c.1"]


def test_copies_of_a_receiver_get_the_same_blocks_under_the_same_numbers() -> None:
    made = outlet()
    for number in (1, 2, 3):
        put(made, number, 0, 1)
    made.flush()
    assert numbers(made, C1) == numbers(made, C1_COPY) == [1, 2, 3]
    assert rows(made, 0) == [1, 2, 3]


def test_a_link_that_is_not_asked_keeps_what_is_put_out_until_it_is() -> None:
    made = outlet()
    link = made.links[1, 1]
    made.place(link, Heard(), is_silent=True)
    for number in (1, 2, 3, 4):
        put(made, number, 1)
    made.flush()
    assert numbers(made, C1) == [] and numbers(made, C1_COPY) == [1, 2, 3, 4]
    assert not made.blocked
    link.forget(1, 0)
    made.place(link, Heard(At(2, 2), {(0, 0): (2, 0)}))
    made.flush()
    assert numbers(made, C1) == [3, 4]
    assert [block.key.row for block in link.held] == [2, 3, 4], "the receiver may die, and need it once more"


def test_a_copy_stands_by_when_no_receiver_asks_it_and_takes_over_once_one_does() -> None:
    made = outlet()
    port: Any = made.port
    first, *others = made.all_links
    made.place(first, Heard(), is_silent=True)
    assert port.counts["standby"] == 0, "the others ask it"
    for link in others:
        made.place(link, Heard(), is_silent=True)
    assert port.counts["standby"] == 1 and port.reports == []
    made.place(first, Heard())
    made.place(others[0], Heard())
    assert port.counts["standby"] == 0 and port.reports == [("took_over", {})]


def test_a_copy_that_one_of_its_receivers_asks_at_the_start_has_taken_nothing_over() -> None:
    layout = layout_of(TOPOLOGY, "b.0")
    made = Outlet(layout, DataflowPort(layout, 64), TaskProgress(), no_files())
    port: Any = made.port
    first, *others = made.all_links
    made.place(first, Heard(), is_silent=True)
    assert port.counts["standby"] == 1
    for link in others:
        made.place(link, Heard())
    assert port.counts["standby"] == 0 and port.reports == []


def test_a_copy_that_a_receiver_asks_when_it_begins_anew_has_taken_nothing_over() -> None:
    made = outlet()
    port: Any = made.port
    for link in made.all_links:
        made.place(link, Heard(), is_silent=True)
    assert port.counts["standby"] == 1
    made.lost(C1_COPY)
    (anew,) = made.of_worker(C1_COPY)
    made.place(anew, Heard())
    assert port.counts["standby"] == 0 and port.reports == []


def test_one_copy_that_is_down_holds_nobody_up_and_two_do() -> None:
    made = outlet()
    made.lost(C1_COPY)
    put(made, 1, 1)
    made.flush()
    assert not made.blocked
    made.lost(C1)
    put(made, 2, 1)
    made.flush()
    assert made.blocked


def test_what_a_checkpoint_saves_is_what_the_copy_that_is_behind_may_need() -> None:
    made = outlet()
    for number in (1, 2, 3):
        put(made, number, 1)
    made.flush()
    made.links[1, 1].forget(2, 0)
    assert [block.key.row for key, block in made.pending() if key == (1, 1)] == [1, 2, 3]
    made.links[1, 1].twins[0].forget(3, 0)
    assert [block.key.row for key, block in made.pending() if key == (1, 1)] == [3]


class Up(DataflowPort):
    """A port on which workers come and go."""

    def __init__(self, layout: Any) -> None:
        super().__init__(layout)
        self.there: set[WorkerId] = set()

    def is_up(self, worker: WorkerId) -> bool:
        return worker in self.there

    def incarnation(self, worker: WorkerId) -> Incarnation:
        return Incarnation(1)


class Asked:
    """c.1 and its answers to copies of b.0."""

    def __init__(self) -> None:
        layout = layout_of(TOPOLOGY, "c.1")
        self.port, self._scheme = Up(layout), Gatekeeper()
        self._scheme.told = lambda link: ()  # type: ignore[attr-defined]
        self._scheme.settled = lambda link: True  # type: ignore[attr-defined]
        progress = TaskProgress(heard={(1, 0): Heard(At(7, 7))})
        self.answers = Answers(layout, self.port, progress)
        self.begun = True

    def up(self, worker: WorkerId) -> None:
        self.port.there.add(worker)
        self.answers.owe(worker)
        self.answers.give(self._scheme, self.begun)  # type: ignore[arg-type]

    def down(self, worker: WorkerId) -> None:
        self.port.there.discard(worker)
        self.answers.forgive(worker)
        self.answers.give(self._scheme, self.begun)  # type: ignore[arg-type]

    @property
    def said(self) -> list[tuple[str, bool]]:
        """To whom, and whether it is to send."""
        return [(str(to), "silent" not in block.meta) for _, to, block in self.port.sent]


def test_primaries_are_asked_when_a_job_begins_whoever_is_up_first() -> None:
    receiver = Asked()
    receiver.begun = False
    receiver.up(B1)
    assert receiver.said == []
    receiver.up(B0)
    receiver.begun = True
    receiver.answers.give(receiver._scheme, receiver.begun)  # type: ignore[arg-type]
    assert receiver.said == [("b.0", True), ("b.0~1", False)]


def test_the_first_copy_is_asked_and_the_next_when_it_dies() -> None:
    asked = Asked()
    asked.up(B0)
    asked.up(B1)
    assert asked.said == [("b.0", True), ("b.0~1", False)]
    asked.down(B0)
    asked.up(B0)
    assert asked.said[2:] == [("b.0~1", True), ("b.0", False)], "it goes on with the one that took over"
    asked.down(B0)
    assert len(asked.said) == 4, "the death of a silent copy is nothing"


def test_where_no_copy_is_left_the_next_that_comes_is_asked() -> None:
    asked = Asked()
    asked.up(B0)
    asked.down(B0)
    asked.up(B1)
    assert asked.said == [("b.0", True), ("b.0~1", True)]
    assert all(block.epoch == Epoch(0) for _, _, block in asked.port.sent)


@pytest.mark.parametrize("me", ["b.0", "b.0~1"])
def test_copies_of_a_task_have_the_same_neighbours(me: str) -> None:
    layout = layout_of(TOPOLOGY, me)
    assert [str(worker) for worker in layout.receivers()] == ["c.0", "c.1", "c.1~1", "a.0"]
    assert not layout.is_sink and not layout.is_source
