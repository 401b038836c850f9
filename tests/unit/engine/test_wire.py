"""What leaves a worker: small blocks that follow each other go in one message, a block that is alone goes at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from fake_port import DATA, RESULT, processor, source

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.header import Header, decode_behind, decode_bundle, is_bundle
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.worker._wire import OrdinaryWire, Way

PREFIX = Header("job", "source.0", Incarnation(1), DATA.index).prefix
FIRST, SECOND = processor(0), processor(1)
CONNECTIONS = {FIRST: 1, SECOND: 2}


class Wire(OrdinaryWire):
    """One whose network only notes what it is given: connection, blocks and whether they were in a bundle."""

    def __init__(self) -> None:
        super().__init__()
        self.network = self
        self.counts: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()
        self.messages: list[tuple[int, list[int], bool]] = []
        self.is_current = self.has_room = True

    def send(self, connection: int, header: bytes, frames: Any) -> bool:
        bundle = is_bundle(header, PREFIX)
        blocks = decode_bundle(header, frames) if bundle else [decode_behind(header, frames)]
        self.messages.append((connection, [block.seq for block in blocks], bundle))
        return self.has_room

    def _open(self, edge: Edge, to: WorkerId) -> Way | None:
        if to not in CONNECTIONS:
            return None
        way = self._ways[edge, to] = Way(CONNECTIONS[to], edge, to, PREFIX)
        return way

    def _forward(self, connection: int, edge: Edge, to: WorkerId, block: Block) -> None:
        self.messages.append((connection, [block.seq], False))

    def _check_current(self) -> None:
        if not self.is_current:
            raise RuntimeError("fenced")

    @property
    def seqs(self) -> dict[int, list[int]]:
        """What left, by connection."""
        found: dict[int, list[int]] = {}
        for connection, seqs, _ in self.messages:
            found.setdefault(connection, []).extend(seqs)
        return found


def small(kind: Kind = Kind.DATA) -> Block:
    return Block(kind, Epoch(1), Key(0, 0, 0, 0), 2, (np.zeros((2, 3)),))


def put(wire: Wire, seq: int, block: Block | None = None, to: WorkerId = FIRST, edge: Edge = DATA) -> None:
    wire.transmit(edge, to, Seq(seq), block or small())


def test_the_first_block_leaves_at_once() -> None:
    wire = Wire()
    put(wire, 1)
    assert wire.messages == [(1, [1], True)]
    assert wire.bytes_sent[DATA.name] > 48 and not wire.counts
    wire.flush()
    assert len(wire.messages) == 1


def test_a_burst_leaves_in_few_messages_and_in_order() -> None:
    wire = Wire()
    for seq in range(1, 1001):
        put(wire, seq)
    wire.flush()
    assert wire.seqs == {1: [*range(1, 1001)]}
    assert len(wire.messages) < 500
    assert max(len(seqs) for _, seqs, _ in wire.messages) > 8


def test_each_link_has_a_bundle_of_its_own() -> None:
    wire = Wire()
    for seq in range(1, 301):
        put(wire, seq, to=processor(seq % 2))
    wire.flush()
    assert wire.seqs == {2: [*range(1, 301, 2)], 1: [*range(2, 301, 2)]}
    assert len(wire.messages) < 200


@pytest.mark.parametrize("odd", [Block(Kind.HELLO, Epoch(0)), Block(Kind.DATA, Epoch(1), arrays=(np.zeros(9999),))])
def test_what_goes_alone_overtakes_nothing(odd: Block) -> None:
    wire = Wire()
    for seq in (1, 2, 3):
        put(wire, seq)
    put(wire, 4, odd)
    put(wire, 5)
    wire.flush()
    assert wire.seqs == {1: [1, 2, 3, 4, 5]}
    assert (1, [4], False) in wire.messages


def test_what_is_held_for_a_worker_is_lost_with_the_way_to_it() -> None:
    wire = Wire()
    for seq in (1, 2, 3):
        for to in (FIRST, SECOND):
            put(wire, seq, to=to)
    wire.shut(FIRST)
    wire.flush()
    assert wire.seqs[2] == [1, 2, 3] and wire.seqs[1][0] == 1
    lost = 3 - len(wire.seqs[1])
    put(wire, 4)
    wire.flush()
    assert wire.seqs[1] == [*range(1, 4 - lost), 4]
    wire.shut()
    put(wire, 5, to=SECOND)
    assert wire.seqs[2] == [1, 2, 3, 5], "a new way begins with a block that is alone"


def test_without_a_connection_nothing_leaves() -> None:
    wire = Wire()
    put(wire, 1, to=source(), edge=RESULT)
    wire.flush()
    assert not wire.messages


def test_a_full_ring_is_counted_and_a_fenced_worker_sends_nothing() -> None:
    wire = Wire()
    wire.has_room = False
    put(wire, 1)
    assert wire.counts == {"ring_full": 1} and not wire.bytes_sent
    wire.is_current = False
    with pytest.raises(RuntimeError, match="fenced"):
        put(wire, 2)
        wire.flush()
    assert wire.seqs == {1: [1]}
