"""What an outlet keeps, sends, sends again and leaves out, when either end of a link dies (AF 3.4.3)."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, layout_of, no_files, topology

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.outlet import PLACES, Outlet
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import WINDOW, At, Heard, TaskProgress
from riprap.engine.flow.window_files import WindowFiles
from riprap.operators.dataflow import DataflowOperator

IN, TO_0, TO_1 = (0, 0), (1, 0), (1, 1)
C0 = WorkerId("c", 0)


class Gatekeeper:
    """The scheme's part: lets blocks leave or not, and notes what it was told."""

    waiting_max = 0

    def __init__(self) -> None:
        self.open = True
        self.emitted: list[tuple[Any, int]] = []

    def on_emit(self, link: OutletLink, block: Block) -> None:
        assert link.waiting[-1] is block, "it stands last"
        self.emitted.append((link.key, block.key.row))

    def may_leave(self, link: OutletLink, block: Block) -> bool:
        return self.open


def outlet(of: Topology | None = None, me: str = "b.0", placed: bool = True, window: int = 64) -> Outlet:
    """The outlet of b.0 in a -> b -> c with two tasks each, its receivers fresh."""
    layout = layout_of(of or chain(("a", 1), ("b", 2), ("c", 2)), me)
    made = Outlet(layout, DataflowPort(layout, window), TaskProgress(), no_files())
    made.scheme = Gatekeeper()
    for link in made.links.values() if placed else ():
        made.place(link, Heard())
    return made


def put(made: Outlet, number: int, *tasks: int, items: int = 1, first: int = 0) -> None:
    """What comes of the input block `number`, from its item `first` on: a block to each of these tasks."""
    made.begin(Epoch(1), IN, number, first)
    for task in tasks:
        made.send((np.full(items, float(number)),), items, to=task)


def rows(made: Outlet, task: int) -> list[int]:
    """The numbers of the blocks that were sent to a task, in order."""
    return [block.key.row for to, block in made.port.sent_on(made.links[1, task].joint.edge) if to.index == task]


def heard(number: int, items: int, cause: tuple[int, int] | None = None, closed: int = 0) -> Heard:
    """What a receiver says: up to where it has come, and the last cause on the link IN."""
    return Heard(At(number, items), dict.fromkeys([IN], cause) if cause else {}, closed=closed)


class Unread(deque[Block]):
    """Blocks that nobody may look through."""

    def __iter__(self) -> Any:
        raise AssertionError("it was looked through")


def test_what_waits_for_room_is_looked_through_for_a_barrier_alone() -> None:
    made = outlet(window=4)
    link = made.links[TO_0]
    for number in range(10):
        put(made, number, 0)
    made.flush()
    waits, link.waiting = link.waiting, Unread(link.waiting)
    made.flush()
    assert waits and not link.is_over
    link.waiting = waits
    made.put_barrier(1, overtakes=False)
    made.flush()
    assert link.is_over, "for the barrier's sake more may be on the way"


def test_blocks_are_numbered_by_link_and_by_items_sent_before() -> None:
    made = outlet()
    put(made, 1, 0, 1, 0, items=3)
    put(made, 2, 0, items=2)
    made.flush()
    blocks = [block for _, to, block in made.port.sent if to == C0]
    assert [(b.key.row, b.key.s_index, b.items) for b in blocks] == [(1, 0, 3), (2, 3, 3), (3, 6, 2)]
    assert [tuple(b.meta["cause"]) for b in blocks] == [(0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 2, 0)], "siblings count"
    assert made.progress.sent == {TO_0: At(3, 8), TO_1: At(1, 3)}
    assert made.scheme.emitted == [(TO_0, 1), (TO_1, 1), (TO_0, 2), (TO_0, 3)]


def test_nothing_leaves_before_the_receiver_has_said_what_it_has() -> None:
    made = outlet(placed=False)
    put(made, 1, 0, 1)
    made.flush()
    assert not made.placed and not made.port.sent
    made.place(made.links[TO_0], Heard())
    made.flush()
    assert not made.placed and rows(made, 0) == [1] and rows(made, 1) == []
    made.place(made.links[TO_1], Heard())
    made.flush()
    assert made.placed and rows(made, 1) == [1]


def test_what_a_receiver_has_is_not_sent_again_and_the_rest_is_in_order() -> None:
    made = outlet(placed=False)
    for number in (1, 2, 3, 4):
        put(made, number, 0, items=2)
    made.place(made.links[TO_0], heard(2, 4))
    made.flush()
    assert rows(made, 0) == [3, 4]
    assert [block.key.row for key, block in made.pending() if key == TO_0] == [1, 2, 3, 4], "its receiver may still die"
    made.port.receive_ack(made.links[TO_0].joint.edge, C0)
    made.flush()
    assert [block.key.row for key, block in made.pending() if key == TO_0] == [4], "newer ones are safe, so these are"


def test_what_had_not_been_acknowledged_goes_to_the_next_life_of_the_receiver() -> None:
    made = outlet()
    for number in (1, 2, 3):
        put(made, number, 0)
    made.flush()
    made.port.receive_ack(made.links[TO_0].joint.edge, C0)
    made.lost(C0)
    made.port.renew(C0)
    put(made, 4, 0)
    made.flush()
    assert rows(made, 0) == [1, 2, 3], "not placed"
    made.place(made.links[TO_0], heard(1, 1))
    made.flush()
    assert rows(made, 0) == [1, 2, 3, 2, 3, 4]


def test_held_blocks_of_a_receiver_that_dies_twice_are_sent_when_its_next_life_lacks_them() -> None:
    made = outlet()
    put(made, 1, 0)
    put(made, 2, 0)
    made.flush()
    made.lost(C0)
    made.port.renew(C0)
    made.place(made.links[TO_0], heard(2, 2))
    made.flush()
    assert rows(made, 0) == [1, 2]
    made.lost(C0)
    made.port.renew(C0)
    made.place(made.links[TO_0], Heard(known=False))
    made.flush()
    assert rows(made, 0) == [1, 2, 1, 2]


def test_what_is_computed_again_and_has_come_is_muted_and_numbers_go_on_behind_it() -> None:
    """A new life of the sender that computes input 1 to 3 again; the receiver has what came of 1 and, in part, of 2."""
    made = outlet(placed=False)
    made.place(made.links[TO_0], heard(3, 30, (2, 0)))
    made.place(made.links[TO_1], Heard())
    put(made, 1, 0, 0)
    put(made, 2, 0, 0, items=5)
    put(made, 3, 0)
    made.flush()
    blocks = [block for _, to, block in made.port.sent if to == C0]
    assert [tuple(block.meta["cause"]) for block in blocks] == [(0, 0, 2, 1), (0, 0, 3, 0)]
    assert made.port.counts["muted_blocks"] == 3
    assert (blocks[0].key.row, blocks[0].key.s_index) == (4, 30), "behind what came from the life before"
    assert blocks[1].key.row == 5 and blocks[1].key.s_index == 35


def test_the_end_of_a_window_is_not_taken_for_a_sibling_that_a_poorer_state_did_not_make() -> None:
    made = outlet(placed=False)
    for link in made.links.values():
        made.place(link, heard(5, 9, (4, 0), closed=0))  # what came of block 4 was data, of a state that is lost
    made.begin(Epoch(1), IN, 4)
    made.punctuate(3, 0.0, last=True)
    made.flush()
    assert [block.kind for _, to, block in made.port.sent if to == C0] == [Kind.PUNCTUATION]
    assert rows(made, 0) == [6], "behind all that came"


def test_the_end_of_a_window_that_has_come_is_muted_whatever_it_came_of() -> None:
    made = outlet(placed=False)
    for link in made.links.values():
        made.place(link, heard(5, 9, (3, 0), closed=1))
    made.begin(Epoch(1), IN, 4)
    made.punctuate(3, 0.0, last=False)
    made.flush()
    assert not made.port.sent


def test_an_unknown_link_gives_no_place_to_go_on_from() -> None:
    made = outlet(placed=False)
    made.place(made.links[TO_0], Heard(At(7, 70), known=False))
    put(made, 1, 0)
    made.flush()
    assert rows(made, 0) == [1]


def test_muted_blocks_are_pending_until_the_receiver_has_made_something_newer_safe() -> None:
    made = outlet()
    made.place(made.links[TO_0], heard(1, 1, (1, 0)))
    put(made, 1, 0)
    put(made, 2, 0)
    made.flush()
    assert [block.meta["cause"][2] for key, block in made.pending() if key == TO_0] == [1, 2]
    made.port.receive_ack(made.links[TO_0].joint.edge, C0)
    made.flush()
    assert not list(made.pending())


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("has_it", [True, False])
def test_what_came_under_another_number_is_sent_to_the_next_life_of_its_receiver_if_that_lacks_it(
    down: bool, has_it: bool
) -> None:
    """A window's end now comes before the block of a cause that has come before it."""
    made = outlet()
    link = made.links[TO_0]
    made.place(link, heard(1, 1, (1, 0)))
    made.begin(Epoch(1), WINDOW, 1)
    made.punctuate(1, 0.5, False)
    made.flush()
    if not down:
        put(made, 1, 0)
    made.lost(C0)
    if down:
        put(made, 1, 0)
    made.port.renew(C0)
    made.port.sent.clear()
    made.place(link, heard(1, 1, (1, 0)) if has_it else Heard())
    made.flush()
    assert rows(made, 0) == ([2] if has_it else [2, 3])


def test_what_a_former_life_put_out_is_sent_unless_it_has_come() -> None:
    former = outlet()
    for number in (1, 2, 3):
        put(former, number, 0, 1)
    made = outlet(placed=False)
    made.put_back(former.pending())
    made.place(made.links[TO_0], heard(1, 1))
    made.place(made.links[TO_1], heard(3, 3))
    made.flush()
    assert rows(made, 0) == [2, 3] and rows(made, 1) == []


def test_what_was_put_out_since_the_last_state_is_put_out_once() -> None:
    former = outlet()
    for number in (1, 2, 3):
        put(former, number, 0, 0)
    log = former.pending()
    made = outlet(placed=False)
    made.progress.sent[TO_0] = At(2, 2)
    made.put_back_logged(log)
    assert [block.key.row for _, block in made.pending()] == [3, 4, 5, 6]
    made.place(made.links[TO_0], heard(2, 2))
    put(made, 2, 0, 0)
    put(made, 3, 0, 0)
    put(made, 4, 0)
    made.flush()
    assert rows(made, 0) == [3, 4, 5, 6, 7]


def test_what_was_put_out_before_a_state_that_lacks_its_cause_is_put_out_once() -> None:
    """A sender died before it could send the cause once more, and another state was saved meanwhile."""
    former = outlet()
    for number in (1, 2):
        put(former, number, 0, 0)
    log = list(former.pending())
    made = outlet(placed=False)
    made.progress.sent[TO_0] = At(4, 4)
    made.progress.done[IN] = Heard(At(1, 1))
    made.put_back(log)
    made.mute_put_out(log)
    assert made.links[TO_0].logged == {IN: (2, 1)}, "cause 1 is included"
    made.place(made.links[TO_0], Heard(known=False))
    put(made, 2, 0, 0)
    put(made, 3, 0)
    made.flush()
    assert rows(made, 0) == [1, 2, 3, 4, 5]


def rows_behind_a_part(former: Outlet, sent: At) -> list[int]:
    """What a new incarnation puts out whose state includes the first part of cause 1, behind what the former one put
    out and saved."""
    log = list(former.pending())
    made = outlet()
    made.progress.sent[TO_0] = sent
    made.progress.partial[IN, (1,)] = 1
    made.put_back(log)
    made.mute_put_out(log)
    put(made, 1, 0, first=1)
    put(made, 2, 0)
    made.flush()
    return rows(made, 0)


def test_the_rest_of_a_cause_of_which_the_state_includes_a_part_is_put_out() -> None:
    former = outlet()
    put(former, 1, 0)
    assert rows_behind_a_part(former, At(1, 1)) == [1, 2, 3]


def test_the_rest_of_a_cause_is_put_out_once() -> None:
    """It was saved behind the rest, in a record without the state, which is still that behind the first part."""
    former = outlet()
    put(former, 1, 0)
    put(former, 1, 0, first=1)
    assert rows_behind_a_part(former, At(2, 2)) == [1, 2, 3]


@pytest.mark.parametrize("life", ["same", "new"])
def test_the_rest_of_a_cause_is_put_out_though_the_receiver_has_what_its_first_part_made(life: str) -> None:
    made = outlet()
    put(made, 1, 0, 0)
    made.flush()
    if life == "new":  # it goes on from a state that includes the first part
        made = outlet()
        made.progress.sent[TO_0] = At(2, 2)
    made.port.sent.clear()
    made.place(made.links[TO_0], heard(2, 2, (1, 1)))
    put(made, 1, 0, 0, first=1)
    put(made, 2, 0)
    made.flush()
    assert rows(made, 0) == [3, 4, 5]


def test_the_parts_of_a_cause_that_have_come_are_not_sent_again_however_it_is_parted() -> None:
    made = outlet()
    made.place(made.links[TO_0], heard(2, 6, (1, 3 * PLACES)))  # items 0 to 2, and from 3 on
    for first in (0, 2, 3):
        put(made, 1, 0, first=first)
    put(made, 1, 0, first=5)
    made.flush()
    assert [block.meta["cause"][3] for _, _, block in made.port.sent] == [5 * PLACES]


def test_the_last_punctuation_is_repeated_to_a_receiver_that_lacks_it() -> None:
    made = outlet()
    made.begin(Epoch(1), WINDOW, 1)
    made.punctuate(7, 0.5, False)
    made.flush()
    for key in (TO_0, TO_1):
        made.port.receive_ack(made.links[key].joint.edge, made.links[key].to)
    made.lost(C0)
    made.port.renew(C0)
    made.place(made.links[TO_0], Heard(known=False))
    made.flush()
    assert rows(made, 0) == [1, 1] and rows(made, 1) == [1]
    assert sum(block.meta["items"] for _, _, block in made.port.sent[:2]) == 7, "the window's items are shared out"
    made.place(made.links[TO_0], heard(1, 0, closed=1))
    made.flush()
    assert rows(made, 0) == [1, 1] and made.links[TO_0].closed == 1


def test_a_link_without_room_and_a_scheme_that_forbids_hold_blocks_back_in_order() -> None:
    made = outlet(window=1)
    put(made, 1, 0)
    assert made.blocked
    made.flush()
    assert not made.blocked
    put(made, 2, 0)
    made.flush()
    assert made.blocked and rows(made, 0) == [1]
    made.port.rooms[C0] = 5
    made.scheme.open = False
    made.flush()
    assert made.blocked and rows(made, 0) == [1]
    made.scheme.waiting_max = 1
    assert not made.blocked, "so many may wait"
    made.scheme.open = True
    made.flush()
    assert rows(made, 0) == [1, 2]


def test_nothing_is_put_out_ahead_of_a_receiver_that_is_down() -> None:
    made = outlet()
    made.scheme.waiting_max = 9
    made.scheme.open = False
    put(made, 1, 0)
    made.flush()
    assert not made.blocked, "so many may wait"
    made.lost(C0)
    assert made.blocked
    made.place(made.links[TO_0], Heard())
    assert not made.blocked


def test_feedback_never_blocks() -> None:
    loop = topology({"a": 1, "b": 1}, [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True}])
    made = outlet(loop, "b.0")
    made.port.rooms[WorkerId("a", 0)] = 0
    made.begin(Epoch(1), WINDOW, 1)
    made.feed_back((np.ones(3),))
    made.flush()
    assert made.pending() and not made.blocked and made.unacknowledged_items() == 0


def test_items_on_the_way_are_counted_until_they_are_acknowledged() -> None:
    made = outlet()
    put(made, 1, 0, 1, items=5)
    put(made, 2, 0, items=2)
    assert made.unacknowledged_items() == 0, "nothing has left"
    made.flush()
    assert made.unacknowledged_items() == 12
    made.port.receive_ack(made.links[TO_0].joint.edge, C0)
    assert made.unacknowledged_items() == 7
    made.lost(C0)
    made.port.renew(C0)
    assert made.unacknowledged_items() == 5


def test_split_deals_by_the_cause_so_that_what_is_computed_again_goes_where_it_went() -> None:
    split = topology({"a": 1, "b": 3}, [{"from": "a", "to": "b", "partitioning": "split"}])

    def places(order: list[int]) -> dict[int, list[int]]:
        made = outlet(split, "a.0")
        found = {}
        for number in order:
            made.begin(Epoch(1), IN, number)
            for _ in range(2):
                made.send((np.ones(1),), 1)
            made.flush()
            found[number] = [to.index for _, to, _ in made.port.sent[-2:]]
        return found

    assert places([1, 2, 3, 4, 5, 6]) == places([6, 4, 2, 5, 3, 1])
    assert {place for pair in places(list(range(1, 30))).values() for place in pair} == {0, 1, 2}


def test_an_operator_that_sends_where_no_edge_leads_is_told_which_there_are() -> None:
    made = outlet()
    with pytest.raises(JobFailed, match=r"stage 'd'.*lead to c"):
        made.send((np.ones(1),), 1, stage="d")
    with pytest.raises(JobFailed, match="no task 2"):
        made.send((np.ones(1),), 1, to=2)
    with pytest.raises(JobFailed, match="lead to none"):
        made.feed_back((np.ones(1),))


def test_kinds_of_blocks() -> None:
    made = outlet()
    put(made, 1, 0)
    made.begin(Epoch(1), WINDOW, 1)
    made.punctuate(1, 0.0, True)
    made.flush()
    assert [block.kind for _, to, block in made.port.sent if to == C0] == [Kind.DATA, Kind.PUNCTUATION]
    assert made.links[TO_0].last is made.port.kept(made.links[TO_0].joint.edge, C0)[-1], "data is not repeated"


def test_a_file_that_a_former_life_has_written_stays(tmp_path: Path) -> None:
    """The next life closes the window once more, perhaps with less: what the world has seen does not change."""
    layout = layout_of(chain(("a", 1), ("b", 2), ("c", 2)), "c.1")
    files = [WindowFiles(tmp_path, 1, DataflowOperator) for _ in range(2)]
    former, later = (Outlet(layout, DataflowPort(layout), TaskProgress(), one) for one in files)
    for value in (1, 2):
        former.begin(Epoch(1), WINDOW, 1)
        former.write("found", {"value": np.array([value])})
    for epoch in (1, 2):
        later.begin(Epoch(epoch), WINDOW, epoch)
        later.write("found", {"value": np.array([9])})
    values = [np.load(tmp_path / "output" / f"found.1.{epoch}.npz")["value"].tolist() for epoch in (1, 2)]
    assert values == [[2], [9]]
