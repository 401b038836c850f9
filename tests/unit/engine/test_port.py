"""Two ports in one process: what they share, and what becomes of it when messages are lost or a peer is down."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from network_pairs import DEADLINE_S, endpoint

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.events import EventLog
from riprap.codec.header import HEADER_BYTES_MAX
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.channels import Channels, side_count
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.links import Window
from riprap.engine.wire.network import Network
from riprap.engine.wire.sharing import Borrower, Lender, Roots, open_arena
from riprap.engine.worker.port import WorkerPort

MIB = 1 << 20
DATA = Edge(0, "data")
SENDER, RECEIVER = WorkerId("source", 0), WorkerId("sink", 0)


class Around:
    """The neighbourhood of one end of the one link, and the gate of a worker that takes all DATA from it."""

    def __init__(self, me: WorkerId) -> None:
        self.me, self.workers = me, (SENDER, RECEIVER)
        self.kinds: dict[Edge, set[Kind]] = {DATA: {Kind.DATA}}
        self.checks: dict[Edge, Any] = {DATA: lambda sender, block: None}

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        return {DATA: (SENDER,)} if self.me == RECEIVER else {}

    def outgoing(self) -> tuple[Edge, ...]:
        return (DATA,) if self.me == SENDER else ()

    def receivers(self) -> list[WorkerId]:
        return [RECEIVER] if self.me == SENDER else []


class Task:
    """Takes blocks, and makes all that came safe."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def admits(self, block: Block) -> bool:
        return True

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        self.blocks.append(block)


class End:
    """A port with its network and its task."""

    def __init__(self, me: WorkerId, events: Path, shared_bytes: int) -> None:
        around: Any = Around(me)
        arena, refusal = open_arena(len(around.receivers()), side_count(around), shared_bytes)
        self.network, self.task = Network(MIB, arena=arena), Task()
        self.bound = self.network.bind(endpoint("ipc"))
        self.network.start()
        roots = Roots(())
        self.port = WorkerPort(
            "job", around, around, Incarnation(1), self.network, Window(8), EventLog(events),
            Lender(roots, around.receivers(), arena, refusal), Borrower(roots),
            Channels(arena, around, self.network, MIB),
        )  # fmt: skip

    def step(self) -> None:
        self.port.step(self.task, 0.001)  # type: ignore[arg-type]
        self.port.ack(DATA, SENDER)


@contextmanager
def ends(events: Path, shared_bytes: int = MIB) -> Iterator[tuple[End, End]]:
    sender, receiver = End(SENDER, events, shared_bytes), End(RECEIVER, events, shared_bytes)
    sender.port.connect(RECEIVER, receiver.bound, None, shares_memory=True)  # type: ignore[arg-type]
    sender.port.links.raise_(RECEIVER, Incarnation(1))
    receiver.port.links.raise_(SENDER, Incarnation(1))
    try:
        yield sender, receiver
    finally:
        for end in (sender, receiver):
            end.network.close()
            end.port.log.close()


def go_on_until(condition: Callable[[], bool], *all_ends: End) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        for end in all_ends:
            end.step()


def send(sender: End, value: int) -> bool:
    return sender.port.send(DATA, RECEIVER, Block(Kind.DATA, Epoch(1), items=1, arrays=(np.full(3, value),)))


def segments() -> int:
    """Mappings of files of /dev/shm without a name."""
    return Path("/proc/self/maps").read_text().count("/dev/shm/#")


@pytest.mark.parametrize("lost", [b"shared", b"begin", b""])
def test_all_blocks_arrive_whichever_message_of_the_agreement_finds_no_room(tmp_path: Path, lost: bytes) -> None:
    with ends(tmp_path / "events.jsonl") as (sender, receiver):
        refused = []

        def send_or_refuse(link: int, header: bytes, frames: Any = ()) -> bool:
            if lost and lost in header:
                refused.append(header)
                return False
            return sender.network.send(link, header, frames)

        network: Any = SimpleNamespace(send=send_or_refuse, receive=sender.network.receive)
        sender.port.network = network
        waiting = [*range(50)]

        def all_are_sent() -> bool:
            while waiting and send(sender, waiting[0]):
                del waiting[0]
            return not waiting

        go_on_until(all_are_sent, sender, receiver)
        go_on_until(lambda: len(receiver.task.blocks) == 50, sender, receiver)
        assert [block.arrays[0][0] for block in receiver.task.blocks] == [*range(50)]
        assert len(refused) == sender.port.counts["ring_full"] == (1 if lost else 0)
        assert (sender.network.counters()["channels"]["messages_out"] > 0) == (not lost)


def test_the_last_offer_of_a_peer_that_is_down_is_not_taken(tmp_path: Path) -> None:
    gc.collect()  # what other tests have left
    with ends(tmp_path / "events.jsonl") as (sender, receiver):
        assert send(sender, 1)
        sender.port.flush()
        receiver.port.links.lower(SENDER)
        receiver.port.disconnect(SENDER)
        mapped = segments()
        go_on_until(lambda: receiver.port.links.fenced > 0, receiver)
        assert segments() == mapped, "its segment would stay mapped until this worker ends"
        assert not receiver.task.blocks


@pytest.mark.parametrize("by_reference", [False, True], ids=["as frames", "by reference"])
def test_a_block_too_large_for_a_message_fails_the_job_by_name(tmp_path: Path, by_reference: bool) -> None:
    """Wherever the receiver is: else a job would run on one host and fail on two, or once its shared memory is full."""
    with ends(tmp_path / "events.jsonl", 4 * MIB) as (sender, receiver):
        if by_reference:
            assert send(sender, 1)
            go_on_until(lambda: RECEIVER in sender.port.lender._terms, sender, receiver)
        most = MIB - HEADER_BYTES_MAX
        block = Block(Kind.DATA, Epoch(1), items=1, arrays=(np.zeros(most, np.uint8),))
        assert sender.port.send(DATA, RECEIVER, block), "the largest"
        assert sender.port.bytes_shared[DATA.name] == (most if by_reference else 0)
        block = Block(Kind.DATA, Epoch(1), items=1, arrays=(np.zeros(most + 1, np.uint8),))
        said = rf"^source\.0 cannot send a DATA to sink\.0: a message of {most + 1} bytes is over the bound of {most}\n"
        with pytest.raises(JobFailed, match=said) as caught:
            sender.port.send(DATA, RECEIVER, block)
        assert "links.block_bytes" in caught.value.remedy
