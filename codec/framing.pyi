"""Writes and reads the wire form of a block (codec/header.py), which each message goes through twice."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block
from riprap.codec.header import Fetch, Header, Refer

def encode(header: Header, block: Block, refer: Refer | None = None) -> tuple[bytes, list[np.ndarray]]:
    """The header frame and the arrays to send behind it, contiguous and little-endian.

    `refer` names arrays that need not be sent, by a few numbers and strings; None for those that must be.
    Raises ValueError when an array has a dtype or size that the wire does not carry.
    """

def decode(header: bytes, frames: Sequence[Any], fetch: Fetch | None = None) -> tuple[Header, Block]:
    """Check a message and wrap its frames as arrays, without a copy.

    `frames` are objects with the buffer protocol, and `fetch` returns one for a reference and a number of bytes; it is
    given what came, unchecked, and raises FrameError. The arrays are read-only where the buffers are.
    Raises FrameError for anything that `encode` cannot have written.
    """
