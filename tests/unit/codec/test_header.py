"""The wire form of blocks: everything that `encode` writes is read back, and all else is a FrameError."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.framing import decode, encode
from riprap.codec.header import (
    COUNT_MAX,
    DIMENSIONS_MAX,
    FRAMES_MAX,
    HEADER_BYTES_MAX,
    META_KEYS_MAX,
    PAYLOAD_BYTES_MAX,
    VERSION,
    Header,
)  # fmt: skip
from riprap.codec.ids import Epoch, Incarnation, Seq

DTYPES = ["<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1"]
COUNTS = st.integers(0, COUNT_MAX)
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=DIMENSIONS_MAX, min_side=0, max_side=5)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(dtype, SHAPES))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)
META_VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))
METAS = st.dictionaries(st.text(max_size=5), META_VALUES, max_size=META_KEYS_MAX)
HEADERS = st.builds(Header, st.text(max_size=64), st.text(max_size=64), COUNTS.map(Incarnation), COUNTS, COUNTS)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    arrays = tuple(draw(st.lists(ARRAYS, max_size=4)))
    return Block(
        draw(st.sampled_from(Kind)), Epoch(draw(COUNTS)), Key(*draw(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS))),
        draw(COUNTS), arrays, draw(st.none() | ARRAYS), draw(METAS), Seq(draw(COUNTS)),
    )  # fmt: skip


def through_wire(header: Header, block: Block) -> tuple[Header, Block]:
    packed, arrays = encode(header, block)
    return decode(packed, [array.tobytes() for array in arrays])


def same_array(got: np.ndarray, sent: np.ndarray) -> bool:
    return got.dtype == sent.dtype and got.shape == sent.shape and got.tobytes() == sent.tobytes()


@given(HEADERS, blocks())
@settings(deadline=None)
def test_any_block_is_read_as_it_was_written(header: Header, block: Block) -> None:
    got_header, got = through_wire(header, block)
    assert got_header == header
    for name in ("kind", "epoch", "key", "items", "meta", "seq"):
        assert getattr(got, name) == getattr(block, name), name
    assert len(got.arrays) == len(block.arrays)
    assert all(map(same_array, got.arrays, block.arrays))
    assert (got.attachment is None) == (block.attachment is None)
    assert block.attachment is None or same_array(got.attachment, block.attachment)
    assert got.nbytes == block.nbytes


def test_strided_arrays_are_made_contiguous_and_contiguous_ones_are_not_copied() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    block = Block(Kind.DATA, Epoch(1), arrays=(whole, whole[:, ::2], whole.T))
    packed, arrays = encode(HEADER, block)
    assert arrays[0] is whole
    _, got = decode(packed, [array.tobytes() for array in arrays])
    assert all(map(np.array_equal, got.arrays, block.arrays))


def test_decoding_wraps_the_frames_without_a_copy() -> None:
    packed, _ = encode(HEADER, Block(Kind.DATA, Epoch(1), arrays=(np.zeros(4),)))
    frame = bytearray(32)
    _, got = decode(packed, [frame])
    frame[:8] = np.float64(7).tobytes()
    assert got.arrays[0][0] == 7
    _, got = decode(packed, [bytes(32)])
    assert not got.arrays[0].flags.writeable


@pytest.mark.parametrize("dtype", [">f8", "f2", "i2", "c16", "O", "U3", "S3", "M8[s]", [("x", "f8")]])
def test_dtypes_that_the_wire_does_not_carry(dtype: Any) -> None:
    with pytest.raises(ValueError, match="the wire carries"):
        encode(HEADER, Block(Kind.DATA, Epoch(1), arrays=(np.zeros(2, dtype),)))


def test_limits_of_the_writer() -> None:
    one = np.zeros(1)
    huge = np.lib.stride_tricks.as_strided(one, (PAYLOAD_BYTES_MAX // 8 + 1,), (0,))
    absurd = np.empty((0, 2**40), "|u1")
    for arrays, words in (
        ((one.reshape(1, 1, 1, 1, 1),), "5 dimensions"), ((one,) * (FRAMES_MAX + 1), "at most 16 arrays"),
        ((huge,), "over the limit"), ((absurd,), "over the limit"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            encode(HEADER, Block(Kind.DATA, Epoch(1), arrays=arrays))
    with pytest.raises(ValueError, match="over the limit"):
        encode(HEADER, Block(Kind.RESEND, Epoch(1), meta={"pieces": list(range(HEADER_BYTES_MAX))}))


HEADER = Header("job", "source.0", Incarnation(1), 0)
FIELDS = [VERSION, "job", "source.0", 1, 0, 0, int(Kind.DATA), 1, 1, [0, 0, 0, 0], 2, False, [["<f8", [2, 3]]], {}]
FRAME = bytes(48)


def refused(fields: Any, frames: Any = (FRAME,)) -> None:
    with pytest.raises(FrameError):
        decode(msgpack.packb(fields), frames)


def test_the_fields_below_are_sound() -> None:
    _, block = decode(msgpack.packb(FIELDS), (FRAME,))
    assert block.arrays[0].shape == (2, 3)


ODD = [None, True, -1, -(2**63), 2**62 + 1, 2**64 - 1, 1.0, float("nan"), float("inf"), "", "x", b"x", [], [[]], {}]
LEGAL = {
    1: ("", "x"),
    2: ("", "x"),
    11: (True,),
    13: ({},),
    **dict.fromkeys((0, 3, 4, 5, 6, 7, 8, 9, 10, 12), ()),
}


@pytest.mark.parametrize("field", range(14))
def test_a_field_of_a_wrong_type_or_range(field: int) -> None:
    odd = [value for value in ODD if not any(value is legal or value == legal != 1 for legal in LEGAL[field])]
    assert len(odd) >= 12
    for value in odd:
        refused([*FIELDS[:field], value, *FIELDS[field + 1 :]])


@pytest.mark.parametrize(
    "shape",
    [
        [-2, -3],
        [6, -1],
        [2**62, 2**62, 2**62, 2**62],
        [2**61],
        [2**32, 2**32],
        [2**31, 2**33],
        [1, 1, 1, 1, 6],
        [2, 3.0],
        [2, "3"],
        [2, None],
        [2, True],
        [2, [3]],
        "23",
        {},
        6,
        None,
    ],
)
def test_a_shape_that_does_not_fit(shape: Any) -> None:  # fmt: skip
    refused([*FIELDS[:12], [["<f8", shape]], {}])


@pytest.mark.parametrize("shape", [[0, 2**62], [2**62, 0], [2**40, 2**40, 0], [0, 2**31, 2**31]])
def test_an_empty_shape_may_not_overflow_either(shape: list[int]) -> None:
    refused([*FIELDS[:12], [["<f8", shape]], {}], (b"",))


@pytest.mark.parametrize("dtype", ["O", "<f2", ">f8", "f8", "<c16", "S8", "", "<M8[s]", 8, None, ["<f8"], b"<f8", {}])
def test_a_dtype_that_is_not_listed(dtype: Any) -> None:
    refused([*FIELDS[:12], [[dtype, [2, 3]]], {}])


@pytest.mark.parametrize("frames", [(), (FRAME, FRAME), (FRAME[:-1],), (FRAME + b"0",), (b"",)])
def test_wrong_numbers_and_sizes_of_frames(frames: tuple[bytes, ...]) -> None:
    refused(FIELDS, frames)


def test_wrong_arities_and_too_many_of_anything() -> None:
    for fields in ([], FIELDS[:-1], [*FIELDS, 0], {"a": 1}, 5, None, "x"):
        refused(fields)
    for key in ([0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, -1], [0, 0, 0, 0.0], [0, 0, 0, 2**63]):
        refused([*FIELDS[:9], key, *FIELDS[10:]])
    refused([*FIELDS[:12], [["<f8", [1]]] * (FRAMES_MAX + 1), {}], (bytes(8),) * (FRAMES_MAX + 1))
    refused([*FIELDS[:13], {str(i): 0 for i in range(META_KEYS_MAX + 1)}])
    refused([*FIELDS[:13], {b"bytes": 0}])
    refused([*FIELDS[:11], True, [], {}], ())
    for name in (1, 2):
        refused([*FIELDS[:name], "x" * 65, *FIELDS[name + 1 :]])
    refused([VERSION + 1, *FIELDS[1:]])
    for kind in (0, max(Kind) + 1):
        refused([*FIELDS[:6], kind, *FIELDS[7:]])


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"\xc1", b"\x91" * 60_000, b"\x81\xa1a" * 20_000,  # nesting as deep as a header can be
        b"\x9d" + b"\x91" * 60_000, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xdd\x0f\xff\xff\xff" + b"\xc0" * 60_000,
        b"\xd6\xff\x00\x00\x00\x00", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x01\x00", b"\xa2\xff\xfe", b"\x93\x01",
        b"\x81\x90\x01", b"\x81\x01\x01", msgpack.packb(FIELDS) + b"\x00", bytes(HEADER_BYTES_MAX + 1),
    ],
)  # fmt: skip
def test_bytes_that_are_no_header_cost_no_memory(packed: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(FrameError):
        decode(packed, ())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 32 * HEADER_BYTES_MAX


def test_the_biggest_claim_that_is_true_costs_no_memory() -> None:
    """Empty arrays may claim large shapes; none of it is allocated."""
    tracemalloc.start()
    _, block = decode(msgpack.packb([*FIELDS[:12], [["|u1", [0, PAYLOAD_BYTES_MAX]]] * FRAMES_MAX, {}]), [b""] * 16)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert block.arrays[0].shape == (0, PAYLOAD_BYTES_MAX)
    assert peak_bytes < 1 << 20


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Flip a bit, cut, insert, double or overwrite: one to four times."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        verb = rng.randrange(5)
        if verb == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif verb == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif verb == 2:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
        elif verb == 3:
            changed[at : at + 1] = bytes([rng.choice((0x00, 0x7F, 0x80, 0x90, 0xC0, 0xCF, 0xD3, 0xDD, 0xDF, 0xFF))])
        else:
            changed[at:at] = changed[max(0, at - 6) : at]
    return bytes(changed)


def test_mutated_headers_are_read_or_refused_and_never_raise_anything_else() -> None:
    rng = random.Random(1)
    refusals = 0
    original = msgpack.packb(FIELDS)
    for case in range(20_000):
        mutated = mutate(rng, original)
        try:
            _, block = decode(mutated, (FRAME,))
        except FrameError:
            refusals += 1
        except Exception as error:
            raise AssertionError(f"case {case}: {mutated!r}") from error
        else:
            assert sum(array.nbytes for array in block.arrays) + getattr(block.attachment, "nbytes", 0) == len(FRAME)
    assert 10_000 < refusals < 20_000


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data, ())


def structure(rng: random.Random, depth: int = 0) -> Any:
    """Anything that msgpack can say, mostly small."""
    verb = rng.randrange(8 if depth > 3 else 11)
    if verb < 4:
        return rng.choice(ODD)
    if verb < 6:
        return rng.randint(-(2 ** rng.randrange(64)), 2 ** rng.randrange(65) - 1)
    if verb == 6:
        return rng.randbytes(rng.randrange(9))
    if verb == 7:
        return msgpack.ExtType(rng.randrange(128), rng.randbytes(rng.randrange(9)))
    if verb == 8:
        return {rng.choice(("a", "of", "", 7, b"x")): structure(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [structure(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 4, 14)))]


def test_random_structures_are_refused_or_read() -> None:
    rng = random.Random(2)
    read = 0
    for _ in range(5_000):
        refused([structure(rng) for _ in range(14)], ())
        place = rng.randrange(14)
        mixed = [*FIELDS[:place], structure(rng), *FIELDS[place + 1 :]]
        with contextlib.suppress(FrameError):
            decode(msgpack.packb(mixed), (FRAME,))
            read += 1
    assert 0 < read < 2_500


@given(HEADERS, blocks())
@settings(deadline=None)
def test_headers_are_written_as_msgpack_writes_them(header: Header, block: Block) -> None:
    arrays = [*block.arrays] if block.attachment is None else [*block.arrays, block.attachment]
    shapes = [(array.dtype.str, array.shape) for array in arrays]
    head = (VERSION, header.job, header.sender, header.incarnation, header.edge, header.round, int(block.kind))
    rest = (block.seq, block.epoch, block.key, block.items, block.attachment is not None, shapes, block.meta)
    assert encode(header, block)[0] == msgpack.packb((*head, *rest))


def test_references_are_read_as_they_were_written() -> None:
    asked: list[Any] = []

    def fetch(reference: list[Any], size: int) -> bytes:
        asked.append((reference, size))
        return bytes(size)

    block = Block(Kind.DATA, Epoch(1), arrays=(np.zeros((2, 3)), np.ones(2)))
    places = iter([("slot", 3, 2**64 - 1), None])
    packed, frames = encode(HEADER, block, lambda array: next(places))
    assert len(frames) == 1
    _, got = decode(packed, [frames[0].tobytes()], fetch)
    assert asked == [(["slot", 3, 2**64 - 1], 48)]
    assert got.arrays[0].shape == (2, 3) and got.arrays[1].tolist() == [1.0, 1.0]
    with pytest.raises(FrameError, match="reference"):
        decode(packed, [frames[0].tobytes()])
