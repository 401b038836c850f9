"""Debloating: what waits for a task is what a barrier waits behind, so as much may come as it processes in a while.

After the buffer debloating of Flink (FLIP-183), but at the receiver, which alone knows whether a block waited because
the task is slow, its own receivers included, or for what others owe: feedback, or the end of a loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from riprap.codec.ids import Incarnation, WorkerId
from riprap.engine.flow.entry import NOBODY, Entry
from riprap.engine.flow.progress import LinkKey

LEAST = 2
"""Blocks that may always wait: one is processed while the next is on its way."""
FIRST = 16
"""Blocks that may wait while it is not known how fast they are processed."""


@dataclass(slots=True)
class Flow:
    """One link in. Numbers are those of one connection."""

    sender: WorkerId | None = None
    incarnation: Incarnation = NOBODY
    done: int = 0
    """The last block that is processed."""
    timed: int = 0
    """The block whose time is taken; 0 for none."""
    came_at: float = 0.0
    before: int = 0
    """The last block that was processed when it came."""


class Backlog:
    """The blocks of each link that may wait here.

    One block of a link is timed at once, until it is processed, or for `target_s` if it is not by then. Where n were
    processed in t, the link flows at n / t, and in `target_s` as much as that allows may wait. What takes longer gets
    less room; what takes less time only ever gets more, as it may have been the sender that was slow. A link begins
    with little, for all of a window would be on its way before the first block is processed.
    """

    def __init__(self, target_s: float, most: int, now: Callable[[], float]) -> None:
        self._target_s, self._most, self._now = target_s, most, now
        self._flows: defaultdict[LinkKey, Flow] = defaultdict(Flow)
        self._room: dict[LinkKey, int] = {}
        """Of links that have less than a whole window."""

    def came(self, entry: Entry) -> int | None:
        """A block was let in; how many may come behind those before it, where it is the first."""
        flow = self._flows[entry.link]
        is_first = (flow.sender, flow.incarnation) != (entry.sender, entry.incarnation)
        if is_first:
            flow = self._flows[entry.link] = Flow(entry.sender, entry.incarnation, entry.seq - 1)
            self._room[entry.link] = min(FIRST, self._most)
        if not flow.timed:
            flow.timed, flow.came_at, flow.before = entry.seq, self._now(), flow.done
        return self._room[entry.link] if is_first else None

    def done(self, entry: Entry) -> int | None:
        """A block was processed; how many may come behind it: 0 for all that the window takes, None if that was so."""
        flow, link = self._flows[entry.link], entry.link
        if (flow.sender, flow.incarnation) != (entry.sender, entry.incarnation):
            return None
        flow.done = entry.seq
        before = self._room.get(link)
        if flow.timed:
            self._fit(link, flow)
        room = self._room.get(link, 0)
        return None if not room and before is None else room

    def pause(self) -> None:
        """The blocks that wait now wait for others."""
        for flow in self._flows.values():
            flow.timed = 0

    def _fit(self, link: LinkKey, flow: Flow) -> None:
        took = self._now() - flow.came_at
        if flow.done < flow.timed and took <= self._target_s:
            return
        flow.timed = 0
        fits = (flow.done - flow.before) * self._target_s / took if took > 0 else self._most
        room = int(fits if took > self._target_s else max(fits, self._room.get(link, self._most)))
        if room >= self._most:
            self._room.pop(link, None)
        else:
            self._room[link] = max(room, LEAST)
