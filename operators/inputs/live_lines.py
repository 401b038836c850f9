"""Lines of an input that has no length: the interface of its sources, and the cutting of lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from riprap.operators.inputs.raw_text import LF, split_lines

LINE_BYTES_MAX = 1 << 20
"""A longer line is dropped: it would have to be held whole before anything of it is known."""

Report = Callable[..., None]
"""Called with the name of an event and its fields."""
Places = Mapping[str, Any]
"""The places where reading goes on, by the name of a part of the input. Among changes, a part that is done is None."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines without their ends, and what has changed of the places by reading them; perhaps no line, only that."""

    text: np.ndarray
    offsets: np.ndarray
    places: Places

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.offsets) - 1


class LiveInput(Protocol):
    """An input that goes on. Nothing here waits, and lines that were taken are not handed out again by this object."""

    def go_to(self, places: Places) -> None:
        """Go on from there; called once, before anything is taken, where a former incarnation has read something."""

    def take(self, lines: int, nbytes: int, rest: bool) -> Lines | None:
        """At most `lines` of the lines that are there, of about `nbytes` bytes; None when there is nothing at present.

        `rest`: this is the end, so a line that has no newline counts as well.
        """


def lines_of(data: bytes, places: Places) -> Lines:
    """The lines of some text, none of them empty."""
    return Lines(*split_lines(np.frombuffer(data, np.uint8)), places)


def whole_bytes(data: bytes, lines: int) -> int:
    """The bytes of at most `lines` lines, with their newlines."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == LF)[:lines]
    return int(ends[-1]) + 1 if len(ends) else 0
