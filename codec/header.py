"""The wire form of a block: a msgpack header frame, then one raw little-endian frame per array that travels itself.

Nothing from the network is trusted: `decode` (codec/framing.pyi) checks every field and the size of every frame, and
raises FrameError, never anything else. Layout of the header, a msgpack array (positions, not names, to keep it short):

    version, job, sender, incarnation, edge, round, kind, seq, epoch, (source, sink, row, s_index), items, attached,
    [(dtype, shape), ...], meta

An array that the receiver can reach by itself has no frame; its entry is (dtype, shape, reference) then, and what the
reference means is not this file's business (engine/wire/sharing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.ids import Incarnation

VERSION = 2
HEADER_BYTES_MAX = 64 * 1024  # a punctuation names every participant: about 30 bytes each
FRAMES_MAX = 16  # arrays of one block
DIMENSIONS_MAX = 4
PAYLOAD_BYTES_MAX = 256 * 1024 * 1024
META_KEYS_MAX = 16
COUNT_MAX = 2**62

CODES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
CARRIED = frozenset(map(np.dtype, CODES))
"""The dtypes that the wire carries."""


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
