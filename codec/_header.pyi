"""The header of a message in C; its layout stands in codec/header.py.

Reading raises FrameError for anything that no process of ours can have written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block

VERSION: int
HEADER_BYTES_MAX: int
"""A punctuation names every participant: about 30 bytes each."""
FRAMES_MAX: int
"""The most arrays of one block."""
DIMENSIONS_MAX: int
PAYLOAD_BYTES_MAX: int
META_KEYS_MAX: int
NAME_BYTES_MAX: int
"""The most bytes of the name of a job, or of a sender."""
COUNT_MAX: int
ROUND_MAX: int
EDGE_MAX: int
CODES: tuple[str, ...]
"""The dtypes that the wire carries; a header names one by its place here."""

def write_prefix(job: str, sender: str, incarnation: int, edge: int, round_: int) -> bytes:
    """The part that all headers of a link begin with. ValueError when a name or a number is out of bounds."""

def encode_behind(
    prefix: bytes, block: Block, refer: Callable[[np.ndarray], tuple[Any, ...] | None] | None = None
) -> tuple[bytes, list[np.ndarray]]:
    """See `codec.header.encode`; the prefix is one of `write_prefix`."""

def prefix_of(header: bytes) -> bytes:
    """The part that all headers of its link begin with: equal bytes mean the same link."""

def read_prefix(prefix: bytes) -> tuple[str, str, int, int, int]:
    """Job, sender, incarnation, edge and round, read from a prefix that `prefix_of` has returned."""

def decode_behind(header: bytes, frames: Sequence[Any], fetch: Callable[[list[Any], int], Any] | None = None) -> Block:
    """See `codec.header.decode`; the names in the prefix are not read."""
