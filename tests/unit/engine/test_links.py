"""Links over an adversarial wire: whatever is lost or cut, everything arrives once and in order while HELLOs go on."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow._links import places
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.links import Links, OutLink, Window

A, B = WorkerId("source", 0), WorkerId("processor", 0)
EDGE, OTHER = Edge(0, "source->processor"), Edge(1, "source->sink")
WINDOW = 5


class Recorder:
    """A wire that keeps what is given to it."""

    def __init__(self) -> None:
        self.forward: deque[tuple[Edge, WorkerId, int, Block]] = deque()
        self.backward: deque[tuple[Edge, WorkerId, Kind, int, int]] = deque()

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        self.forward.append((edge, to, seq, block))

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None:
        self.backward.append((edge, to, kind, seq, room))


def block(number: int = 0) -> Block:
    return Block(Kind.DATA, Epoch(1), items=number)


def sender() -> tuple[Links, Recorder]:
    wire = Recorder()
    links = Links(wire, Window(WINDOW))
    links.raise_(B, Incarnation(1))
    return links, wire


def receiver(life: int = 1) -> tuple[Links, Recorder]:
    wire = Recorder()
    links = Links(wire, Window(WINDOW))
    links.raise_(A, Incarnation(life))
    return links, wire


def accept(links: Links, seq: int, life: int = 1, kind: Kind = Kind.DATA, edge: Edge = EDGE) -> bool:
    return links.accept(edge, A, Incarnation(life), Seq(seq), Block(kind, Epoch(1)))


class TwoEnds(RuleBasedStateMachine):
    """A sends to B. Every end may restart; every wire may lose or delay, but keeps the order (it is a connection)."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = {A: 1, B: 1}
        self.next_number = 0
        self._new_a()
        self._new_b()
        self.ends[A].raise_(B, Incarnation(1))
        self.ends[B].raise_(A, Incarnation(1))

    ends: dict[WorkerId, Links]
    wires: dict[WorkerId, Recorder]

    def _new_a(self) -> None:
        self._new(A)
        self.sent: list[int] = []

    def _new_b(self) -> None:
        self._new(B)
        self.accepted: list[int] = []

    def _new(self, worker: WorkerId) -> None:
        if not hasattr(self, "ends"):
            self.ends, self.wires = {}, {}
        self.wires[worker] = Recorder()
        self.ends[worker] = Links(self.wires[worker], Window(WINDOW))

    @rule()
    def send(self) -> None:
        room = self.ends[A].room(EDGE, B)
        if self.ends[A].send(EDGE, B, block(self.next_number)):
            assert room > 0
            self.sent.append(self.next_number)
            self.next_number += 1
        else:
            assert room <= 0

    @precondition(lambda self: self.wires[A].forward)
    @rule(lost=st.booleans())
    def carry_forward(self, lost: bool) -> None:
        edge, _, seq, carried = self.wires[A].forward.popleft()
        if not lost and self.ends[B].accept(edge, A, Incarnation(self.lives[A]), Seq(seq), carried):
            self.accepted.append(carried.items)

    @precondition(lambda self: self.wires[B].backward)
    @rule(lost=st.booleans())
    def carry_back(self, lost: bool) -> None:
        edge, _, kind, seq, room = self.wires[B].backward.popleft()
        if not lost:
            self.ends[A].on_reply(edge, B, Incarnation(self.lives[B]), kind, Seq(seq), room)

    @rule()
    def cut(self) -> None:
        self.wires[A].forward.clear()
        self.wires[B].backward.clear()

    @rule()
    def processed(self) -> None:
        self.ends[B].ack(EDGE, A)

    @rule(spare=st.integers(0, WINDOW - 1), done=st.integers(0, WINDOW))
    def limit(self, spare: int, done: int) -> None:
        """The receiver has processed some of what it has, and takes few of those behind."""
        received = self.ends[B]._in_link(EDGE, A).received
        self.ends[B].limit(EDGE, A, max(0, received - done), spare)

    @rule(least=st.integers(1, WINDOW))
    def flush(self, least: int) -> None:
        self.ends[B].flush(least)

    @rule()
    def hello(self) -> None:
        for links in self.ends.values():
            links.hello()

    @rule(worker=st.sampled_from((A, B)))
    def restart(self, worker: WorkerId) -> None:
        """A new life of one end: both start anew, and what is left on the old connection is lost with it."""
        self.cut()
        self.lives[worker] += 1
        other = B if worker is A else A
        (self._new_a if worker is A else self._new_b)()
        self.sent, self.accepted = [], []
        self.ends[worker].raise_(other, Incarnation(self.lives[other]))
        self.ends[other].lower(worker)
        assert self.ends[A].room(EDGE, B) == (0 if worker is B else WINDOW)
        self.ends[other].raise_(worker, Incarnation(self.lives[worker]))

    @invariant()
    def order_is_kept_and_nothing_comes_twice(self) -> None:
        assert self.accepted == self.sent[: len(self.accepted)]

    @invariant()
    def the_window_holds(self) -> None:
        out = self.ends[A]._out.get((EDGE, B), OutLink(Window(WINDOW)))
        assert 0 <= out.acked <= out.sent <= out.acked + WINDOW
        assert [kept.items for kept in out.kept] == self.sent[out.acked : out.sent]
        assert out.room == self.ends[A].room(EDGE, B)
        incoming = self.ends[B]._in.get((EDGE, A))
        if incoming:
            assert out.acked <= incoming.safe <= incoming.received <= incoming.safe + WINDOW
            assert incoming.received == len(self.accepted)
        assert self.ends[B].overruns == 0

    def teardown(self) -> None:
        """Once nothing is lost any more, two rounds of HELLO bring everything, and the window opens again."""
        self.settle()
        received = self.ends[B]._in_link(EDGE, A).received
        for spare in (2, 1):  # what is told is not told again: a limit that was lost is made good by the next one
            self.ends[B].limit(EDGE, A, received, spare)
            self.settle()
        assert self.accepted == self.sent
        assert self.ends[A].room(EDGE, B) == 1, "one more may come, and the sender knows"
        self.ends[B].limit(EDGE, A, 0, 0)
        self.settle()
        assert self.ends[A].room(EDGE, B) == WINDOW

    def settle(self) -> None:
        for _ in range(3):
            self.hello()
            while self.wires[A].forward or self.wires[B].backward:
                while self.wires[A].forward:
                    self.carry_forward(lost=False)
                while self.wires[B].backward:
                    self.carry_back(lost=False)
            self.processed()
            self.flush(1)
            while self.wires[B].backward:
                self.carry_back(lost=False)


TestTwoEnds = TwoEnds.TestCase
TestTwoEnds.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_acknowledgements_are_cumulative_and_forget_what_they_cover() -> None:
    links, _ = sender()
    assert [links.send(EDGE, B, block(i)) for i in range(WINDOW + 1)] == [True] * WINDOW + [False]
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(3))
    assert links.room(EDGE, B) == 3
    assert [kept.items for kept in links._out[EDGE, B].kept] == [3, 4]
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(2))
    assert links.room(EDGE, B) == 3, "an older acknowledgement changes nothing"


@pytest.mark.parametrize("seq", [WINDOW + 1, 2**62, 0])
def test_an_acknowledgement_of_nonsense_is_ignored(seq: int) -> None:
    links, _ = sender()
    for i in range(WINDOW):
        links.send(EDGE, B, block(i))
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(seq))
    assert links.room(EDGE, B) == 0


def test_answers_for_links_and_lives_that_are_not_there_are_ignored() -> None:
    links, wire = sender()
    links.send(EDGE, B, block())
    wire.forward.clear()
    for edge, peer, life in ((OTHER, B, 1), (EDGE, A, 1), (EDGE, B, 0), (EDGE, B, 2)):
        for kind in (Kind.ACK, Kind.HELLO):
            links.on_reply(edge, peer, Incarnation(life), kind, Seq(1 if kind == Kind.ACK else 0))
    assert links.room(EDGE, B) == WINDOW - 1
    assert not wire.forward


def test_a_gap_is_asked_for_once_until_the_next_hello() -> None:
    links, wire = receiver()
    assert accept(links, 1)
    assert not accept(links, 3) and not accept(links, 4)
    assert list(wire.backward) == [(EDGE, A, Kind.HELLO, 1, 0)]
    links.hello()
    assert not accept(links, 4)
    assert list(wire.backward) == [(EDGE, A, Kind.HELLO, 1, 0)] * 2


def test_a_hello_from_the_receiver_brings_what_is_behind_it() -> None:
    links, wire = sender()
    for i in range(4):
        links.send(EDGE, B, block(i))
    wire.forward.clear()
    links.on_reply(EDGE, B, Incarnation(1), Kind.HELLO, Seq(2))
    assert [(seq, carried.items) for _, _, seq, carried in wire.forward] == [(3, 2), (4, 3)]
    assert links.replayed == 2


def test_a_lost_tail_is_noticed_by_the_senders_hello() -> None:
    links, wire = receiver()
    assert accept(links, 1)
    assert not accept(links, 2, kind=Kind.HELLO), "a HELLO is never handed on"
    assert list(wire.backward) == [(EDGE, A, Kind.HELLO, 1, 0)]
    assert not accept(links, 1, kind=Kind.HELLO)
    assert wire.backward[-1] == (EDGE, A, Kind.ACK, 0, 0), "nothing lacks: say what is safe"


def test_idle_links_say_no_hello() -> None:
    links, wire = sender()
    links.send(EDGE, B, block())
    wire.forward.clear()
    links.hello()
    assert [(seq, carried.kind) for _, _, seq, carried in wire.forward] == [(1, Kind.HELLO)]
    wire.forward.clear()
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(1))
    links.hello()
    links.lower(B)
    assert not wire.forward


def test_nothing_is_sent_to_a_peer_that_is_down() -> None:
    links, wire = sender()
    links.send(EDGE, B, block())
    links.lower(B)
    wire.forward.clear()
    assert not links.is_up(B) and links.room(EDGE, B) == 0 and not links.send(EDGE, B, block())
    links.hello()
    assert not wire.forward
    links.raise_(B, Incarnation(2))
    assert links.room(EDGE, B) == WINDOW, "what was not acknowledged died with the life it was sent to"
    assert links.send(EDGE, B, block(9))
    assert [seq for _, _, seq, _ in wire.forward] == [1]


def test_an_older_life_is_fenced_and_a_newer_one_starts_anew() -> None:
    links, _ = receiver(life=2)
    assert accept(links, 1, life=2) and accept(links, 2, life=2)
    assert not accept(links, 3, life=1)
    assert links.fenced == 1
    links.raise_(A, Incarnation(3))
    assert not accept(links, 3, life=2)
    assert links.fenced == 2
    assert accept(links, 1, life=3)


def test_what_a_dead_peer_said_last_is_refused() -> None:
    """It might contradict its next life: an old sink's word would place a source where the new sink is not."""
    links, _ = receiver()
    assert accept(links, 1)
    links.lower(A)
    assert not accept(links, 2) and links.fenced == 1
    links.raise_(A, Incarnation(2))
    assert not accept(links, 2) and accept(links, 1, life=2)


def test_some_of_what_came_can_be_safe_and_what_was_sent_is_known_after_a_death() -> None:
    links, _ = receiver()
    for seq in (1, 2, 3):
        accept(links, seq)
    links.ack(EDGE, A, Seq(2))
    links.ack(EDGE, A, Seq(1))
    assert links._in[EDGE, A].safe == 2
    ours, _ = sender()
    for number in range(3):
        ours.send(EDGE, B, block(number))
    ours.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(1))
    ours.lower(B)
    assert [kept.items for kept in ours.kept(EDGE, B)] == [1, 2]


def test_a_sender_that_ignores_its_window_is_not_followed() -> None:
    links, wire = receiver()
    most = places(Window(WINDOW), block(0))
    assert [accept(links, seq) for seq in range(1, most + 3)] == [True] * most + [False] * 2
    assert links.overruns == 2 and not wire.backward
    links.ack(EDGE, A)
    assert accept(links, most + 1)


def test_a_full_link_still_takes_barriers_and_what_waits_before_them() -> None:
    """Whose receiver acknowledges nothing for a while: a checkpoint must not wait for that."""
    barrier = Block(Kind.BARRIER, Epoch(1))
    ours, _ = sender()
    assert all(ours.send(EDGE, B, block(number)) for number in range(WINDOW)) and not ours.send(EDGE, B, block(0))
    assert not ours.send(EDGE, B, barrier), "urgent ones alone"
    before, all_of_them = places(Window(WINDOW), block(0)), places(Window(WINDOW), barrier)
    assert WINDOW < before < all_of_them
    assert all(ours.send(EDGE, B, block(0), urgent=True) for _ in range(before - WINDOW))
    assert not ours.send(EDGE, B, block(0), urgent=True)
    assert all(ours.send(EDGE, B, barrier, urgent=True) for _ in range(all_of_them - before))
    assert not ours.send(EDGE, B, barrier, urgent=True) and not ours.send(EDGE, B, block(0), urgent=True)
    ours.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(all_of_them - WINDOW + 1))
    assert ours.send(EDGE, B, block(0))
    links, _ = receiver()
    assert all(accept(links, seq) for seq in range(1, before + 1)) and not accept(links, before + 1)
    assert links.accept(EDGE, A, Incarnation(1), Seq(before + 1), barrier)


def test_a_link_takes_no_further_block_once_those_on_it_are_large() -> None:
    out, large = OutLink(Window(WINDOW, 100)), Block(Kind.DATA, Epoch(1), arrays=(np.zeros(10),))
    for room in (WINDOW, WINDOW - 1):
        assert out.room == room
        out.put(large)
    assert out.room == 0, "160 bytes"
    out.ack(Seq(1))
    assert out.room == WINDOW - 1
    out.ack(Seq(2))
    assert out.room == WINDOW and out.kept_bytes == 0


def test_acknowledgements_wait_until_they_cover_enough() -> None:
    links, wire = receiver()
    for seq in range(1, 4):
        accept(links, seq)
    links.flush(1)
    assert not wire.backward, "received is not safe"
    links.ack(EDGE, A)
    links.flush(4)
    assert not wire.backward
    links.flush(3)
    links.flush(1)
    assert list(wire.backward) == [(EDGE, A, Kind.ACK, 3, 0)]


def test_a_sender_that_waits_for_room_hears_of_it_before_much_is_safe() -> None:
    """What was processed counts, acknowledged or not: it does not wait any more."""
    links, wire = receiver()
    for seq in range(1, 4):
        accept(links, seq)
    links.limit(EDGE, A, 1, 2)
    assert not links.flush(4) and list(wire.backward) == [(EDGE, A, Kind.ACK, 0, 3)]
    assert not links.flush(1), "the sender knows"
    links.limit(EDGE, A, 1, 1)
    assert links.flush(4), "that it takes less is no hurry"
    links.limit(EDGE, A, 3, 4)
    assert not links.flush(4) and wire.backward[-1] == (EDGE, A, Kind.ACK, 0, 7)
    links.ack(EDGE, A, Seq(2))
    assert links.flush(4), "nor that two are safe"
    links.limit(EDGE, A, 3, 0)
    assert not links.flush(4) and wire.backward[-1] == (EDGE, A, Kind.ACK, 2, 0), "all that the window takes"


def test_a_sender_keeps_to_the_room_that_its_receiver_has() -> None:
    links, _ = sender()
    assert links.send(EDGE, B, block(0))
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(0), 2)
    assert [links.send(EDGE, B, block(i)) for i in (1, 2)] == [True, False]
    assert links.send(EDGE, B, Block(Kind.BARRIER, Epoch(1)), urgent=True), "barriers wait for no room"
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(2), 2)
    assert links.room(EDGE, B) == 1
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(1), 0)
    assert links.room(EDGE, B) == 1, "what is older than the newest says nothing"
    links.on_reply(EDGE, B, Incarnation(1), Kind.ACK, Seq(3), 0)
    assert links.room(EDGE, B) == WINDOW


def test_edges_between_the_same_workers_are_links_of_their_own() -> None:
    links, _ = receiver()
    assert accept(links, 1) and accept(links, 1, edge=OTHER) and accept(links, 2, edge=OTHER)
    assert not accept(links, 1)
    assert links.duplicates == 1


def test_acknowledging_a_link_that_never_was_is_no_error() -> None:
    links, wire = receiver()
    links.ack(OTHER, A)
    links.flush(0)
    assert not wire.backward


def test_the_state_of_unknown_workers() -> None:
    links: Any = Links(Recorder(), Window(WINDOW))
    assert links.incarnation(B) == 0 and not links.is_up(B) and links.room(EDGE, B) == 0


def test_a_further_round_starts_all_links_anew_between_the_same_lives() -> None:
    wire = Recorder()
    links = Links(wire, Window(WINDOW))
    links.raise_(A, Incarnation(2))
    for number in (1, 2):
        assert links.send(EDGE, A, block(number))
        assert links.accept(OTHER, A, Incarnation(2), Seq(number), block())
    assert links.is_of_round(0) and not links.is_of_round(1)
    links.enter(1)
    assert links.fenced == 1 and not links.is_of_round(0) and links.is_of_round(1)
    assert not links.is_of_round(0, blocks=3) and links.fenced == 5, "each block of a bundle is counted"
    assert links.is_up(A) and links.unacknowledged(EDGE, A) == 0
    wire.forward.clear()
    assert links.send(EDGE, A, block(3)) and wire.forward[0][2] == 1, "numbers begin at 1"
    assert links.accept(OTHER, A, Incarnation(2), Seq(1), block())


def test_who_enters_a_round_late_has_the_senders_begin_at_the_first() -> None:
    wires = Recorder(), Recorder()
    early, late = (Links(wire, Window(WINDOW)) for wire in wires)
    early.raise_(B, Incarnation(1))
    late.raise_(A, Incarnation(1))
    early.enter(1)
    for number in (1, 2):
        early.send(EDGE, B, block(number))  # and the other refuses them
    late.enter(1)
    late.ask_anew(EDGE, A)
    edge, _, kind, seq, _ = wires[1].backward[0]
    wires[0].forward.clear()
    early.on_reply(edge, B, Incarnation(1), kind, Seq(seq))
    assert [late.accept(EDGE, A, Incarnation(1), seq, block) for _, _, seq, block in wires[0].forward] == [True, True]
