"""A record: a worker's saved state or items, as bytes that are checked whenever they are read.

    magic 2 | kind 1 | zero 1 | name length 2 | zero 2 | body length 8 | fence 8 | sequence 8 | epoch 8 | header crc 4
    name (job/worker) | body | crc of name and body 4

All numbers are little-endian, all checksums crc32c. The header has a checksum of its own, so that a damaged body can be
skipped by its length. Of the body (body.py) nothing is known here: servers keep it as it is, and import no NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"RB"
HEADER = struct.Struct("<2sBxHxxQqqqI")
TAIL = struct.Struct("<I")
NAME_BYTES_MAX = 512
BODY_BYTES_MAX = 1 << 31
ORIGINS_KEPT = 16
"""Of a worker, without those that a later one covers: what was cut off by incarnations before the last so many is
overwritten long since."""
KINDS = ("state", "item", "fence", "forget", "checkpoint")


@dataclass(frozen=True)
class Record:
    """A saved record. A `state` supersedes the records of its epoch and of earlier ones, an `item` is one of an epoch's
    blocks. A `checkpoint` is a worker's part of the job's checkpoint of that number, kept until one is whole that
    needs it no more."""

    kind: str
    epoch: int
    sequence: int
    meta: dict[str, Any] = field(default_factory=dict)
    arrays: Sequence[np.ndarray] = ()


@dataclass(frozen=True)
class RestorePoint:
    """The point where a new incarnation goes on: the newest whole state, and items of later epochs in their order; or
    its part of the checkpoint that it asked for, as the state, and its parts of earlier ones as items.

    `dropped` names the damaged records left out; empty when there were none.
    """

    state: Record | None = None
    items: Sequence[Record] = ()
    dropped: str = ""


class Head(NamedTuple):
    """The header of a record on disk."""

    kind: str
    name: str
    fence: int
    sequence: int
    epoch: int


class Origin(NamedTuple):
    """The incarnation `by` went on from the records up to this one, by (fence, sequence): (0, 0) is none."""

    by: int
    fence: int
    sequence: int

    def cuts_off(self, record: tuple[int, int]) -> bool:
        """True of one of a former incarnation, by (fence, sequence), that it did not know."""
        return record[0] < self.by and record > (self.fence, self.sequence)

    def covers(self, other: Origin) -> bool:
        """True when this one cuts off all that the other does."""
        return self.by >= other.by and self[1:] <= other[1:]


def pack(head: Head, body: Sequence[Any]) -> list[Any]:
    """A record as the buffers that go to disk."""
    name = head.name.encode()
    length = sum(map(len, body))
    fields = (MAGIC, KINDS.index(head.kind), len(name), length, head.fence, head.sequence, head.epoch)
    start = HEADER.pack(*fields, 0)[:-4]
    crc = crc32c(name)
    for buffer in body:
        crc = crc32c(buffer, crc)
    return [start, TAIL.pack(crc32c(start)), name, *body, TAIL.pack(crc)]


def read_header(data: bytes | memoryview, offset: int) -> tuple[Head | None, int, int] | None:
    """The header at an offset: (head without its name, name length, record length); None when there is no whole one."""
    if offset + HEADER.size > len(data):
        return None
    magic, kind, name_length, length, fence, sequence, epoch, crc = HEADER.unpack_from(data, offset)
    if magic != MAGIC or crc != crc32c(bytes(data[offset : offset + HEADER.size - 4])):
        return None
    if kind >= len(KINDS) or name_length > NAME_BYTES_MAX or length > BODY_BYTES_MAX:
        return None
    total = HEADER.size + name_length + length + TAIL.size
    return Head(KINDS[kind], "", fence, sequence, epoch), name_length, total


def check(record: memoryview, name_length: int) -> tuple[str, memoryview] | None:
    """Name and body of a whole record, None when its checksum is wrong."""
    content = record[HEADER.size : len(record) - TAIL.size]
    (crc,) = TAIL.unpack_from(record, len(record) - TAIL.size)
    if crc32c(content) != crc:
        return None
    return bytes(content[:name_length]).decode(errors="replace"), content[name_length:]


def read(data: memoryview) -> tuple[Head, memoryview] | None:
    """Head and body of a record that takes up all of the data; None when it does not, or is damaged."""
    found = read_header(data, 0)
    if found is None or found[0] is None or found[2] != len(data):
        return None
    whole = check(data, found[1])
    return None if whole is None else (found[0]._replace(name=whole[0]), whole[1])
