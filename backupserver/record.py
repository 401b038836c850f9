"""A record: a worker's saved state or items, as bytes that are checked whenever they are read.

    magic 2 | kind 1 | zero 1 | name length 2 | zero 2 | body length 8 | fence 8 | sequence 8 | epoch 8 | header crc 4
    name (job/worker) | body | crc of name and body 4

All numbers are little-endian, all checksums crc32c. The header has a checksum of its own, so that a damaged body can be
skipped by its length. The body is a msgpack map (meta, dtypes, shapes) behind its length, and the arrays' raw bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack
import numpy as np
from crc32c import crc32c

from riprap.codec.errors import FrameError

MAGIC = b"RB"
HEADER = struct.Struct("<2sBxHxxQqqqI")
TAIL = struct.Struct("<I")
META = struct.Struct("<I")
NAME_BYTES_MAX = 512
META_BYTES_MAX = 1 << 22
BODY_BYTES_MAX = 1 << 31
KINDS = ("state", "item", "fence", "forget", "checkpoint")
DTYPES = frozenset(("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1"))


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


def pack_body(meta: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> list[Any]:
    """The body of a record as buffers, without copying arrays that are contiguous.

    ValueError for an array of a type that `unpack_body` would not take, and for a body that no server would.
    """
    flat = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in arrays]
    odd = [array.dtype for array in flat if array.dtype.str not in DTYPES]
    if odd:
        raise ValueError(f"a record holds arrays of {', '.join(sorted(DTYPES))}, not of {odd[0]}")
    head = msgpack.packb([meta, [[array.dtype.str, list(array.shape)] for array in flat]])
    size = META.size + len(head) + sum(array.nbytes for array in flat)
    if size > BODY_BYTES_MAX:
        raise ValueError(f"a record of {size} bytes is over the limit of {BODY_BYTES_MAX}")
    return [META.pack(len(head)), head, *(array.reshape(-1).view(np.uint8).data for array in flat if array.size)]


def unpack_body(body: memoryview) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Meta and arrays (views of the body); FrameError when it is not well formed."""
    try:
        (length,) = META.unpack_from(body)
        if not 0 < length <= META_BYTES_MAX or META.size + length > len(body):
            raise FrameError("the fields of a record are too long")
        meta, specs = msgpack.unpackb(body[META.size : META.size + length])
        offset, arrays = META.size + length, []
        for name, shape in specs:
            if name not in DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise FrameError(f"a record's array is of type {name!r} and shape {shape!r}")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            size = count * np.dtype(name).itemsize
            if offset + size > len(body):
                raise FrameError("a record is shorter than its arrays")
            arrays.append(np.frombuffer(body, name, count, offset).reshape(shape))
            offset += size
    except FrameError:
        raise
    except (ValueError, TypeError, struct.error, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"a record's fields cannot be read: {error}") from error
    if offset != len(body) or not isinstance(meta, dict):
        raise FrameError("a record is longer than its arrays, or its fields are no map")
    return meta, arrays


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
