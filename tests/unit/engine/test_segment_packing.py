"""Blocks as bytes that can be coded: whole again after a loss that the code makes up for, refused when they are odd."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.codes import make_code
from riprap.codec.errors import FrameError, JobFailed
from riprap.codec.ids import Epoch
from riprap.engine.spreads.packing import PAD, computed, pack, pack_result, unpack, unpack_result
from riprap.operators.dataflow import DataflowOperator, Emitter, Items

ARRAYS = (
    np.arange(7, dtype=np.uint8),
    np.arange(6, dtype=np.float64).reshape(3, 2),
    np.zeros((0, 4), np.float32),
    np.array([True, False]),
    np.int64(5).reshape(()),
)
META = {"cause": [1, 2, 3, 4], "urgent": True}
DATA = Block(Kind.DATA, Epoch(3), Key(1, 2, 17, 400), 7, ARRAYS, meta=META)
END = Block(Kind.PUNCTUATION, Epoch(3), Key(1, 2, 18, 407), meta={"items": 7, "last": True, "opened_at": 1.5})


def assert_alike(found: Block | None, wanted: Block) -> None:
    assert found is not None
    assert (found.kind, found.epoch, found.key, found.items) == (wanted.kind, wanted.epoch, wanted.key, wanted.items)
    assert dict(found.meta) == wanted.meta
    for one, other in zip(found.arrays, wanted.arrays, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("block", [DATA, END], ids=["data", "punctuation"])
def test_a_block_comes_back_whole(block: Block) -> None:
    assert_alike(unpack(pack(block)), block)
    assert_alike(unpack_result(pack_result(block)), block)


def test_a_piece_without_a_block_is_none() -> None:
    assert unpack(PAD) is None
    assert unpack_result(pack_result(None)) is None


def test_what_was_lost_is_decoded_with_its_header() -> None:
    code, pieces = make_code("gf256", 2, 2), [pack(DATA), pack(END)]
    parity = code.encode(pieces)
    decoded = code.decode({2: parity[0], 3: parity[1]})
    assert_alike(unpack(decoded[0][: len(pieces[0])]), DATA)
    assert_alike(unpack(decoded[1][: len(pieces[1])]), END)


def test_odd_bytes_are_refused_and_nothing_else_is_raised() -> None:
    numbers, piece = random.Random(4), pack(DATA)
    for _ in range(3000):
        odd = piece.copy()
        for _ in range(numbers.randint(1, 4)):
            odd[numbers.randrange(len(odd)), 0] = numbers.randrange(256)
        odd = odd[: numbers.randint(8, len(odd))]
        try:
            unpack(odd)
        except FrameError:
            continue


class Doubled(DataflowOperator):
    def __init__(self, sends: int = 1) -> None:
        self.sends = sends

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        for _ in range(self.sends):
            out.send([items.arrays[0] * 2], items.count)
        return items.count


class Chooses(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send(items.arrays, items.count, to=1)
        return items.count


class FeedsBack(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.feed_back(items.arrays)
        return items.count


class Stops(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return 0


def test_what_is_computed_keeps_key_and_cause() -> None:
    made = computed(Doubled(), DATA, "before")
    assert (made.key, made.meta, made.items) == (DATA.key, META, 7)
    assert made.arrays[0].tolist() == (ARRAYS[0] * 2).tolist()
    assert computed(Doubled(), END, "before") is END


def test_a_block_of_which_nothing_is_sent_has_no_items() -> None:
    made = computed(Doubled(0), DATA, "before")
    assert (made.items, made.arrays, made.key) == (0, (), DATA.key)


@pytest.mark.parametrize("operator", [Doubled(2), Chooses(), FeedsBack(), Stops()], ids=lambda one: type(one).__name__)
def test_what_a_coded_stage_cannot_do_is_told(operator: Any) -> None:
    with pytest.raises(JobFailed, match=r"coded stage"):
        computed(operator, DATA, "before")
