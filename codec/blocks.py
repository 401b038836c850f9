"""The unit that moves: one message, a small header and arrays that hold many consecutive items."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.ids import Epoch, Seq

_nbytes = attrgetter("nbytes")


class Kind(IntEnum):
    """The purpose of a message."""

    __hash__ = int.__hash__  # in C; an enumeration's own is a call of Python for each message

    HELLO = 1
    """First message on a connected link: the sender's incarnation and its next sequence number."""
    DATA = 2
    """k of them make a stripe row; the array is one matrix of items, one item a row."""
    PARITY = 3
    """Coded from a row's data blocks; same shape as the longest of them."""
    RESULT = 4
    """A processor's result from one DATA block; may carry that block as its attachment."""
    PUNCTUATION = 5
    """A source has emitted the whole epoch; `meta` says how much and to whom."""
    FEEDBACK = 6
    """The sink's committed state of an epoch, for the processors."""
    ACK = 7
    """Backwards on a link: everything up to `seq` is safe, and `items` blocks behind it may come (0: a whole window);
    backwards from a sink: `epoch` is committed."""
    RESEND = 8
    """A sink asks its source for stripe rows that it cannot complete."""
    BARRIER = 10
    """Behind all items of a link that the checkpoint of its `epoch` includes, and before the rest (ABS)."""
    TENTATIVE = 11
    """Of a window from which some tasks' items are missing; the exact ones follow (PPA V-B)."""
    REPLY = 9
    """Against an edge: items received, told to a sender or by a receiver that starts."""


class Key(NamedTuple):
    """The key of a block's items (LEC III-A), with the stripe id counted in rows of stripes.

    `s_index` < k is data, >= k parity. `source` and `sink` are task indexes.
    """

    source: int
    sink: int
    row: int
    s_index: int


NO_KEY = Key(0, 0, 0, 0)
NO_SEQ = Seq(0)


@dataclass(slots=True, eq=False)
class Block:
    """One message.

    `arrays` are the payload; `attachment` is the data block that a RESULT was computed from, if it travels along.
    `items` counts the stream items that the block stands for. `meta` holds a few small fields of control messages.
    """

    kind: Kind
    epoch: Epoch
    key: Key = NO_KEY
    items: int = 0
    arrays: tuple[np.ndarray, ...] = ()
    attachment: np.ndarray | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    seq: Seq = NO_SEQ

    @property
    def nbytes(self) -> int:
        """Payload bytes, without the header."""
        attached = 0 if self.attachment is None else self.attachment.nbytes
        return sum(map(_nbytes, self.arrays)) + attached
