"""The discipline `ordered` of an inbox: an order that does not depend on when blocks happen to come (PPA V-B).

Window by window, the links in take turns of one block each; a link that has closed the window takes no more turns in
it. So whoever takes the same links' blocks takes them in the same order: another incarnation, and a copy elsewhere. A
block whose turn has not come waits, and nobody waits for a whole window. What was fed back comes in before the window
that waits for it, and no sooner.
"""

from __future__ import annotations

from collections.abc import Mapping

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.progress import LinkKey

NONE: Mapping[LinkKey, float] = {}


class Rotation:
    """The turns of the links in: from the beginning of a window, or within it where some have closed it.

    `closed` has of each link the last window that it has closed. `leads` has the links that feed back, and the windows
    that may run ahead of each: a window's turns begin with all that it may not begin without.
    """

    def __init__(self, closed: Mapping[LinkKey, int], leads: Mapping[LinkKey, float] = NONE) -> None:
        self._leads = leads
        self._closed = {link: self._reach(link, window) for link, window in sorted(closed.items())}
        self._begin()

    def _reach(self, link: LinkKey, closed: int) -> float:
        """The last window for which all has come on a link that has closed one."""
        return closed + 1 + self._leads[link] if link in self._leads else closed

    def _begin(self) -> None:
        window = min(self._closed.values(), default=0) + 1
        due = [link for link, closed in self._closed.items() if closed < window]
        self._at, self._open = 0, [link for link in due if link in self._leads] or due

    @property
    def turn(self) -> LinkKey | None:
        """The link of which the next block is due; None for a task without any."""
        return self._open[self._at] if self._open else None

    def has_closed(self, link: LinkKey, window: int) -> bool:
        """True when all of a window has come on a link, or counts as if it had."""
        return window <= self._closed[link]

    def note(self, block: Block) -> None:
        """The link whose turn it was has had it."""
        if block.kind == Kind.PUNCTUATION:
            link = self._open.pop(self._at)
            self._closed[link] = self._reach(link, block.epoch)
        else:
            self._at += 1
        if not self._open:
            self._begin()
        elif self._at == len(self._open):
            self._at = 0
