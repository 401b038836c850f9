"""The decoder of packed blocks: each goes on when those before it have, whole or computed from what was decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_port import FakePort
from task_parts import FIRST
from test_packed_encoder import TOPOLOGY, A, C, block

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.codes import load_code
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.alarms import Alarms
from riprap.engine.flow.layout import Layout
from riprap.engine.spreads.decoder import PackedDecoder
from riprap.engine.spreads.encoder import first_row
from riprap.engine.spreads.packing import computed, pack, pack_result
from riprap.operators.dataflow import DataflowOperator, Emitter, Items

K = 2


class Doubled(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send([items.arrays[0] * 2], items.count)
        return items.count


class Decoding:
    """The receiving end of c.0, in the middle of whose links f computes."""

    def __init__(self) -> None:
        (segment,) = (one for one in Layout.of(TOPOLOGY, C).segments if one.decodes)
        self.layout, self.port = segment.layout, FakePort(segment.layout)
        self.alarms = Alarms(self.port)
        self.decoder = PackedDecoder(segment, self.port, self.alarms, Doubled(), "a")
        self.begin()

    def begin(self, life: int = 1) -> list[Block]:
        return self.take(self.layout.punctuation, A, Block(Kind.PUNCTUATION, first_row(life), meta=dict(BEGIN)))

    def take(self, edge: Any, sender: WorkerId, message: Block) -> list[Block]:
        assert self.decoder.admits(message)
        return self.decoder.on_block(edge, sender, message)

    def result(self, row: int, place: int, made: Block | None) -> list[Block]:
        """What the coded stage made of a piece; None of an empty one."""
        message = Block(Kind.RESULT, Epoch(FIRST + row), Key(0, 0, 0, place), 8, pack_result(made), meta={"of": K})
        return self.take(self.layout.result, WorkerId("f", place), message)

    def word(self, row: int) -> list[Block]:
        meta = {"blocks": K, "participants": {f"f.{i}": 1 for i in range(4)}, "active": 4}
        return self.take(self.layout.punctuation, A, Block(Kind.PUNCTUATION, Epoch(FIRST + row), meta=meta))


BEGIN = {"moved": [], "begin": True}


def doubled(number: int) -> Block:
    return computed(Doubled(), block(number), "a")


@pytest.fixture
def decoding() -> Decoding:
    return Decoding()


def numbers(through: list[Block]) -> list[int]:
    return [one.key.row for one in through]


def test_results_go_on_in_the_order_of_the_encoder_without_waiting_for_their_row(decoding: Decoding) -> None:
    assert numbers(decoding.result(1, 0, doubled(1))) == [1]
    assert decoding.result(2, 0, doubled(3)) == [] and decoding.result(2, 1, doubled(4)) == []
    through = decoding.result(1, 1, doubled(2))
    assert numbers(through) == [2, 3, 4] and [one.seq for one in through] == [2, 3, 4]
    assert through[0].arrays[0].tolist() == (block(2).arrays[0] * 2).tolist()
    assert not decoding.decoder._held, "what has gone on is not kept"


def test_an_empty_piece_stands_for_no_block(decoding: Decoding) -> None:
    end = computed(Doubled(), block(1, Kind.PUNCTUATION), "a")
    assert decoding.result(1, 1, None) == []
    (through,) = decoding.result(1, 0, end)
    assert through.kind == Kind.PUNCTUATION and numbers(decoding.result(2, 0, doubled(2))) == [2]


def test_what_is_decoded_is_computed_here_and_counted_in_items(decoding: Decoding) -> None:
    pieces = [pack(block(1)), pack(block(2, Kind.PUNCTUATION))]
    longest = max(map(len, pieces))
    parities = load_code("gf256", K, 2).encode(pieces)
    meta = {"of": K, "counts": [len(piece) for piece in pieces]}
    decoding.word(1)
    for place, worker in enumerate(decoding.layout.processors[:2], start=K):
        coded = Block(Kind.PARITY, Epoch(FIRST + 1), Key(0, 0, 0, place), arrays=(parities[place - K],), meta=meta)
        assert len(coded.arrays[0]) == longest and decoding.take(decoding.layout.result, worker, coded) == []
    through: list[Block] = []
    for worker in decoding.layout.processors:
        decoding.port.kill(worker)
        through += decoding.decoder.on_worker_failed(worker)
    assert [one.kind for one in through] == [Kind.DATA, Kind.PUNCTUATION]
    assert through[0].arrays[0].tolist() == (block(1).arrays[0] * 2).tolist()
    assert decoding.port.counts["decoded_items"] == decoding.port.counts["recomputed_items"] == 2, "no bytes, no ends"


def test_a_further_life_of_the_encoder_begins_at_its_own_first_row(decoding: Decoding) -> None:
    decoding.result(1, 1, doubled(2))
    decoding.port.kill(A)
    assert decoding.decoder.on_worker_failed(A) == [] and not decoding.decoder._held
    decoding.port.restart(A)
    decoding.begin(life=2)
    assert decoding.result(1, 0, doubled(1)) == [], "of the life before"
    late = first_row(2) - FIRST + 1
    assert numbers(decoding.result(late, 0, doubled(1))) == [1]


def test_bytes_that_no_worker_writes_stop_the_worker(decoding: Decoding) -> None:
    message = Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 0), 8, (np.ones(3),), meta={"of": K})
    with pytest.raises(AssertionError, match=f"row {FIRST + 1} of f"):
        decoding.take(decoding.layout.result, WorkerId("f", 0), message)


def test_words_of_rows_of_items_are_refused(decoding: Decoding) -> None:
    meta = {"blocks": K, "participants": {"f.0": 1}, "active": 1, "heads": [[]]}
    assert not decoding.decoder.admits(Block(Kind.PUNCTUATION, Epoch(FIRST + 1), meta=meta))
