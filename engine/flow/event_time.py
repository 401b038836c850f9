"""Event time at a task: what its input links have promised, and what it promises in turn.

A promise is a whole number: nothing older will come. Promises travel in punctuation, so they count window by window: a
task's event time when it closes a window is the least promise that its links made up to the end of that window. It does
not depend on what came first, so each incarnation and each scheme finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.operators.returns import FOREVER

LinkKey = tuple[int, int]
"""An edge's index, and the index of the task at its other end."""
STOOD_MAX = 100
"""Windows without progress of event time before a caution."""


class Promise(NamedTuple):
    """A link's word at the end of a window."""

    epoch: int
    at: int | None
    """Nothing older will come; None where that was never said."""
    idle: bool
    """Nobody need wait for it."""


@dataclass
class EventTimes:
    """Saved with a task's progress (progress.py)."""

    now: int | None = None
    """The event time at the last window closed; None while it is not known. Invariant: it never goes back."""
    idle: bool = False
    """True when all input links were idle then."""
    promised: int | None = None
    """The operator's own promise; None while it passes on that of its links."""
    spoke: bool = False
    """It has promised something in the open window."""
    quiet: bool = False
    """It has said in the open window that it is idle."""
    stood: int = 0
    """For so many windows, the last ones, event time has not gone on, although somebody has promised something. Not
    saved: it is for a caution alone."""
    held_by: LinkKey | None = None
    """The link that is waited for then."""
    links: dict[LinkKey, list[Promise]] = field(default_factory=dict)
    """By input link, its promises of windows that are open here, and the one before them."""

    def note(self, link: LinkKey, epoch: int, meta: Mapping[str, Any]) -> None:
        """A link has closed a window, later than those before."""
        if "time" not in meta and "idle" not in meta and not self.links.get(link):
            return  # as if it had said nothing, which it never did
        self.links.setdefault(link, []).append(Promise(epoch, meta.get("time"), bool(meta.get("idle"))))

    def close(self, epoch: int, links: Iterable[LinkKey], last: bool) -> None:
        """All links have closed this window; behind the last nothing comes at all."""
        if not self.links and self.promised is None and not last:
            self.idle, self.stood = False, 0  # event time is not used
            return
        before, links = self.now, list(links)
        found = [self._at(link, epoch) for link in links]
        awaited = [promise.at for promise in found if not promise.idle]
        self.idle = bool(found) and not awaited
        known = [at for at in awaited if at is not None]
        if last:
            self.now = FOREVER
        elif known and len(known) == len(awaited):
            self.now = _later(self.now, min(known))
        elif not found:
            self.now = _later(self.now, self.promised)
        self._note_stand(dict(zip(links, found, strict=True)), self.now != before)

    def _note_stand(self, promises: Mapping[LinkKey, Promise], goes_on: bool) -> None:
        """Count the windows in which event time stands, and find out for whom it waits."""
        waited = {link: promise.at for link, promise in promises.items() if not promise.idle}
        is_used = any(promise.at is not None for promise in promises.values())
        self.stood = self.stood + 1 if waited and is_used and not goes_on else 0
        self.held_by = min(waited, key=lambda link: -math.inf if (at := waited[link]) is None else at, default=None)

    def _at(self, link: LinkKey, epoch: int) -> Promise:
        """The last promise of a link up to the end of a window; those before it are done with."""
        promises = self.links.get(link, [])
        while len(promises) > 1 and promises[1].epoch <= epoch:
            del promises[0]
        return promises[0] if promises and promises[0].epoch <= epoch else Promise(epoch, None, False)

    @property
    def waits_for(self) -> LinkKey | None:
        """The link for which event time waits, at the moment when a caution is due; None at all others."""
        return self.held_by if self.stood == STOOD_MAX else None

    def promise(self, at: int) -> None:
        """The operator's word, which takes no older one back (operators/returns.py)."""
        self.promised, self.spoke = at, True

    def told(self) -> dict[str, Any]:
        """Event time for a window's punctuation; the operator's word is then for the next window."""
        own = self.promised is not None or self.quiet
        at = self.promised if own else self.now
        idle = self.quiet and not self.spoke if own else self.idle
        self.spoke = self.quiet = False
        return ({"time": at} if at is not None else {}) | ({"idle": True} if idle else {})

    def pack(self) -> list[Any]:
        """For records."""
        links = [[*link, [list(promise) for promise in promises]] for link, promises in self.links.items()]
        return [self.now, self.idle, self.promised, self.spoke, self.quiet, links]

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> EventTimes:
        """Inverse of `pack`; nothing is known where a record has none."""
        if not packed:
            return cls()
        now, idle, promised, spoke, quiet, links = packed
        kept = {(edge, task): [Promise(*one) for one in promises] for edge, task, promises in links}
        return cls(now, idle, promised, spoke, quiet, links=kept)


def joined(tasks: Sequence[EventTimes], links: Mapping[LinkKey, LinkKey]) -> EventTimes:
    """The event time of a task that takes over from these; of its links (new -> old) those that there were before."""
    taken = {new: list(one.links[old]) for one in tasks for new, old in links.items() if old in one.links}
    return EventTimes(
        _least([one.now for one in tasks]), all(one.idle for one in tasks), _least([one.promised for one in tasks]),
        links=taken,
    )  # fmt: skip


def _least(times: Sequence[int | None]) -> int | None:
    known = [at for at in times if at is not None]
    return min(known) if known and len(known) == len(times) else None


def _later(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)
