"""The wire form of a block: a msgpack header frame, then one raw little-endian frame per array that travels itself.

Nothing from the network is trusted: `decode` checks every field and the size of every frame, and raises FrameError,
never anything else. Layout of the header, a msgpack array (positions, not names, to keep it short):

    version, job, sender, incarnation, edge, round, kind, seq, epoch, (source, sink, row, s_index), items, attached,
    [(dtype, shape), ...], meta

An array that the receiver can reach by itself has no frame; its entry is (dtype, shape, reference) then, and what the
reference means is not this file's business (engine/wire/sharing.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, Incarnation, Seq

VERSION = 2
HEADER_BYTES_MAX = 64 * 1024  # a punctuation names every participant: about 30 bytes each
FRAMES_MAX = 16  # arrays of one block
DIMENSIONS_MAX = 4
PAYLOAD_BYTES_MAX = 256 * 1024 * 1024
META_KEYS_MAX = 16
COUNT_MAX = 2**62

_CODES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
_DTYPES = {code: np.dtype(code) for code in _CODES}
_NAMES = {dtype: code for code, dtype in _DTYPES.items()}
CARRIED = frozenset(_NAMES)
"""The dtypes that the wire carries."""
_KINDS = {int(kind): kind for kind in Kind}


class Header(NamedTuple):
    """Who sent a block, on which edge; the block itself comes beside it."""

    job: str
    sender: str
    incarnation: Incarnation
    edge: int
    round: int = 0
    """Of the job: how often it was rolled back before this was sent."""


Refer = Callable[[np.ndarray], tuple[Any, ...] | None]
Fetch = Callable[[list[Any], int], Any]


def encode(header: Header, block: Block, refer: Refer | None = None) -> tuple[bytes, list[np.ndarray]]:
    """The header frame and the arrays to send behind it, contiguous and little-endian.

    `refer` names arrays that need not be sent, by a few numbers and strings; None for those that must be.
    Raises ValueError when an array has a dtype or size that the wire does not carry.
    """
    arrays = [*block.arrays] if block.attachment is None else [*block.arrays, block.attachment]
    if len(arrays) > FRAMES_MAX:
        raise ValueError(f"a block carries at most {FRAMES_MAX} arrays, not {len(arrays)}")
    shapes: list[tuple[Any, ...]] = []
    frames = []
    for i, array in enumerate(arrays):
        name = _NAMES.get(array.dtype)
        if name is None or array.ndim > DIMENSIONS_MAX:
            raise ValueError(f"array {i} is {array.dtype} with {array.ndim} dimensions; the wire carries {_CODES}")
        if _extent(array.shape) * array.itemsize > PAYLOAD_BYTES_MAX:
            raise ValueError(f"array {i} of shape {array.shape} is over the limit of {PAYLOAD_BYTES_MAX} bytes")
        contiguous = array.flags.c_contiguous
        reference = refer(array) if refer and contiguous else None
        if reference is not None:
            shapes.append((name, array.shape, reference))
            continue
        frames.append(array if contiguous else np.ascontiguousarray(array))
        shapes.append((name, array.shape))
    fields = (
        VERSION,
        *header,
        int(block.kind),
        block.seq,
        block.epoch,
        block.key,
        block.items,
        block.attachment is not None,
        shapes,
        block.meta,
    )
    packed = msgpack.packb(fields)
    if len(packed) > HEADER_BYTES_MAX:
        raise ValueError(f"a header of {len(packed)} bytes is over the limit of {HEADER_BYTES_MAX}")
    return packed, frames


def decode(header: bytes, frames: Sequence[Any], fetch: Fetch | None = None) -> tuple[Header, Block]:
    """Check a message and wrap its frames as arrays, without a copy.

    `frames` are objects with the buffer protocol, and `fetch` returns one for a reference and a number of bytes; it is
    given what came, unchecked, and raises FrameError. The arrays are read-only where the buffers are.
    Raises FrameError for anything that `encode` cannot have written.
    """
    fields = _unpack(header)
    _, job, sender, incarnation, edge, rounds, kind, seq, epoch, key, items, attached, shapes, meta = fields
    if not (isinstance(job, str) and isinstance(sender, str) and len(job) <= 64 and len(sender) <= 64):
        raise FrameError("job and sender must be short strings")
    _check_counts(incarnation, edge, rounds, seq, epoch, items)
    if kind.__class__ is not int or kind not in _KINDS:
        raise FrameError("unknown kind")
    if not isinstance(key, list) or len(key) != 4:
        raise FrameError("a key has four fields")
    _check_counts(*key)
    if attached.__class__ is not bool or not isinstance(shapes, list) or (attached and not shapes):
        raise FrameError("bad attachment or shapes")
    if not isinstance(meta, dict) or len(meta) > META_KEYS_MAX or not all(isinstance(name, str) for name in meta):
        raise FrameError("meta is a small map with string keys")
    arrays = _arrays(shapes, frames, fetch)
    attachment = arrays.pop() if attached else None
    block = Block(_KINDS[kind], Epoch(epoch), Key(*key), items, tuple(arrays), attachment, meta, Seq(seq))
    return Header(job, sender, Incarnation(incarnation), edge, rounds), block


def _unpack(header: bytes) -> list[Any]:
    if len(header) > HEADER_BYTES_MAX:
        raise FrameError("header over the size limit")
    try:
        fields = msgpack.unpackb(header, strict_map_key=True, max_ext_len=0)
    except Exception as error:  # msgpack raises many kinds; a stranger's bytes may provoke any
        raise FrameError(f"not msgpack: {error.__class__.__name__}") from None
    if not isinstance(fields, list) or len(fields) != 14:
        raise FrameError("a header has 14 fields")
    if fields[0].__class__ is not int or fields[0] != VERSION:
        raise FrameError("another protocol version")
    return fields


def _check_counts(*counts: Any) -> None:
    for count in counts:
        if count.__class__ is not int or not 0 <= count <= COUNT_MAX:
            raise FrameError("a count is missing or out of range")


def _arrays(shapes: list[Any], frames: Sequence[Any], fetch: Fetch | None) -> list[np.ndarray]:
    if len(shapes) > FRAMES_MAX:
        raise FrameError("too many arrays")
    arrays = []
    rest = iter(frames)
    for entry in shapes:
        if not isinstance(entry, list) or not 2 <= len(entry) <= 3:
            raise FrameError("a shape entry is (dtype, shape) or (dtype, shape, reference)")
        dtype, shape, size = _form(*entry[:2])
        view = memoryview(_fetched(entry[2], size, fetch) if len(entry) == 3 else _next(rest))
        if size != view.nbytes:
            raise FrameError("a frame's size is not that of its shape")
        arrays.append(np.frombuffer(view, dtype).reshape(shape) if size else np.empty(shape, dtype))
    if next(rest, None) is not None:
        raise FrameError("frames and shapes differ in number")
    return arrays


def _form(name: Any, shape: Any) -> tuple[np.dtype, list[int], int]:
    """The dtype and shape that an entry names, and how many bytes that is."""
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None or not isinstance(shape, list) or len(shape) > DIMENSIONS_MAX:
        raise FrameError("unknown dtype or too many dimensions")
    _check_counts(*shape)
    if _extent(shape) * dtype.itemsize > PAYLOAD_BYTES_MAX:
        raise FrameError("a shape over the size limit")
    return dtype, shape, math.prod(shape) * dtype.itemsize


def _next(frames: Iterator[Any]) -> Any:
    frame = next(frames, None)
    if frame is None:
        raise FrameError("frames and shapes differ in number")
    return frame


def _fetched(reference: Any, size: int, fetch: Fetch | None) -> Any:
    if fetch is None or not isinstance(reference, list):
        raise FrameError("a reference where none is expected")
    return fetch(reference, size)


def _extent(shape: Sequence[int]) -> int:
    """Elements, an empty dimension counting as 1: NumPy makes no array whose other dimensions overflow."""
    return math.prod([length or 1 for length in shape])
