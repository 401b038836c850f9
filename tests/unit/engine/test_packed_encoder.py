"""The encoder of packed blocks: what it sends, when it waits, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dataflow_parts import edge_of
from fake_port import FakePort, layout_of, processor

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.alarms import AlarmedPort, Alarms
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.layout import Layout
from riprap.engine.spreads.encoder import LINGER_S, PackedEncoder, first_row
from riprap.engine.spreads.packing import PAD, unpack

STRIPED = {"scheme": "erasure", "code": "gf256", "k": 2, "r": 2, "attachment": "lazy", "hedge": "none"}
STAGES = {name: {"operator": "forward:Forward", "parallelism": 4 if name == "f" else 2} for name in "afcd"}
TOPOLOGY = Topology.from_dict(
    {
        "job": "job",
        "micro_batch": 10,
        "stages": STAGES | {"f": STAGES["f"] | {"fault_tolerance": STRIPED}},
        "edges": [{"from": one, "to": other, "partitioning": "full"} for one, other in pairwise("afcd")],
        "fault_tolerance": {"scheme": "none"},
    }
)
A, C, F, D = (WorkerId(stage, 0) for stage in "acfd")


def block(number: int, kind: Kind = Kind.DATA) -> Block:
    arrays = (np.full((2, 2), float(number)),) if kind == Kind.DATA else ()
    meta = {"cause": [2**31, 0, number, 0]}
    return Block(kind, Epoch(1), Key(0, 0, number, 2 * number), len(arrays) * 2, arrays, meta=meta)


class Encoder:
    """The sending end of a.0, all of whose peers live."""

    def __init__(self, window: int = 100) -> None:
        (segment,) = Layout.of(TOPOLOGY, A).segments
        self.port = FakePort(segment.layout)
        self.alarms = Alarms(self.port)
        self.sender, self.layout = PackedEncoder(segment, self.port, self.alarms, 1, window), segment.layout

    def sent(self, edge: Any) -> list[Block]:
        return [one for on, _, one in self.port.sent if on == edge]


@pytest.fixture
def encoder() -> Encoder:
    return Encoder()


def test_the_first_word_says_where_the_rows_of_this_life_begin(encoder: Encoder) -> None:
    assert encoder.sender.send(block(1))
    first = encoder.sent(encoder.layout.punctuation)[0]
    assert first.epoch == first_row(1) and first.meta["begin"]
    assert encoder.sent(encoder.layout.data)[0].epoch == first_row(1) + 1


def test_a_row_is_k_pieces_and_r_parities_on_different_tasks(encoder: Encoder) -> None:
    for number in (1, 2):
        encoder.sender.send(block(number))
    pieces = [(to, one) for edge, to, one in encoder.port.sent if edge == encoder.layout.data]
    assert [one.kind for _, one in pieces] == [Kind.DATA] * 2 + [Kind.PARITY] * 2
    assert len({to for to, _ in pieces}) == 4
    whole = unpack(pieces[1][1].arrays[0])
    assert whole is not None and whole.key.row == 2
    assert encoder.sent(encoder.layout.punctuation)[-1].meta["blocks"] == 2


def test_the_end_of_a_window_fills_its_row(encoder: Encoder) -> None:
    encoder.sender.send(block(1, Kind.PUNCTUATION))
    data = [one for one in encoder.sent(encoder.layout.data) if one.kind == Kind.DATA]
    assert [unpack(one.arrays[0]) is None for one in data] == [False, True]
    assert data[1].arrays[0] is PAD


def test_a_row_that_nothing_comes_for_is_filled_once_it_has_been_silent(encoder: Encoder) -> None:
    encoder.sender.send(block(1))
    assert encoder.port.alarms[-1] == pytest.approx(LINGER_S)
    encoder.port.clock += LINGER_S
    for owner in encoder.alarms.due():
        owner()  # type: ignore[operator]
    assert len(encoder.sent(encoder.layout.data)) == 4


def test_a_row_waits_for_links_that_are_full_by_bytes(encoder: Encoder) -> None:
    """Else its pieces are skipped, and come only when the decoder has asked for them."""
    encoder.port.heavy = set(encoder.layout.processors)
    assert not encoder.sender.send(block(1)) and not encoder.sent(encoder.layout.data)
    encoder.port.heavy = {encoder.layout.processors[1]}
    assert encoder.sender.send(block(1)) and encoder.sender.send(block(2))
    assert {to for edge, to, _ in encoder.port.sent if edge == encoder.layout.data}.isdisjoint(encoder.port.heavy)
    assert len(encoder.sent(encoder.layout.data)) == 3, "a row has k + r pieces, and there are three places for them"
    (word,) = [one for one in encoder.sent(encoder.layout.punctuation) if "participants" in one.meta]
    assert len(word.meta["participants"]) == 3


def test_what_is_safe_is_forgotten_and_the_rest_kept_for_the_decoders_next_life(encoder: Encoder) -> None:
    for number in range(1, 7):
        encoder.sender.send(block(number))
    word = Block(Kind.ACK, Epoch(first_row(1) + 2), meta={"safe": 4})
    assert encoder.sender.admits(word)
    encoder.sender.on_block(encoder.layout.commit, C, word)
    assert [one.key.row for one in encoder.sender.kept] == [5, 6]
    assert not encoder.sender.admits(Block(Kind.ACK, Epoch(first_row(1) + 2), meta={"safe": 7})), "six were sent"
    assert not encoder.sender.admits(Block(Kind.ACK, Epoch(first_row(1) + 9), meta={"safe": 4})), "no such row"
    encoder.sender.on_worker_failed(C)
    assert not encoder.sender.kept
    encoder.port.sent.clear()
    encoder.sender.send(block(5))
    assert encoder.sent(encoder.layout.punctuation)[0].epoch == first_row(1) + 3, "rows go on where they were"


def test_only_so_many_rows_are_under_way() -> None:
    encoder = Encoder(window=8)
    numbers = [number for number in range(1, 20) if encoder.sender.send(block(number))]
    assert numbers == list(range(1, 9)), "half of a window of 8, in rows of two"
    encoder.sender.on_block(encoder.layout.commit, C, Block(Kind.ACK, Epoch(first_row(1) + 1), meta={"safe": 2}))
    assert encoder.sender.send(block(9)) and encoder.sender.send(block(10)) and not encoder.sender.send(block(11))


def test_what_is_to_be_sent_again_waits_for_room(encoder: Encoder) -> None:
    """Links may be full of large blocks, though nobody died."""
    for number in (1, 2):
        encoder.sender.send(block(number))
    layout, whole = encoder.layout, len(encoder.sent(encoder.layout.data))
    encoder.port.rooms |= dict.fromkeys(layout.processors, 0)
    question = Block(Kind.RESEND, Epoch(first_row(1) + 1), meta={"pieces": [[0, 1]]})
    encoder.sender.on_block(layout.commit, layout.partner, question)
    sent = []
    for room in (0, 1, 1):
        encoder.port.rooms[layout.processors[3]] = room
        encoder.sender.flush()
        sent.append(encoder.port.sent_on(layout.data)[whole:])
    assert [len(pieces) for pieces in sent] == [0, 1, 1]
    assert [(to, piece.key.s_index) for to, piece in sent[1]] == [(layout.processors[3], 1)]
    assert encoder.sent(layout.punctuation)[-1].meta == {"moved": [(0, 1, str(layout.processors[3]), 1)]}


def test_words_wait_for_room_in_their_order(encoder: Encoder) -> None:
    """A decoder that lacks one waits for the row for ever."""
    layout, decoder = encoder.layout, encoder.layout.partner
    encoder.sender.send(block(1))
    encoder.port.rooms[decoder] = 0
    encoder.sender.send(block(2))
    question = Block(Kind.RESEND, Epoch(first_row(1) + 1), meta={"pieces": [[0, 1]]})
    encoder.sender.on_block(layout.commit, decoder, question)
    assert len(encoder.sent(layout.punctuation)) == 1, "where the stream begins"
    for _ in range(3):
        encoder.port.rooms[decoder] = 1
        encoder.sender.flush()
    _, word, moved = encoder.sent(layout.punctuation)
    assert word.meta["blocks"] == 2 and [piece[:2] for piece in moved.meta["moved"]] == [(0, 1)]


def test_a_word_that_waits_dies_with_its_decoder(encoder: Encoder) -> None:
    encoder.sender.send(block(1))
    encoder.port.rooms[C] = 0
    encoder.sender.send(block(2))
    encoder.port.kill(C)
    encoder.sender.on_worker_failed(C)
    encoder.port.sent.clear()
    encoder.port.restart(C)
    encoder.port.rooms[C] = 64
    encoder.sender.flush()
    assert not encoder.port.sent
    encoder.sender.send(block(1))
    encoder.sender.flush()
    assert [one.epoch - first_row(1) for one in encoder.sent(encoder.layout.punctuation)] == [1], "where it goes on"


def test_a_decoder_that_is_down_gets_nothing(encoder: Encoder) -> None:
    encoder.port.up.discard(C)
    assert not encoder.sender.send(block(1)) and not encoder.port.sent


def test_each_owner_of_an_alarm_is_woken_at_its_time() -> None:
    port = FakePort(layout_of(processor(0)))
    alarms, woken = Alarms(port), []
    first, second = (lambda: woken.append("first")), (lambda: woken.append("second"))
    AlarmedPort(port, alarms, first).alarm(2.0)
    AlarmedPort(port, alarms, second).alarm(1.0)
    assert port.alarms[-1] == 1.0
    port.clock += 1.0
    assert alarms.due() == [second] and port.alarms[-1] == pytest.approx(1.0)
    port.clock += 1.0
    assert alarms.due() == [first] and alarms.due() == []


@pytest.mark.parametrize(
    ("me", "sender", "message", "complaint"),
    [
        (A, C, Block(Kind.ACK, Epoch(1), meta={"safe": 1}), ""),
        (A, C, Block(Kind.ACK, Epoch(1), meta={"avoided": ["x.0"]}), "no processors"),
        (A, C, Block(Kind.RESEND, Epoch(1), meta={"pieces": "all"}), "odd fields"),
        (C, A, Block(Kind.PUNCTUATION, Epoch(1), meta={"moved": [], "begin": True}), ""),
        (C, A, Block(Kind.PUNCTUATION, Epoch(1), meta={"begin": True}), "odd fields"),
        (C, F, Block(Kind.RESULT, Epoch(1), Key(1, 1, 0, 0), meta={"of": 2}), "another pair"),
        (F, A, Block(Kind.DATA, Epoch(1), Key(0, 0, 0, 0), 3, (np.zeros((2, 1), np.uint8),)), "odd fields"),
        (D, C, Block(Kind.DATA, Epoch(1), Key(0, 0, 1, 0), 1, (np.zeros((1, 2)),)), "without its cause"),
    ],
)
def test_only_what_an_honest_worker_of_the_segment_writes_gets_in(
    me: WorkerId, sender: WorkerId, message: Block, complaint: str
) -> None:
    gate = TaskGate(Layout.of(TOPOLOGY, me))
    assert sender in gate.workers
    check = gate.checks[edge_of(gate, Layout.of(TOPOLOGY, me), sender, message)]
    if not complaint:
        check(sender, message)
        return
    with pytest.raises(FrameError, match=complaint):
        check(sender, message)
