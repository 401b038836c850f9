"""Looks at the memory of arrays and segments, many times a message."""

from typing import Any

import numpy as np

from riprap.codec.blocks import Block
from riprap.engine.wire.borrowed import Borrowed

def origin_of(array: Any) -> Any:
    """The object at the bottom of views of views: who owns the memory."""

def address_of(array: np.ndarray) -> int:
    """The address of its first element."""

def largest_of(block: Block) -> int:
    """Bytes of the largest of a block's arrays, the attachment among them; 0 where there are none."""

def are_current(segments: dict[bytes, Borrowed]) -> bool:
    """True when each lender still counts on this incarnation (Borrowed.is_current)."""
