"""The wire form of blocks: everything that `encode` writes is read back, and all else is a FrameError."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from dumb_header import ATTACHED, BY_REFERENCE, META, REFERENCES, Fields, read, write
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import (
    COUNT_MAX,
    DIMENSIONS_MAX,
    EDGE_MAX,
    FRAMES_MAX,
    HEADER_BYTES_MAX,
    META_KEYS_MAX,
    NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    ROUND_MAX,
    VERSION,
    Header,
    decode,
    encode,
    header_of,
    prefix_of,
)  # fmt: skip
from riprap.codec.ids import Epoch, Incarnation, Round, Seq

DTYPES = ["<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1"]
COUNTS = st.integers(0, COUNT_MAX)
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=DIMENSIONS_MAX, min_side=0, max_side=5)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(dtype, SHAPES))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)
META_VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))
METAS = st.dictionaries(st.text(max_size=5), META_VALUES, max_size=META_KEYS_MAX)
NAMES = st.text(max_size=64).filter(lambda name: len(name.encode()) <= NAME_BYTES_MAX)
ROUNDS = st.integers(0, ROUND_MAX).map(Round)
HEADERS = st.builds(Header, NAMES, NAMES, COUNTS.map(Incarnation), st.integers(0, EDGE_MAX), ROUNDS)


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


@given(HEADERS, blocks())
@settings(deadline=None)
def test_the_layout_is_as_described(header: Header, block: Block) -> None:
    packed, _ = encode(header, block)
    fields = read(packed)
    assert write(fields) == packed
    assert Header(fields.job.decode(), fields.sender.decode(), *named(fields)) == header
    assert fields.counts == [block.seq, block.epoch, *block.key, block.items]
    assert (fields.kind, fields.flags & ATTACHED) == (block.kind, int(block.attachment is not None))
    arrays = [*block.arrays, *([] if block.attachment is None else [block.attachment])]
    assert [(DTYPES[code], lengths) for code, _, lengths in fields.arrays] == [
        (a.dtype.str, [*a.shape]) for a in arrays
    ]
    assert (fields.meta or {}) == block.meta


def named(fields: Fields) -> tuple[Incarnation, int, Round]:
    return Incarnation(fields.incarnation), fields.edge, Round(fields.round)


@given(HEADERS, blocks(), blocks())
@settings(deadline=None, max_examples=20)
def test_all_headers_of_a_link_begin_alike(header: Header, one: Block, other: Block) -> None:
    prefixes = {prefix_of(encode(header, block)[0]) for block in (one, other)}
    assert prefixes == {header.prefix} and header_of(header.prefix) == header
    for changed in ({"job": "j"}, {"sender": "s"}, {"incarnation": 7}, {"edge": 7}, {"round": 7}):
        changed_header = header._replace(**changed)
        assert (changed_header.prefix == header.prefix) == (changed_header == header)


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


@pytest.mark.parametrize("name", ["job", "sender"])
def test_names_and_numbers_that_no_header_carries(name: str) -> None:
    for text in ("x" * (NAME_BYTES_MAX + 1), "\u20ac" * 22):
        with pytest.raises(ValueError, match="at most 64 bytes"):
            encode(HEADER._replace(**{name: text}), Block(Kind.DATA, Epoch(1)))
    for changed in ({"edge": EDGE_MAX + 1}, {"edge": -1}, {"round": ROUND_MAX + 1}, {"round": -1}):
        with pytest.raises(ValueError, match="32 bits"):
            encode(HEADER._replace(**changed), Block(Kind.DATA, Epoch(1)))
    for block in (Block(Kind.DATA, Epoch(-1)), Block(Kind.DATA, Epoch(1), items=COUNT_MAX + 1)):
        with pytest.raises(ValueError, match="no count"):
            encode(HEADER, block)


HEADER = Header("job", "source.0", Incarnation(1), 0)
FIELDS = Fields()
FRAME = bytes(48)


def refused(fields: Fields, frames: Any = (FRAME,), words: str | None = None) -> None:
    with pytest.raises(FrameError, match=words):
        decode(write(fields), frames)


def test_the_fields_below_are_sound() -> None:
    _, block = decode(write(FIELDS), (FRAME,))
    assert block.arrays[0].shape == (2, 3) and FIELDS.version == VERSION
    _, block = decode(write(FIELDS.but(meta={"of": 4})), (FRAME,))
    assert block.meta == {"of": 4}


def test_another_version_is_named() -> None:
    fields = [1, "job", "source.0", 1, 0, int(Kind.DATA), 1, 1, [0, 0, 0, 0], 2, False, [["<f8", [2, 3]]], {}]
    with pytest.raises(FrameError, match="protocol version 1, not 3"):
        decode(msgpack.packb(fields), (FRAME,))
    refused(FIELDS.but(version=2), words="protocol version 2, not 3")
    for version in {*range(256)} - {2, VERSION, 0x9D}:
        refused(FIELDS.but(version=version), words="another protocol version")


def test_a_count_out_of_range() -> None:
    for place in range(7):
        for count in (COUNT_MAX + 1, 2**63, 2**64 - 1):
            counts = [*FIELDS.counts[:place], count, *FIELDS.counts[place + 1 :]]
            refused(FIELDS.but(counts=counts), words="a count is out of range")
        decode(write(FIELDS.but(counts=[*FIELDS.counts[:place], COUNT_MAX, *FIELDS.counts[place + 1 :]])), (FRAME,))
    refused(FIELDS.but(incarnation=COUNT_MAX + 1), words="a count is out of range")


@pytest.mark.parametrize("bit", range(1, 8))
def test_spare_bytes_and_flags_are_zero(bit: int) -> None:
    refused(FIELDS.but(spare=1 << bit))
    refused(FIELDS.but(body_spare=1 << bit))
    refused(FIELDS.but(flags=1 << bit))  # a flag that nobody knows, or one whose part is not there


def test_names_that_are_too_long_or_no_text() -> None:
    for name in (b"x" * 65, b"\xff\xfe", b"\xe2\x82"):
        refused(FIELDS.but(job=name), words="short strings")
        refused(FIELDS.but(sender=name), words="short strings")


@pytest.mark.parametrize(
    "lengths",
    [[6, 2**64 - 1], [2**62, 2**62, 2**62, 2**62], [2**61], [2**32, 2**32], [2**31, 2**33], [2, 4], [48], []],
)
def test_a_shape_that_does_not_fit(lengths: list[int]) -> None:
    refused(FIELDS.but(arrays=[(0, len(lengths), lengths)]), words="shape")


@pytest.mark.parametrize("lengths", [[0, 2**62], [2**62, 0], [2**40, 2**40, 0], [0, 2**31, 2**31], [0, 2**64 - 1]])
def test_an_empty_shape_may_not_overflow_either(lengths: list[int]) -> None:
    refused(FIELDS.but(arrays=[(0, len(lengths), lengths)]), (b"",), "over the size limit")


def test_a_dtype_or_a_number_of_dimensions_that_is_not_listed() -> None:
    for code in (*range(len(DTYPES), 256, 7), 255):
        refused(FIELDS.but(arrays=[(code, 2, [2, 3])]), words="unknown dtype")
    for dimensions in range(DIMENSIONS_MAX + 1, 128):
        refused(FIELDS.but(arrays=[(0, dimensions, [1] * dimensions)]), words="too many dimensions")


@pytest.mark.parametrize("frames", [(), (FRAME, FRAME), (FRAME[:-1],), (FRAME + b"0",), (b"",)])
def test_wrong_numbers_and_sizes_of_frames(frames: tuple[bytes, ...]) -> None:
    refused(FIELDS, frames)


def test_references_that_are_not_as_many_as_named() -> None:
    named = FIELDS.but(arrays=[(0, BY_REFERENCE + 2, [2, 3])])
    fetched: list[Any] = []

    def fetch(reference: list[Any], nbytes: int) -> bytes:
        fetched.append((reference, nbytes))
        return FRAME

    decode(write(named.but(references=[[1, 2]])), (), fetch)
    assert fetched == [([1, 2], 48)]
    for references in (None, [], [[1], [2]], {}, 5, "x", [5], [None], [{}]):
        with pytest.raises(FrameError):
            decode(write(named.but(references=references)), (), fetch)
    refused(named.but(references=[[1, 2]]), (), "where none is expected")
    refused(FIELDS.but(references=[[1, 2]]))


@pytest.mark.parametrize(
    "meta", [{}, [], 5, None, "x", {str(i): 0 for i in range(META_KEYS_MAX + 1)}, {b"bytes": 0}, {7: 0}]
)
def test_a_meta_that_is_no_small_map(meta: Any) -> None:
    packed = write(FIELDS.but(flags=META)) + msgpack.packb(meta)
    with pytest.raises(FrameError):
        decode(packed, (FRAME,))


def test_kinds_arities_and_too_many_of_anything() -> None:
    for kind in (0, *range(max(Kind) + 1, 256)):
        refused(FIELDS.but(kind=kind), words="unknown kind")
    many = [(0, 1, [1])] * (FRAMES_MAX + 1)
    refused(FIELDS.but(arrays=many, count=FRAMES_MAX + 1), (bytes(8),) * (FRAMES_MAX + 1), "too many arrays")
    refused(FIELDS.but(arrays=[], count=0, flags=ATTACHED), ())
    for count in (0, 2, 16, 17, 255):
        refused(FIELDS.but(count=count))
    with pytest.raises(FrameError, match="bytes behind"):
        decode(write(FIELDS) + b"\0", (FRAME,))


def test_every_cut_is_refused() -> None:
    sound = FIELDS.but(arrays=[(0, 2, [2, 3]), (0, BY_REFERENCE + 1, [6])], count=2, references=[[1]], meta={"of": 4})
    packed = write(sound)
    decode(packed, (FRAME,), lambda reference, nbytes: FRAME)
    for length in range(len(packed)):
        with pytest.raises(FrameError):
            decode(packed[:length], (FRAME,), lambda reference, nbytes: FRAME)


TAIL = write(FIELDS.but(flags=META))
NAMED = write(FIELDS.but(flags=REFERENCES, arrays=[(0, BY_REFERENCE, [])]))


@pytest.mark.parametrize(
    "tail",
    [
        b"", b"\xc1", b"\x91" * 60_000, b"\x81\xa1a" * 20_000,  # nesting as deep as a header can be
        b"\x9d" + b"\x91" * 60_000, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xdd\x0f\xff\xff\xff" + b"\xc0" * 60_000,
        b"\xd6\xff\x00\x00\x00\x00", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x01\x00", b"\xa2\xff\xfe", b"\x93\x01",
        b"\x81\x90\x01", b"\x81\x01\x01", msgpack.packb({"of": 4}) + b"\x00", bytes(HEADER_BYTES_MAX + 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("front", ["", "meta", "references"])
def test_bytes_that_are_no_header_cost_no_memory(tail: bytes, front: str) -> None:
    length = struct.pack("<H", min(len(tail), 2**16 - 1))
    packed = {"": b"", "meta": TAIL, "references": NAMED + length}[front] + tail
    tracemalloc.start()
    with pytest.raises(FrameError):
        decode(packed, (FRAME,))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 32 * HEADER_BYTES_MAX


def test_the_biggest_claim_that_is_true_costs_no_memory() -> None:
    """Empty arrays may claim large shapes; none of it is allocated."""
    fields = FIELDS.but(arrays=[(6, 2, [0, PAYLOAD_BYTES_MAX])] * FRAMES_MAX, count=FRAMES_MAX)
    tracemalloc.start()
    _, block = decode(write(fields), [b""] * 16)
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
    original = write(FIELDS.but(meta={"cause": [0, 1, 2, 3], "of": 4}))
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


ODD = [None, True, -1, -(2**63), 2**62 + 1, 2**64 - 1, 1.0, float("nan"), float("inf"), "", "x", b"x", [], [[]], {}]


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
    return [structure(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 4, 13)))]


def test_random_structures_are_refused_or_read() -> None:
    rng = random.Random(2)
    read_ones = 0
    for _ in range(5_000):
        packed = TAIL + msgpack.packb(structure(rng))
        with contextlib.suppress(FrameError):
            _, block = decode(packed, (FRAME,))
            assert block.meta and all(isinstance(name, str) for name in block.meta)
            read_ones += 1
        refused(FIELDS.but(references=structure(rng), arrays=[(0, BY_REFERENCE + 2, [2, 3])]), ())
    assert 0 < read_ones < 2_500
