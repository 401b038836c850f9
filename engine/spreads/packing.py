"""A block as bytes that can be coded, and back; and the result that a coded stage makes of it.

    piece    uint8 (n, 1): the header's length (8 bytes), the header (msgpack), the arrays, each at a multiple of 8
    result   a header as an array, and the arrays themselves

Both carry all of the block, its key, cause and window among them, so that what is decoded is whole.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError, JobFailed
from riprap.codec.header import CARRIED, DIMENSIONS_MAX, FRAMES_MAX
from riprap.codec.ids import Epoch
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator, Items

ALIGNMENT = 8
PAD = np.zeros((ALIGNMENT, 1), np.uint8)
"""A piece without a block: fills a row that must not wait for more."""
DTYPES = {dtype.str: dtype for dtype in CARRIED}


def pack(block: Block) -> np.ndarray:
    """The piece that holds a block."""
    shapes = [[array.dtype.str, list(array.shape)] for array in block.arrays]
    header = msgpack.packb([*_fields(block), shapes])
    size = ALIGNMENT + _aligned(len(header))
    starts = []
    for array in block.arrays:
        starts.append(size)
        size += _aligned(array.nbytes)
    piece = np.zeros((size, 1), np.uint8)
    flat = piece[:, 0]
    flat[:ALIGNMENT] = np.frombuffer(len(header).to_bytes(ALIGNMENT, "little"), np.uint8)
    flat[ALIGNMENT : ALIGNMENT + len(header)] = np.frombuffer(header, np.uint8)
    for start, array in zip(starts, block.arrays):
        flat[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return piece


def unpack(piece: np.ndarray) -> Block | None:
    """The block in a piece, its arrays views of it; None where there is none. FrameError for anything else."""
    flat = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
    length = int.from_bytes(flat[:ALIGNMENT].tobytes(), "little")
    if not length:
        return None
    if length > len(flat) - ALIGNMENT:
        raise FrameError("a piece shorter than its header")
    *fields, shapes = _unpacked(flat[ALIGNMENT : ALIGNMENT + length], 6)
    at, arrays = ALIGNMENT + _aligned(length), []
    for dtype, shape in _checked_shapes(shapes):
        size = math.prod(shape) * dtype.itemsize
        if size > len(flat) - at:
            raise FrameError("a piece shorter than its arrays")
        arrays.append(flat[at : at + size].view(dtype).reshape(shape))
        at += _aligned(size)
    return _block(fields, arrays)


def pack_result(block: Block | None) -> tuple[np.ndarray, ...]:
    """The arrays of a result; None for that of a piece without a block."""
    if block is None:
        return ()
    return np.frombuffer(msgpack.packb(_fields(block)), np.uint8), *block.arrays


def unpack_result(arrays: tuple[np.ndarray, ...]) -> Block | None:
    """Inverse of `pack_result`; FrameError for anything else."""
    if not arrays:
        return None
    return _block(_unpacked(np.ascontiguousarray(arrays[0]).reshape(-1).view(np.uint8), 5), list(arrays[1:]))


class OneBlock:
    """Takes a coded stage's output: one block for each that it gets, or none."""

    def __init__(self) -> None:
        self.sent: tuple[tuple[np.ndarray, ...], int] | None = None

    def send(self, arrays: Any, count: int, to: int | None = None, stage: str | None = None) -> None:
        if self.sent is not None or to is not None:
            raise JobFailed(
                "a coded stage sends one block for each that it gets, and none to a task of its choice",
                "join what it sends, and choose tasks in the stage behind",
            )
        self.sent = returns.sent("out.send", arrays, count)

    def send_by_key(self, keys: Any, columns: Any = (), stage: str | None = None) -> None:
        raise JobFailed("a coded stage sends nothing by key", "send by key from the stage behind")

    def feed_back(self, arrays: Any, count: int = 1, to: int | None = None, stage: str | None = None) -> None:
        raise JobFailed("a coded stage feeds nothing back", "feed back from a stage that is not coded")

    @property
    def event_time(self) -> int | None:
        return None

    @property
    def promised(self) -> int | None:
        return None

    def watermark(self, at: int) -> None:
        raise JobFailed("a coded stage promises no watermark", "it passes on those of the stage before; promise there")

    def idle(self) -> None:
        raise JobFailed("a coded stage is not idle by itself", "say so in the stage before")

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        raise JobFailed("a coded stage writes no files", "write them in a stage that is not coded")


def computed(operator: DataflowOperator, block: Block, stage: str) -> Block:
    """A coded stage's result for a block: the same in every task and incarnation, so that it can be recomputed.

    `stage` is where the block is from. What is no data passes as it is. Where nothing is sent, the result has no items
    and no arrays.
    """
    if block.kind != Kind.DATA:
        return block
    items = Items(block.epoch, stage, block.key.source, block.items, block.arrays)
    if operator.prepares:
        items = returns.prepared(operator, operator.prepare(items), items)
    out = OneBlock()
    left = operator.process_data(items, 0, out)
    if returns.first_left(operator, left, 0, items.count) < items.count:
        raise JobFailed(f"{type(operator).__name__}.process_data left items", "a coded stage processes all of a block")
    arrays, count = out.sent or ((), 0)
    return Block(block.kind, block.epoch, block.key, count, arrays, meta=block.meta)


def _fields(block: Block) -> list[Any]:
    return [int(block.kind), block.epoch, list(block.key), block.items, block.meta]


def _block(fields: list[Any], arrays: list[np.ndarray]) -> Block:
    kind, epoch, key, items, meta = fields
    counts = [epoch, items, *key] if isinstance(key, list) else [-1]
    if not all(count.__class__ is int and count >= 0 for count in counts) or len(counts) != 6:
        raise FrameError("a packed block with odd counts")
    if kind not in (Kind.DATA, Kind.PUNCTUATION) or not isinstance(meta, dict):
        raise FrameError("a packed block of an odd kind")
    return Block(Kind(kind), Epoch(epoch), Key(*key), items, tuple(arrays), meta=meta)


def _unpacked(data: np.ndarray, length: int) -> list[Any]:
    try:
        fields = msgpack.unpackb(data.tobytes(), strict_map_key=True)
    except Exception as error:  # msgpack raises many kinds
        raise FrameError(f"a packed block is no msgpack: {error.__class__.__name__}") from None
    if not isinstance(fields, list) or len(fields) != length:
        raise FrameError("a packed block with odd fields")
    return fields


def _checked_shapes(shapes: Any) -> list[tuple[np.dtype, list[int]]]:
    if not isinstance(shapes, list) or len(shapes) > FRAMES_MAX:
        raise FrameError("a packed block with odd arrays")
    found = []
    for entry in shapes:
        dtype = DTYPES.get(entry[0]) if isinstance(entry, list) and len(entry) == 2 else None
        shape = entry[1] if dtype is not None else None
        if dtype is None or not isinstance(shape, list) or len(shape) > DIMENSIONS_MAX:
            raise FrameError("a packed block with odd arrays")
        if not all(length.__class__ is int and 0 <= length < 1 << 40 for length in shape):
            raise FrameError("a packed block with odd arrays")
        found.append((dtype, shape))
    return found


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
