"""The wire form of a block: a header frame, then one raw little-endian frame per array that travels itself.

Nothing from the network is trusted: `decode` checks every field and the size of every frame, and raises FrameError,
never anything else. Layout of the header, little-endian, without gaps:

    prefix      version, bytes of job and of sender, 0  u8 each
                edge, round                             u32 each
                incarnation                             u64
                job, sender                             UTF-8
    body        kind, flags, arrays, 0                  u8 each
                seq, epoch, source, sink, row, s_index, items   u64 each
    per array   dtype, dimensions (+128: no frame)      u8 each
                each dimension                          u64
    references  their bytes (u16), a msgpack list       where a flag says so
    meta        a msgpack map, to the end               where a flag says so

Small blocks of a link may come as a bundle, one message in which each stands behind the one before it:

    prefix      as above
    mark        0, 0                                    u8 each
                number of blocks                        u16
    per block   bytes of what follows                   u16
                body, entries of its arrays, meta       as above, without references
    frame       all arrays, each at a multiple of 8     none where all are empty

All headers of a link begin with the same prefix: it is written once, and read once by who remembers what it said.
An array that the receiver can reach by itself has no frame but a reference, and what that means is not this file's
business (engine/wire/sharing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from riprap.codec._bundle import BUNDLE_BLOCKS_MAX, BUNDLE_BYTES_MAX, SMALL_BYTES_MAX, Bundle, decode_bundle, is_bundle
from riprap.codec._header import (
    CODES,
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
    decode_behind,
    encode_behind,
    prefix_of,
    read_prefix,
    write_prefix,
)  # fmt: skip
from riprap.codec.blocks import Block
from riprap.codec.ids import Incarnation, Round

__all__ = [
    "BUNDLE_BLOCKS_MAX", "BUNDLE_BYTES_MAX", "CARRIED", "COUNT_MAX", "DIMENSIONS_MAX", "EDGE_MAX", "FRAMES_MAX",
    "HEADER_BYTES_MAX", "META_KEYS_MAX", "NAME_BYTES_MAX", "PAYLOAD_BYTES_MAX", "ROUND_MAX", "SMALL_BYTES_MAX",
    "VERSION", "Bundle", "Header", "decode", "decode_behind", "decode_bundle", "encode", "encode_behind", "header_of",
    "is_bundle", "prefix_of",
]  # fmt: skip

CARRIED = frozenset(np.dtype(code) for code in CODES)
"""The dtypes that the wire carries."""


class Header(NamedTuple):
    """The sender of a block, the edge, and the round of the job; the block itself comes beside it."""

    job: str
    sender: str
    incarnation: Incarnation
    edge: int
    round: Round = Round(0)

    @property
    def prefix(self) -> bytes:
        """The bytes that all headers of this link begin with. ValueError when a name or a number is out of bounds."""
        return write_prefix(*self)


Refer = Callable[[np.ndarray], tuple[Any, ...] | None]
Fetch = Callable[[list[Any], int], Any]


def encode(header: Header, block: Block, refer: Refer | None = None) -> tuple[bytes, list[np.ndarray]]:
    """The header frame and the arrays to send behind it, contiguous and little-endian.

    `refer` names arrays that need not be sent, by a few numbers and strings; None for those that must be.
    Raises ValueError when an array has a dtype or size that the wire does not carry.
    """
    return encode_behind(header.prefix, block, refer)


def decode(header: bytes, frames: Sequence[Any], fetch: Fetch | None = None) -> tuple[Header, Block]:
    """Check a message and wrap its frames as arrays, without a copy.

    `frames` are objects with the buffer protocol, and `fetch` returns one for a reference and a number of bytes; it is
    given what came, unchecked, and raises FrameError. The arrays are read-only where the buffers are.
    Raises FrameError for anything that `encode` cannot have written.
    """
    return header_of(prefix_of(header)), decode_behind(header, frames, fetch)


def header_of(prefix: bytes) -> Header:
    """Read a prefix. FrameError when its names are no text."""
    job, sender, incarnation, edge, round_ = read_prefix(prefix)
    return Header(job, sender, Incarnation(incarnation), edge, Round(round_))
