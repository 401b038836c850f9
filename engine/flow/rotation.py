"""The discipline `ordered` of an inbox: an order that does not depend on when blocks happen to come (PPA III).

Window by window, the links in take turns of one block each; a link that has closed the window takes no more turns in
it. So whoever takes the same links' blocks takes them in the same order: another incarnation, and a copy elsewhere. A
block whose turn has not come waits, and nobody waits for a whole window.
"""

from __future__ import annotations

from collections.abc import Mapping

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.progress import LinkKey


class Rotation:
    """The turns of the links in: from the beginning of a window, or within it where some have closed it.

    `closed` has of each link the last window that it has closed.
    """

    def __init__(self, closed: Mapping[LinkKey, int]) -> None:
        self._closed = dict(sorted(closed.items()))
        self._begin()

    def _begin(self) -> None:
        window = min(self._closed.values(), default=0) + 1
        self._at, self._open = 0, [link for link, closed in self._closed.items() if closed < window]

    @property
    def turn(self) -> LinkKey | None:
        """The link of which the next block is due; None for a task without any."""
        return self._open[self._at] if self._open else None

    def note(self, block: Block) -> None:
        """The link whose turn it was has had it."""
        if block.kind == Kind.PUNCTUATION:
            self._closed[self._open.pop(self._at)] = block.epoch
        else:
            self._at += 1
        if not self._open:
            self._begin()
        elif self._at == len(self._open):
            self._at = 0
