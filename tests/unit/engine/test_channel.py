"""Channels: order, pieces, room, wake-ups and lives; and what a neighbour cannot have meant breaks its own only."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import signal
import struct
import threading
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from network_pairs import DEADLINE_S, receive

from riprap.engine.wire.arena import Arena
from riprap.engine.wire.channel import Channel
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network

MIB = 1 << 20
RING_BYTES = 1 << 16
BYTES_MAX = MIB
PAGE_BYTES = 4096


class End:
    """A worker with one side: its segment and its network."""

    def __init__(self, origin: int, sender: Any) -> None:
        self.arena = Arena(0, MIB, 1)
        self.network = Network(BYTES_MAX, arena=self.arena)
        self.renew(origin, sender)

    def renew(self, origin: int, sender: Any) -> None:
        self.channel = Channel(self.arena, 0, origin, sender, BYTES_MAX)

    def join(self, other: End) -> None:
        self.channel.join(os.getpid(), other.arena.descriptor, other.arena.token, 0, other.channel.tail)
        self.network.attach(self.channel)


def pair() -> tuple[End, End]:
    """A sender, for whom the channel is link 1, and its receiver."""
    ends = End(DOWNSTREAM, 1), End(UPSTREAM, b"sender")
    ends[0].join(ends[1])
    ends[1].join(ends[0])
    return ends


def taken(end: End) -> list[tuple[bytes, list[bytes]]]:
    return [(header, [bytes(frame) for frame in frames]) for _, _, header, frames in end.network.receive()]


def test_messages_arrive_as_they_were_sent_named_as_by_the_sockets() -> None:
    sender, receiver = pair()
    array = np.arange(6.0).reshape(2, 3)
    assert sender.network.send(1, b"head", [array, b"", b"abc"])
    ((origin, who, header, frames),) = receiver.network.receive()
    assert (origin, who, header) == (UPSTREAM, b"sender", b"head")
    assert [bytes(frame) for frame in frames] == [array.tobytes(), b"", b"abc"]
    assert np.array_equal(np.frombuffer(frames[0]).reshape(2, 3), array)
    assert np.frombuffer(frames[0], np.uint8).ctypes.data % 8 == 0
    assert receiver.network.reply(b"sender", b"answer")
    assert [message[:3] for message in sender.network.receive()] == [(DOWNSTREAM, 1, b"answer")]
    assert sender.network.counters()["channels"]["messages_out"] == 1


def test_what_finds_no_room_goes_in_pieces_as_there_is_room_and_keeps_its_order() -> None:
    sender, receiver = pair()
    large = random.Random(1).randbytes(5 * RING_BYTES)
    sent = [(b"first", [b"1"]), (b"large", [large]), (b"last", [])]
    for header, frames in sent:
        assert sender.network.send(1, header, frames)
    got = []
    while len(got) < len(sent):
        got += taken(receiver)
        assert sender.network.receive() == []  # its turn to write on
    assert got == sent


def test_a_full_ring_wakes_both_ends_in_turn() -> None:
    """Neither end is told by anyone else that there is something to read, or room to write."""
    sender, receiver = pair()
    messages = [bytes([i]) * 40_000 for i in range(20)]
    for message in messages:
        assert sender.network.send(1, b"h", [message])
    stop = threading.Event()

    def write_on() -> None:
        while not stop.is_set():
            sender.network.receive(DEADLINE_S * 1000)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        assert [bytes(frames[0]) for _, _, _, frames in receive(receiver.network, len(messages))] == messages
    finally:
        stop.set()
        sender.network.wake()
        writer.join(DEADLINE_S)


def test_a_waiting_receiver_is_woken() -> None:
    sender, receiver = pair()
    got: list[Any] = []
    waiter = threading.Thread(target=lambda: got.extend(receiver.network.receive(2 * DEADLINE_S * 1000)))
    waiter.start()
    assert sender.network.send(1, b"h")
    waiter.join(DEADLINE_S)
    assert not waiter.is_alive()
    assert [header for _, _, header, _ in got] == [b"h"]


def test_wake_ends_a_wait_before_and_during_it() -> None:
    _, receiver = pair()
    receiver.network.wake()
    assert receiver.network.receive(DEADLINE_S * 1000) == []
    waiter = threading.Thread(target=lambda: receiver.network.receive(DEADLINE_S * 1000))
    waiter.start()
    receiver.network.wake()
    waiter.join(DEADLINE_S)
    assert not waiter.is_alive()


def test_a_new_life_gets_nothing_of_what_was_meant_for_the_last_one() -> None:
    sender, former = pair()
    sender.network.send(1, b"seen")
    assert [header for header, _ in taken(former)] == [b"seen"]
    sender.network.send(1, b"unseen", [bytes(3 * RING_BYTES)])  # the ring is full, in the middle of a message
    sender.network.detach(1)
    life = End(UPSTREAM, b"sender")
    sender.renew(DOWNSTREAM, 1)
    sender.join(life)
    life.join(sender)
    sender.network.send(1, b"new", [b"x"])
    assert taken(life) == [(b"new", [b"x"])]
    former.network.reply(b"sender", b"from the grave")
    life.network.reply(b"sender", b"alive")
    assert [header for header, _ in taken(sender)] == [b"alive"]


def test_sends_over_the_bounds_are_refused_and_leave_the_channel_whole() -> None:
    sender, receiver = pair()
    for header, frames in ((b"", []), (b"h", [b""] * 17), (b"h", [bytes(BYTES_MAX)])):
        with pytest.raises(ValueError, match="message"):
            sender.network.send(1, header, frames)
    with pytest.raises((ValueError, BufferError)):
        sender.network.send(1, b"h", [np.zeros((4, 4))[:, 1]])
    assert sender.network.send(1, b"h", [b"x"])
    assert taken(receiver) == [(b"h", [b"x"])]


def word(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


@pytest.mark.parametrize(
    "written",
    [
        word(0, 1, 1, 0),
        word(33, 1, 1, 0) + bytes(8),
        word(1 << 40, 1, 1, 0),
        word(32, 0, 1, 0),
        word(32, 1 << 61, 1, 0),
        word(32, 18, 1, 0),
        word(32, 10, 1, 0),
        word(40, 2, 0, 8) + bytes(8),
        word(32, 1, 9, 0),
        word(32, 1, 1 << 63, 0),
        word(32, (1 << 64) - 1, 1, 0),
        word(48, 1, 1, 0) + bytes(16),
        word(40, 2, 1, (1 << 64) - 8) + bytes(8),
    ],
)
def test_what_no_neighbour_can_have_written_breaks_the_channel(written: bytes) -> None:
    sender, receiver = pair()
    ring = Ring(sender.arena)
    ring.write(written)
    assert receiver.network.receive() == []
    assert receiver.network.counters()["channels"]["broken"] == 1
    assert not receiver.network.reply(b"sender", b"answer")


@pytest.mark.parametrize("tail", [RING_BYTES + 8, (1 << 64) - 8])
def test_a_tail_beyond_the_ring_breaks_the_channel(tail: int) -> None:
    sender, receiver = pair()
    Ring(sender.arena).set_tail(tail)
    assert receiver.network.receive() == []
    assert receiver.network.counters()["channels"]["broken"] == 1


class Ring:
    """The one side of a segment without links, as its worker might come to write it."""

    def __init__(self, arena: Arena) -> None:
        self._map = mmap.mmap(os.dup(arena.descriptor), 0)
        self._start = PAGE_BYTES + 2048 * 8  # behind the head and the generations

    def write(self, data: bytes) -> None:
        self._map[self._start + PAGE_BYTES : self._start + PAGE_BYTES + len(data)] = data
        self.set_tail(len(data))

    def set_tail(self, tail: int) -> None:
        self._map[self._start : self._start + 8] = word(tail)


def test_another_segment_or_side_is_not_joined() -> None:
    one, other = End(DOWNSTREAM, 1), End(UPSTREAM, b"x")
    for terms in (
        (other.arena.descriptor, bytes(16), 0),
        (other.arena.descriptor, other.arena.token, 1),
        (1 << 20, other.arena.token, 0),
    ):
        with pytest.raises(OSError):
            one.channel.join(os.getpid(), *terms, 0)
    assert one.channel.is_broken
    with pytest.raises(ValueError, match="side"):
        Channel(one.arena, 1, UPSTREAM, b"x", BYTES_MAX)


class Machine(RuleBasedStateMachine):
    """A channel beside two queues: messages of any size, turns of either end at any time, neighbours that die."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = pair()
        self.forth: deque[tuple[bytes, list[bytes]]] = deque()
        self.back: deque[tuple[bytes, list[bytes]]] = deque()
        self.number = 0

    @rule(sizes=st.lists(st.sampled_from([0, 1, 7, 8, 1000, 30_000, RING_BYTES, 3 * RING_BYTES]), max_size=3))
    def send(self, sizes: list[int]) -> None:
        self.number += 1
        frames = [random.Random(self.number + i).randbytes(size) for i, size in enumerate(sizes)]
        assert self.sender.network.send(1, b"%d" % self.number, frames)
        self.forth.append((b"%d" % self.number, frames))

    @rule()
    def reply(self) -> None:
        self.number += 1
        assert self.receiver.network.reply(b"sender", b"%d" % self.number)
        self.back.append((b"%d" % self.number, []))

    @rule()
    def turn_of_the_receiver(self) -> None:
        for message in taken(self.receiver):
            assert message == self.forth.popleft()

    @rule()
    def turn_of_the_sender(self) -> None:
        for message in taken(self.sender):
            assert message == self.back.popleft()

    @rule()
    def all_arrives(self) -> None:
        while self.forth or self.back:
            self.turn_of_the_sender()
            self.turn_of_the_receiver()

    @rule()
    def the_receiver_is_born_anew(self) -> None:
        self.sender.network.detach(1)
        self.receiver = End(UPSTREAM, b"sender")
        self.sender.renew(DOWNSTREAM, 1)
        self.sender.join(self.receiver)
        self.receiver.join(self.sender)
        self.forth.clear()
        self.back.clear()

    @precondition(lambda self: self.number > 0)
    @rule()
    def the_sender_is_born_anew(self) -> None:
        self.receiver.network.detach(b"sender")
        self.sender = End(DOWNSTREAM, 1)
        self.receiver.renew(UPSTREAM, b"sender")
        self.receiver.join(self.sender)
        self.sender.join(self.receiver)
        self.forth.clear()
        self.back.clear()

    @invariant()
    def is_whole(self) -> None:
        assert not self.sender.channel.is_broken and not self.receiver.channel.is_broken


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_sender_killed_while_it_writes_leaves_whole_messages() -> None:
    """What can be read of a killed neighbour is a run of its messages from the first on, and its memory stays."""
    receiver = End(UPSTREAM, b"sender")
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        _send_for_ever(receiver, here)
    try:
        os.close(here)
        with os.fdopen(there, "rb") as pipe:
            descriptor, tail = struct.unpack("<QQ", pipe.read(16))
            token = pipe.read(16)
        receiver.channel.join(child, descriptor, token, 0, tail)
        receiver.network.attach(receiver.channel)
        got = [bytes(frames[0]) for _, _, _, frames in receiver.network.receive(DEADLINE_S * 1000)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    while batch := receiver.network.receive():
        got += [bytes(frames[0]) for _, _, _, frames in batch]
    assert len(got) > 0 and not receiver.channel.is_broken
    assert got == [b"%d" % i * 1000 for i in range(len(got))]


def _send_for_ever(receiver: End, pipe: int) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the test
    try:
        sender = End(DOWNSTREAM, 1)
        os.write(pipe, struct.pack("<QQ", sender.arena.descriptor, sender.channel.tail) + sender.arena.token)
        os.close(pipe)
        sender.channel.join(os.getppid(), receiver.arena.descriptor, receiver.arena.token, 0, receiver.channel.tail)
        sender.network.attach(sender.channel)
        number = 0
        while True:
            sender.network.send(1, b"h", [b"%d" % number * 1000])
            sender.network.receive(1)
            number += 1
    finally:
        os._exit(1)
