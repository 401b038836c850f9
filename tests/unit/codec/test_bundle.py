"""Bundles: what is put in comes out block by block, and all else is a FrameError."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from dumb_header import ATTACHED, BY_REFERENCE, Fields, write_bundle
from hypothesis import given
from hypothesis import strategies as st
from test_header import blocks

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import (
    BUNDLE_BLOCKS_MAX,
    BUNDLE_BYTES_MAX,
    SMALL_BYTES_MAX,
    Bundle,
    Header,
    decode_bundle,
    encode,
    is_bundle,
)  # fmt: skip
from riprap.codec.ids import Epoch, Incarnation, Seq

PREFIX = Header("job", "source.0", Incarnation(1), 0).prefix
FIELDS = Fields()  # one float64 matrix of 2 x 3
BYTES = 48


def piece(number: int, array: np.ndarray | None = None, meta: dict[str, Any] | None = None) -> Block:
    arrays = (np.full((2, 3), number, float) if array is None else array,)
    return Block(Kind.DATA, Epoch(3), Key(0, 0, 1, number), 2, arrays, meta={"window": 3} if meta is None else meta)


def there_and_back(sent: list[Block]) -> list[Block]:
    bundle = Bundle(PREFIX)
    for block in sent:
        assert bundle.add(block, block.seq)
    assert bundle.count == len(sent)
    header, frames = bundle.take()
    assert bundle.count == 0 and is_bundle(header, PREFIX)
    return decode_bundle(header, frames)


def same(one: Block, other: Block) -> None:
    for name in ("kind", "epoch", "key", "items", "meta", "seq"):
        assert getattr(one, name) == getattr(other, name)
        assert repr(getattr(one, name)) == repr(getattr(other, name)), "a bool is not the number that it equals"
    assert (one.attachment is None) == (other.attachment is None)
    arrays = zip([*one.arrays, one.attachment], [*other.arrays, other.attachment], strict=True)
    for mine, its in arrays:
        if mine is not None and its is not None:
            assert mine.dtype == its.dtype and mine.shape == its.shape and mine.tobytes() == its.tobytes()


@given(st.lists(blocks(), max_size=5), st.randoms(use_true_random=False))
def test_what_fits_comes_out_as_it_was_put_in(found: list[Block], rng: random.Random) -> None:
    bundle, sent = Bundle(PREFIX), []
    for block in (rng.choice(found) for _ in range(12 if found else 0)):
        if bundle.add(block, block.seq):
            sent.append(block)
    if sent:
        for one, other in zip(decode_bundle(*bundle.take()), sent, strict=True):
            same(one, other)


def test_blocks_of_one_form_and_of_changing_forms() -> None:
    flat, empty, odd = np.arange(6.0), np.zeros((0, 3)), np.arange(3, dtype=np.uint8)
    number = np.array(7.0)
    for forms in ([None] * 9, [None, None, flat, flat, None, None, None], [None, None, None, empty, empty, None, None],
                  [odd] * 5, [number] * 5, [None, None, odd, None, None, odd, odd]):  # fmt: skip
        sent = [piece(i, array) for i, array in enumerate(forms)]
        for one, other in zip(there_and_back(sent), sent, strict=True):
            same(one, other)


def test_each_block_has_a_meta_of_its_own() -> None:
    metas: list[dict[str, Any]] = [{"window": 1}, {"window": 1}, {"window": True}, {"window": 1.0}, {"x": [1]}, {}]
    sent = [piece(i, meta=meta) for i, meta in enumerate(metas)]
    got = there_and_back(sent)
    for one, other in zip(got, sent, strict=True):
        same(one, other)
    got[0].meta["window"] = 9
    assert got[1].meta == {"window": 1}


def test_what_was_put_in_may_change_afterwards() -> None:
    bundle, block = Bundle(PREFIX), piece(1)
    bundle.add(block, 1)
    block.arrays[0][:] = 0
    block.meta["window"] = 4
    bundle.add(block, 2)
    first, second = decode_bundle(*bundle.take())
    assert (first.arrays[0] == 1).all() and first.meta == {"window": 3} and first.seq == 1
    assert (second.arrays[0] == 0).all() and second.meta == {"window": 4} and second.seq == 2


def test_a_bundle_takes_small_blocks_and_not_too_many() -> None:
    bundle = Bundle(PREFIX)
    assert not bundle.add(piece(1, np.zeros(SMALL_BYTES_MAX // 8 + 1)), 1)
    assert not bundle.add(piece(1, meta={"x": "y" * 1000}), 1)
    assert [bundle.add(piece(i), i) for i in range(BUNDLE_BLOCKS_MAX + 1)] == [True] * BUNDLE_BLOCKS_MAX + [False]
    bundle.take()
    large, fit = np.zeros(SMALL_BYTES_MAX // 8), BUNDLE_BYTES_MAX // SMALL_BYTES_MAX
    assert [bundle.add(piece(i, large), i) for i in range(fit + 1)] == [True] * fit + [False]
    assert len(bundle.take()[1][0]) == BUNDLE_BYTES_MAX
    with pytest.raises(ValueError, match="the wire carries"):
        bundle.add(piece(1, np.zeros(1, complex)), 1)
    assert bundle.count == 0


def test_a_lone_block_is_no_bundle() -> None:
    header, frames = encode(Header("job", "source.0", Incarnation(1), 0), piece(1))
    assert not is_bundle(header, PREFIX)
    with pytest.raises(FrameError):
        decode_bundle(header, frames)


def refused(header: bytes, frames: list[Any], words: str) -> None:
    with pytest.raises(FrameError, match=words):
        decode_bundle(header, frames)


def test_what_no_bundle_can_have_written() -> None:
    sound = write_bundle([FIELDS, FIELDS])
    assert len(decode_bundle(sound, [bytes(2 * BYTES)])) == 2
    for count in (0, BUNDLE_BLOCKS_MAX + 1, 65535):
        refused(write_bundle([FIELDS, FIELDS], count), [bytes(2 * BYTES)], "odd number of blocks")
    refused(write_bundle([FIELDS, FIELDS], 1), [bytes(BYTES)], "bytes behind a bundle")
    refused(write_bundle([FIELDS, FIELDS], 3), [bytes(3 * BYTES)], "cut short")
    refused(write_bundle([FIELDS.but(flags=ATTACHED, arrays=[], count=0)]), [], "bad attachment")
    for frames in ([], [bytes(BYTES)], [bytes(2 * BYTES - 1)]):
        refused(sound, frames, "payload shorter")
    refused(sound, [bytes(2 * BYTES + 8)], "bytes behind a bundle")
    for odd in ([bytes(BYTES), bytes(BYTES)], [b""], [bytes(BUNDLE_BYTES_MAX + 8)]):
        refused(sound, odd, "odd payload")
    refused(write_bundle([FIELDS.but(references=[[1]])]), [bytes(BYTES)], "reference in a bundle")
    refused(write_bundle([FIELDS.but(arrays=[(0, 2 | BY_REFERENCE, [2, 3])])]), [bytes(BYTES)], "payload shorter")
    for lengths in ([2**63, 2], [2**32, 2**32], [2**62, 8]):
        refused(write_bundle([FIELDS.but(arrays=[(0, 2, lengths)])]), [bytes(BYTES)], "payload shorter")
    for end in range(len(PREFIX), len(sound)):
        with pytest.raises(FrameError):
            decode_bundle(sound[:end], [bytes(2 * BYTES)])


def test_random_bytes_never_raise_anything_else() -> None:
    rng, taken = random.Random(5), 0
    plain = [FIELDS.but(meta={"window": 3}), FIELDS.but(arrays=[(4, 1, [3])]), FIELDS, FIELDS]
    sound, payload = write_bundle(plain), bytes(3 * BYTES + 24)
    assert len(decode_bundle(sound, [payload])) == 4
    for _ in range(30_000):
        header = bytearray(sound)
        for _ in range(rng.randint(1, 3)):
            header[rng.randrange(len(PREFIX), len(header))] = rng.choice((0, 1, 2, 3, 48, 127, 128, 255))
        try:
            got = decode_bundle(bytes(header), [payload])
        except FrameError:
            continue
        taken += 1
        assert sum(array.nbytes for block in got for array in (*block.arrays, block.attachment) if array is not None)
    assert taken > 1_000


def test_seq_is_that_of_the_link_not_the_block_s() -> None:
    bundle, block = Bundle(PREFIX), piece(1)
    block.seq = Seq(7)
    bundle.add(block, 8)
    assert decode_bundle(*bundle.take())[0].seq == 8
