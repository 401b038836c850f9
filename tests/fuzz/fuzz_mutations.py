"""Mutations of messages: of bytes, of what the bytes mean, of frames, of the sender."""

from __future__ import annotations

import random
from typing import Any

import msgpack
from fuzz_receiver import JOB, ROLES, Fields, Message, processor, read, write

from riprap.codec.blocks import Block, Kind
from riprap.codec.header import Header, encode
from riprap.codec.ids import Epoch, Incarnation, Seq
from riprap.engine.flow.intake import identity

EDGES_MAX = 17
NUMBERS = ("version", "spare", "edge", "round", "incarnation", "kind", "flags", "body_spare", "count")
COUNTS = (0, 1, 2, 3, 4, 5, 6, 7, 255, 1024, 2**31, 2**32 - 1, 2**53, 2**62, 2**62 + 1, 2**63, 2**64 - 1)
Array = tuple[int, int, list[int]]
META_NAMES = (
    "of", "counts", "window", "blocks", "participants", "active", "heads", "moved", "pieces", "safe", "begin",
    "avoided", "cause", "heard", "items", "last", "opened_at", "time", "x", "",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, 4, 5, 6, 7, 255, 1024, 1025, 2**20, 2**31, 2**32 - 1, 2**53, 2**62, 2**62 + 1, 2**63,
    2**64 - 1, -1, -(2**63), 0.5, float("nan"), float("inf"), "", "job", "source.0", "sink.0", "processor.0",
    "processor.5", "processor.99", "<f8", "<f4", "|u1", "O", b"", b"\xff", [], [[]], [0] * 4, [[0, 0]], [1, 1, 1, 1],
    [[0, 0, "processor.0", 1]], {}, {"processor.0": 1}, {"of": 4}, {"counts": [2]}, [[]], [0, 2],
    [1, 1, 0, 4, 0, 0, 1, 0, [0, 2]], [0, 0, True, 0, []], {"items": 1, "last": True, "opened_at": 1.5},
    msgpack.ExtType(5, b"x"),
)  # fmt: skip


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to four flips, cuts, insertions or overwritings."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, verb = rng.randrange(len(changed) + 1), rng.randrange(4)
        if verb == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif verb == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif verb == 2:
            changed[at:at] = rng.randbytes(rng.randint(1, 4))
        else:
            changed[at : at + 1] = rng.choice((b"\x00", b"\x7f", b"\x90", b"\xc0", b"\xcf", b"\xdd", b"\xdf", b"\xff"))
    return bytes(changed)


def mutate_structure(rng: random.Random, value: Any) -> Any:
    """The same structure with one thing in it, at any depth, replaced, repeated or taken away."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: its for key, its in value.items() if key != name}
        if rng.random() < 0.1:
            return value | {rng.choice(META_NAMES): rng.choice(ODD)}
        return value | {name: mutate_structure(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        verb = rng.randrange(12)
        middle = [] if verb == 0 else [value[at]] * 2 if verb == 1 else [mutate_structure(rng, value[at])]
        return [*value[:at], *middle, *value[at + 1 :]]
    if value.__class__ is int and rng.random() < 0.4:
        return min(max(0, value + rng.choice((-2, -1, 1, 2, 1000))), 2**64 - 1)
    return rng.choice(ODD)


def mutate_frames(rng: random.Random, frames: list[bytes]) -> list[bytes]:
    verb = rng.randrange(4)
    if verb == 0 or not frames:
        return [*frames, rng.randbytes(rng.choice((0, 8, 24)))]
    at = rng.randrange(len(frames))
    frame = frames[at]
    changed = [frame[:-1], frame * 2, frame + b"\x00" * 8, b""][rng.randrange(4)]
    return [*frames[:at], *([] if verb == 1 else [changed]), *frames[at + 1 :]]


def mutate(rng: random.Random, message: Message) -> Message:
    peer, header, frames = message
    verb = rng.randrange(10)
    if verb < 3:
        return peer, mutate_bytes(rng, header), frames
    if verb < 7:
        return peer, write(mutate_fields(rng, read(header))), frames
    if verb == 7:
        return peer, header, mutate_frames(rng, frames)
    if verb == 8:
        return rng.choice((b"", rng.randbytes(8), identity(processor(3), 1), mutate_bytes(rng, peer))), header, frames
    junk = rng.randbytes(rng.randrange(80)) if rng.random() < 0.5 else random_header(rng)
    return peer, junk, frames


def mutate_bundle(rng: random.Random, message: Message) -> Message:
    """A bundle that comes of another connection, or with bytes or frames changed."""
    peer, header, frames = message
    verb = rng.randrange(10)
    if verb == 0:
        return rng.choice((b"", identity(processor(3), 1))), header, frames
    if verb < 4:
        return peer, header, mutate_frames(rng, frames)
    return peer, mutate_bytes(rng, header), frames


def mutate_fields(rng: random.Random, fields: Fields) -> Fields:
    """One to three fields of a header changed; most often what the tasks get to see."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        verb = rng.randrange(10)
        if verb < 2:
            fields = fields.but(**{rng.choice(NUMBERS): rng.choice(COUNTS)})
        elif verb == 2:
            name = rng.choice(("job", "sender"))
            fields = fields.but(**{name: mutate_bytes(rng, getattr(fields, name))})
        elif verb < 6:
            counts, at = [*fields.counts], rng.randrange(7)
            counts[at] = rng.choice((*COUNTS, counts[at] + 1, counts[at] + 1000, max(0, counts[at] - 1)))
            fields = fields.but(counts=counts)
        elif verb == 6 and fields.arrays:
            fields = fields.but(arrays=mutate_arrays(rng, fields.arrays))
        elif verb == 7:
            fields = fields.but(references=rng.choice(ODD))
        else:
            fields = fields.but(meta=mutate_structure(rng, fields.meta or {}))
    return fields


def mutate_arrays(rng: random.Random, arrays: list[Array]) -> list[Array]:
    """The table of the arrays with one entry changed, doubled or taken away."""
    at, verb = rng.randrange(len(arrays)), rng.randrange(4)
    code, dimensions, lengths = arrays[at]
    if verb == 0 and lengths:
        lengths = [*lengths[:-1], rng.choice(COUNTS)]
    elif verb == 1:
        code = rng.randrange(12)
    elif verb == 2:
        dimensions = rng.choice((0, 1, 2, 3, 4, 5, 127, dimensions | 128))
    middle = [(code, dimensions, lengths)] * rng.choice((0, 1, 1, 2))
    return [*arrays[:at], *middle, *arrays[at + 1 :]]


def random_header(rng: random.Random) -> bytes:
    """Right as far as the names, then anything; now and then nests as deep as fits."""
    fields = Fields(job=JOB.encode(), meta=rng.choice(ODD), counts=[rng.choice(COUNTS) for _ in range(7)])
    if rng.random() < 0.1:
        return write(fields.but(meta=None, flags=2)) + bytes([rng.choice((0x91, 0x81, 0x9D))]) * rng.randrange(5000)
    return write(fields.but(kind=rng.randrange(11), count=rng.randrange(3)))


def random_answer(rng: random.Random) -> bytes:
    edge, sender = rng.randrange(EDGES_MAX), rng.choice(ROLES)
    block = Block(rng.choice(list(Kind)), Epoch(0), seq=Seq(rng.choice((0, 1, 2, 9, 2**62))))
    header = encode(Header(JOB, str(sender), Incarnation(rng.randrange(3)), edge), block)[0]
    return mutate(rng, (b"", header, []))[1]
