"""Bundles: small blocks of one link in one message, one behind another; the layout stands in codec/header.py."""

from collections.abc import Sequence
from typing import Any

from riprap.codec.blocks import Block

BUNDLE_BLOCKS_MAX: int
BUNDLE_BYTES_MAX: int
"""Of the payload: half of a channel's ring, so that one is read while the next is written."""
SMALL_BYTES_MAX: int
"""The most payload of a block that travels in a bundle."""

class Bundle:
    """Takes blocks of a link until it is sent. What is put in is copied: blocks may change afterwards."""

    count: int
    """Blocks that are in it."""

    def __init__(self, prefix: bytes) -> None: ...
    def add(self, block: Block, seq: int) -> bool:
        """Put a block behind those that are in it; False when it is too large, or there is no room for it any more.
        ValueError when the wire does not carry it."""

    def take(self) -> tuple[bytes, list[bytes]]:
        """Header and frames of all that is in it; it is empty then."""

def is_bundle(header: bytes, prefix: bytes) -> bool:
    """True for the header of a bundle, False for that of a lone block; `prefix` is its own."""

def decode_bundle(header: bytes, frames: Sequence[Any]) -> list[Block]:
    """The blocks of a bundle, in order; their arrays are views of its one frame. FrameError for anything that a
    `Bundle` cannot have written."""
