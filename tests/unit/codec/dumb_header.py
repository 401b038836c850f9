"""The header of a message, read and written slowly from the layout in codec/header.py, with any fields at all."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

PREFIX, BODY = struct.Struct("<BBBBIIQ"), struct.Struct("<BBBB7Q")
ATTACHED, META, REFERENCES, BY_REFERENCE = 1, 2, 4, 128


@dataclass
class Fields:
    """One header. `arrays` are (dtype, dimensions, lengths); `references` and `meta` are left out where None."""

    version: int = 3
    spare: int = 0
    edge: int = 0
    round: int = 0
    incarnation: int = 1
    job: bytes = b"job"
    sender: bytes = b"source.0"
    kind: int = 2
    flags: int = 0
    body_spare: int = 0
    counts: list[int] = field(default_factory=lambda: [1, 1, 0, 0, 0, 0, 2])
    arrays: list[tuple[int, int, list[int]]] = field(default_factory=lambda: [(0, 2, [2, 3])])
    count: int = 1
    references: Any = None
    meta: Any = None

    def but(self, **changed: Any) -> Fields:
        """The same with other values."""
        return replace(self, **changed)


def write(fields: Fields) -> bytes:
    """The bytes of a header; numbers are cut to what their field holds."""
    names = fields.job[:255], fields.sender[:255]
    flags = fields.flags | (META if fields.meta is not None else 0)
    flags |= REFERENCES if fields.references is not None else 0
    prefix = fields.version & 255, len(names[0]), len(names[1]), fields.spare & 255
    parts = [PREFIX.pack(*prefix, *(n % 2**32 for n in (fields.edge, fields.round)), fields.incarnation % 2**64)]
    body = (number & 255 for number in (fields.kind, flags, fields.count, fields.body_spare))
    parts += [*names, BODY.pack(*body, *(count % 2**64 for count in fields.counts))]
    for code, dimensions, lengths in fields.arrays:
        parts.append(struct.pack(f"<BB{len(lengths)}Q", code & 255, dimensions & 255, *(n % 2**64 for n in lengths)))
    if fields.references is not None:
        named = msgpack.packb(fields.references)
        parts.append(struct.pack("<H", len(named)) + named)
    if fields.meta is not None:
        parts.append(msgpack.packb(fields.meta))
    return b"".join(parts)


def write_bundle(blocks: list[Fields], count: int | None = None) -> bytes:
    """The header of a bundle of these; the prefix is that of the first."""
    prefix_bytes = PREFIX.size + len(blocks[0].job[:255]) + len(blocks[0].sender[:255])
    parts = [write(blocks[0])[:prefix_bytes], struct.pack("<BBH", 0, 0, len(blocks) if count is None else count)]
    for block in blocks:
        entry = write(block)[prefix_bytes:]
        parts.append(struct.pack("<H", len(entry)) + entry)
    return b"".join(parts)


def read(header: bytes) -> Fields:
    """The fields of an honest header."""
    version, job_bytes, sender_bytes, spare, edge, round_, incarnation = PREFIX.unpack_from(header)
    at = PREFIX.size + job_bytes + sender_bytes
    kind, flags, count, body_spare, *counts = BODY.unpack_from(header, at)
    job, sender = header[PREFIX.size : at - sender_bytes], header[at - sender_bytes : at]
    at += BODY.size
    arrays = []
    for _ in range(count):
        code, dimensions = header[at], header[at + 1]
        lengths = struct.unpack_from(f"<{dimensions & 127}Q", header, at + 2)
        arrays.append((code, dimensions, list(lengths)))
        at += 2 + 8 * len(lengths)
    references = None
    if flags & REFERENCES:
        length = struct.unpack_from("<H", header, at)[0]
        references = msgpack.unpackb(header[at + 2 : at + 2 + length])
        at += 2 + length
    meta = msgpack.unpackb(header[at:]) if flags & META else None
    flags &= ~(META | REFERENCES)
    return Fields(
        version, spare, edge, round_, incarnation, job, sender,
        kind, flags, body_spare, counts, arrays, count, references, meta,
    )  # fmt: skip
