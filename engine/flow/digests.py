"""Digests of what a task puts out, by which its copies compare themselves.

A takeover is exact only where copies put out the same blocks under the same numbers. So each copy digests what it puts
out, and the end of a window carries the digests to the receiver. Who receives it tells them to the other copies of the
sender, and these compare. Receivers do it because they have a way back to all copies, and copies have none to each
other.

A message of each window would wake each copy for little, so windows that come fast are told of together: they are
compared TELL_S later at most, and slow ones as they come.

A digest goes on from the one of the block before it in the window, on the same link: so the last one is of all of them,
and where few are told, the first that differs bounds the place. What a copy has not put out itself, from the beginning
of the window on, it does not compare.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections import defaultdict, deque
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import LinkKey, number_of

POINTS_MAX = 64
"""Digests that are told of a window; of more blocks, those of every second one, every third, and so on."""
EARLY_MAX = 256
"""Windows of a link that may wait until a copy that lags has put them out; older ones are not compared."""
TELL_S = 0.05
"""The time from one message of digests on a link to the next, where windows come faster."""
NEWS_MAX = 64
"""Windows that such a message tells of at most."""
REMEDY = (
    "an operator under partially_active must compute the same from the same input: no clocks, unordered sets, or "
    "unseeded random numbers; see docs/schemes.md"
)


def points(blocks: int) -> list[int]:
    """The blocks of a window, counted from 1, whose digests are told: evenly spread, and the last one."""
    step = -(-blocks // POINTS_MAX)
    return [*range(step, blocks, step), blocks]


def are_digests(told: Any) -> bool:
    """True for what `Trail.told` returns: a number of blocks, at least 1, and 4 bytes for each of its points."""
    match told:
        case [int(blocks), bytes(digests)] if blocks.__class__ is int and blocks > 0:
            return len(digests) == 4 * len(points(blocks))
    return False


def are_news(news: Any) -> bool:
    """True for windows, at least one, each with digests as `are_digests` has them."""
    if not isinstance(news, list) or not 0 < len(news) <= NEWS_MAX:
        return False
    for entry in news:
        match entry:
            case [int(window), told] if window.__class__ is int and window > 0 and are_digests(told):
                continue
        return False
    return True


class DigestNews:
    """The digests that a receiver has to tell, of windows that have come on a link from one copy of a task."""

    def __init__(self, sender: WorkerId) -> None:
        self.sender = sender
        self._windows: list[list[Any]] = []
        self._told_at = -math.inf

    def add(self, window: int, told: list[Any]) -> None:
        """A window has come, with these digests."""
        self._windows.append([window, told])

    def due(self, now: float) -> bool:
        """True when it is time to tell of them."""
        return now >= self._told_at + TELL_S or len(self._windows) == NEWS_MAX

    def taken(self, now: float) -> list[list[Any]]:
        """Windows with their digests, which are told now."""
        windows, self._windows, self._told_at = self._windows, [], now
        return windows


class Trail:
    """The blocks that a task has put out on a link within a window; its end is the last of them."""

    def __init__(self) -> None:
        self.last = 0
        """The last one's number on the link."""
        self._digest = self._count = 0
        self._digests, self._items = array("I"), array("Q", [0])

    def add(self, block: Block) -> None:
        """A further block."""
        form, items = "" if block.kind == Kind.DATA else _end(block), block.items
        for payload in block.arrays:
            form += f"{payload.dtype.kind}{payload.itemsize}{payload.shape}"
        digest = crc32c(f"{items} {form}".encode(), self._digest)
        for payload in block.arrays:
            digest = crc32c(np.ascontiguousarray(payload).data, digest)
        self._digest, self._count, self.last = digest, self._count + items, number_of(block)
        self._digests.append(digest)
        self._items.append(self._count)

    def told(self) -> list[Any]:
        """As a field of a block."""
        blocks = len(self._digests)
        digests = [self._digests[point - 1] for point in points(blocks)]
        return [blocks, struct.pack(f"<{len(digests)}I", *digests)]

    def difference(self, told: list[Any]) -> str:
        """The first place where another copy's digests differ, in words; empty where none does."""
        blocks, own = told[0], len(self._digests)
        digests = struct.unpack(f"<{len(told[1]) // 4}I", told[1])
        for (before, point), digest in zip(pairwise([0, *points(blocks)]), digests, strict=True):
            if point > own or self._digests[point - 1] != digest:
                return self._place(min(before + 1, own), min(point, own))
        return "" if blocks == own else self._place(own, own)

    def _place(self, first: int, last: int) -> str:
        start, end = self._items[first - 1], self._items[last]
        blocks = f"block {first}" if first == last else f"blocks {first} to {last}"
        return f"{blocks}, items {start + 1} to {end}" if end > start else f"{blocks}, behind {start} items"


def _end(block: Block) -> str:
    """All that copies have in common of the end of a window."""
    return f"end {[block.meta.get(name) for name in ('items', 'last', 'time', 'idle')]}"


class EarlyDigests(NamedTuple):
    """Another copy's digests of a window that is not put out here yet; `to` is who has received it."""

    window: int
    to: WorkerId
    told: list[Any]


class Digests:
    """Those of one copy of a task."""

    def __init__(self, me: WorkerId, port: Port) -> None:
        self._me, self._port = me, port
        self._open: defaultdict[LinkKey, Trail] = defaultdict(Trail)
        """Of each link, the window that is being put out."""
        self._closed: defaultdict[LinkKey, dict[int, Trail]] = defaultdict(dict)
        """Windows that are put out and that a receiver may tell of."""
        self._early: defaultdict[LinkKey, deque[EarlyDigests]] = defaultdict(lambda: deque(maxlen=EARLY_MAX))

    def put(self, link: LinkKey, block: Block) -> None:
        """A block was put out, the next on its link; the end of a window is given its digests.

        JobFailed where another copy has put out something else.
        """
        trail = self._open[link]
        trail.add(block)
        if block.kind != Kind.PUNCTUATION:
            return
        window = int(block.epoch)
        block.meta["digests"] = trail.told()
        self._closed[link][window] = self._open.pop(link)
        for early in self._early.pop(link, ()):
            if early.window >= window:
                self.hear(link, *early)

    def hear(self, link: LinkKey, window: int, to: WorkerId, told: list[Any]) -> None:
        """A receiver tells the digests of a window that came from another copy. JobFailed where they differ.

        One that is not known here waits for the next that is put out: it may be that one, or behind it.
        """
        trail = self._closed[link].get(window)
        if trail is not None:
            self._port.count("windows_compared")
            if where := trail.difference(told):
                raise JobFailed(
                    f"copies of {self._me.primary} differ: in window {window}, {self._me} has put out to {to} "
                    f"something else than the other, first in {where} of the window",
                    REMEDY,
                )
        else:
            self._early[link].append(EarlyDigests(window, to, told))

    def forget(self, link: LinkKey, number: int) -> None:
        """No receiver of the link tells of blocks up to this number any more."""
        closed = self._closed[link]
        for window in [window for window, trail in closed.items() if trail.last <= number]:
            del closed[window]
