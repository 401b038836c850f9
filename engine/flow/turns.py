"""The order in which a task takes what comes on its links: one turn for each block, of whichever link it was.

Two incarnations that take the same blocks in the same order put out the same, under the same numbers. So a task says
with what it puts out which turns it has taken, its receivers keep that, and its next incarnation takes turns in the
order that it learns from them (Clonos: causal logs of what does not follow from the input).
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from riprap.codec.errors import FrameError

TURN_BYTES = 2
"""A turn is the number of a link among those of its task."""
PLAIN_BYTES = 64
"""More than that is deflated."""
PACKED_BYTES_MAX = 48 << 10
"""A header has room for so much."""
TURNS_MAX = 1 << 20
"""A block tells of so many."""
PLACE_MAX = 1 << 62


class Turns:
    """A part of that order: the turns from `start` to `end`, counted from the task's beginning."""

    def __init__(self, start: int = 0, turns: bytes = b"") -> None:
        self.start = start
        self._turns = bytearray(turns)

    @property
    def end(self) -> int:
        """The number of turns up to the end of this part."""
        return self.start + len(self._turns) // TURN_BYTES

    def note(self, link: int) -> None:
        """A further turn, of this link."""
        self._turns += link.to_bytes(TURN_BYTES, "little")

    def behind(self, place: int) -> bytes:
        """The turns behind the first `place` of all."""
        return bytes(self._turns[TURN_BYTES * max(0, place - self.start) :])

    def forget(self, place: int) -> None:
        """Those up to there are needed no more."""
        del self._turns[: TURN_BYTES * max(0, place - self.start)]
        self.start = max(self.start, place)

    def extend(self, place: int, turns: bytes) -> None:
        """The turns behind a place, of which some may be known; those before a gap are worth nothing."""
        if place > self.end:
            self.start = place
            self._turns.clear()
        self._turns += turns[TURN_BYTES * (self.end - place) :]

    def links(self, place: int) -> list[int]:
        """The links whose turn it is behind a place."""
        return np.frombuffer(self.behind(place), "<u2").tolist()


def pack(place: int, turns: bytes) -> list[Any]:
    """Turns behind a place, as a field of a block. Too many are left out: then there is a gap."""
    packed = turns if len(turns) <= PLAIN_BYTES else zlib.compress(turns, 1)
    if len(packed) > PACKED_BYTES_MAX or len(turns) > TURN_BYTES * TURNS_MAX:
        return [place + len(turns) // TURN_BYTES, 0, b""]
    return [place, len(turns) // TURN_BYTES, packed]


def unpack(packed: Any) -> tuple[int, bytes]:
    """Inverse of `pack`. FrameError for what it did not make."""
    match packed:
        case [int(place), int(count), bytes(turns)] if 0 <= place < PLACE_MAX and 0 <= count <= TURNS_MAX:
            if count * TURN_BYTES > PLAIN_BYTES:
                turns = _inflated(turns, count * TURN_BYTES)
            if len(turns) == count * TURN_BYTES:
                return place, turns
    raise FrameError("a block with odd turns")


def _inflated(packed: bytes, size: int) -> bytes:
    """So many bytes, if that is what was deflated; else some other number of them."""
    inflating = zlib.decompressobj()
    try:
        turns = inflating.decompress(packed, size + 1)
    except zlib.error as error:
        raise FrameError(f"turns that do not inflate: {error}") from None
    return turns if inflating.eof and not inflating.unused_data else b""
