"""The order of windows on what a task puts out, where that leads to a stage that waits for feedback.

Such a stage takes nothing of a window before the feedback that it needs has come, and a link keeps its order. So what
is of a later window must not stand before what is of an earlier one on its links, or it would wait for ever. Whoever
sends to it, by whatever way, takes nothing of a window on a link while another link may still bring an earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from riprap.codec.blocks import Kind
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.progress import LinkKey, TaskProgress


class WindowOrder:
    """Of one task with these data links in; `held` has what waits on each of them."""

    def __init__(
        self, links: Collection[LinkKey], progress: TaskProgress, held: Mapping[LinkKey, Sequence[Entry]]
    ) -> None:
        self._links, self._progress, self._held = links, progress, held

    def allows(self, link: LinkKey, window: int) -> bool:
        """True when no other link may bring anything of an earlier window."""
        return all(other == link or window <= self._least(other) for other in self._links)

    def skip(self) -> bool:
        """Take windows of which nothing can come any more for closed, all that was let in being processed; True when
        there are any. Their ends were taken in by an incarnation that is dead, whose scheme had not kept them."""
        passed = min(map(self._least, self._links)) - 1
        if passed <= self._progress.epoch:
            return False
        self._progress.closed |= {link: max(passed, self._progress.closed.get(link, 0)) for link in self._links}
        return True

    def _least(self, link: LinkKey) -> int:
        """The earliest window of which anything may come: who has lost the end of one waits for no more of it."""
        waiting = (entry.block.epoch for entry in self._held.get(link, ()) if entry.block.kind != Kind.BARRIER)
        return max(self._progress.closed.get(link, 0) + 1, next(waiting, 0))
