"""How workers agree on a channel, and what they do when they cannot."""

from __future__ import annotations

from typing import Any

import pytest

from riprap.codec.ids import WorkerId
from riprap.engine.flow.channels import Channels, side_count
from riprap.engine.flow.edges import Edge
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network
from riprap.engine.wire.sharing import open_arena

MIB = 1 << 20
ME, PEER, OTHER = WorkerId("processor", 0), WorkerId("sink", 0), WorkerId("source", 0)
NAME, CONNECTION = b"processor.0#1", 3


class Around:
    """The neighbourhood of a worker."""

    def __init__(self, me: WorkerId, receivers: list[WorkerId], senders: tuple[WorkerId, ...]) -> None:
        self.me, self._receivers, self._senders = me, receivers, senders

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        return {Edge(0, "data"): self._senders, Edge(1, "more"): self._senders[:1]}

    def outgoing(self) -> tuple[Edge, ...]:
        return ()

    def receivers(self) -> list[WorkerId]:
        return self._receivers


class Side:
    """A worker's channels and its network."""

    def __init__(self, around: Around, shares: bool = True) -> None:
        arena = open_arena(len(around.receivers()), side_count(around), MIB)[0] if shares else None
        self.network = Network(MIB, arena=arena)
        self.channels = Channels(arena, around, self.network, MIB)


def sides(sender_shares: bool = True, receiver_shares: bool = True) -> tuple[Side, Side]:
    return Side(Around(ME, [PEER], (OTHER,)), sender_shares), Side(Around(PEER, [], (OTHER, ME)), receiver_shares)


def agree(sender: Side, receiver: Side) -> None:
    answer = receiver.channels.answer(ME, NAME, sender.channels.offer(PEER, CONNECTION))
    assert sender.channels.accepted(PEER, answer)
    sender.channels.begin(DOWNSTREAM, PEER)
    receiver.channels.begin(UPSTREAM, ME)


def heard(side: Side) -> list[tuple[Any, ...]]:
    return [message[:3] for message in side.network.receive()]


def test_after_the_agreement_messages_and_answers_take_the_channel() -> None:
    sender, receiver = sides()
    agree(sender, receiver)
    sender.network.send(CONNECTION, b"there")
    receiver.network.reply(NAME, b"back")
    assert heard(receiver) == [(UPSTREAM, NAME, b"there")] and heard(sender) == [(DOWNSTREAM, CONNECTION, b"back")]


def test_nothing_is_read_before_the_sender_says_that_it_begins() -> None:
    """What it sent by its socket before comes first."""
    sender, receiver = sides()
    assert sender.channels.accepted(PEER, receiver.channels.answer(ME, NAME, sender.channels.offer(PEER, CONNECTION)))
    sender.channels.begin(DOWNSTREAM, PEER)
    sender.network.send(CONNECTION, b"early")
    assert heard(receiver) == []
    receiver.channels.begin(UPSTREAM, ME)
    assert heard(receiver) == [(UPSTREAM, NAME, b"early")]


@pytest.mark.parametrize("shares", [(False, True), (True, False)])
def test_without_memory_on_either_side_there_is_no_channel(shares: tuple[bool, bool]) -> None:
    sender, receiver = sides(*shares)
    answer = receiver.channels.answer(ME, NAME, sender.channels.offer(PEER, CONNECTION))
    assert answer is None and not sender.channels.accepted(PEER, answer)
    for side, origin, peer in ((sender, DOWNSTREAM, PEER), (receiver, UPSTREAM, ME)):
        side.channels.begin(origin, peer)
        assert side.network.counters()["channels"]["messages_in"] == 0 == len(heard(side))


@pytest.mark.parametrize(
    "terms",
    [1, [], [1, 2, b"", 0], [1, 2, b"x" * 16, 0, 0], ["1", 2, b"x", 0, 0], [0, 0, b"x", 0, 0], [1, 1, b"x", -1, 0],
     [1, 1, b"x", 0, 1 << 63]],
)  # fmt: skip
def test_odd_terms_are_declined(terms: Any) -> None:
    sender, receiver = sides()
    assert receiver.channels.answer(ME, NAME, terms) is None
    assert sender.channels.offer(PEER, CONNECTION) is not None and not sender.channels.accepted(PEER, terms)
    sender.channels.begin(DOWNSTREAM, PEER)
    assert sender.network.counters()["channels"]["broken"] == 0, "it is not attached"


def test_a_stranger_gets_no_channel() -> None:
    sender, receiver = sides()
    offer = sender.channels.offer(PEER, CONNECTION)
    assert receiver.channels.answer(WorkerId("processor", 9), b"processor.9#1", offer) is None
    assert sender.channels.offer(OTHER, 4) is None


def test_a_peer_that_is_down_is_forgotten_and_its_next_life_agrees_anew() -> None:
    sender, receiver = sides()
    agree(sender, receiver)
    sender.channels.drop(PEER, b"sink.0#1")
    sender.network.detach(CONNECTION)
    receiver.channels.drop(ME, NAME)
    assert sender.network.counters()["channels"] == receiver.network.counters()["channels"]
    sender.channels.begin(DOWNSTREAM, PEER)
    life = sides()[1]
    agree(sender, life)
    sender.network.send(CONNECTION, b"anew")
    assert heard(life) == [(UPSTREAM, NAME, b"anew")]


def test_a_lack_of_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    sender, _ = sides()
    monkeypatch.setattr("riprap.engine.flow.channels.Channel", fail)
    assert sender.channels.offer(PEER, CONNECTION) is None and "No space left" in sender.channels.refused
