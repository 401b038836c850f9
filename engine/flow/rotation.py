"""The discipline `ordered` of an inbox: an order that does not depend on when blocks happen to come (PPA III).

Window by window, the links in take turns of one block each; a link that has closed the window takes no more turns in
it. So whoever takes the same links' blocks takes them in the same order: another incarnation, and a copy elsewhere. A
block whose turn has not come waits, and nobody waits for a whole window.
"""

from __future__ import annotations

from collections.abc import Sequence

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.progress import LinkKey


class Rotation:
    """Whose turn it is among the links in, from the beginning of a window."""

    def __init__(self, links: Sequence[LinkKey]) -> None:
        self._links = sorted(links)
        self._at, self._open = 0, list(self._links)

    @property
    def turn(self) -> LinkKey | None:
        """The link of which the next block is due; None for a task without any."""
        return self._open[self._at] if self._open else None

    def note(self, block: Block) -> None:
        """The link whose turn it was has had it."""
        if block.kind == Kind.PUNCTUATION:
            del self._open[self._at]
        else:
            self._at += 1
        if not self._open:
            self._at, self._open = 0, list(self._links)
        elif self._at == len(self._open):
            self._at = 0
