"""Links on which nobody is there to send, or to receive: since when, and what is done so that they hold nobody else up
(PPA V-B)."""

from __future__ import annotations

from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import LinkKey, link_key
from riprap.engine.flow.scheme import Bench

NAMED_MAX = 64
"""Absent workers that are named; of more, only the first."""


class Absent:
    """Those that a task waits for, for at most `after_s`."""

    def __init__(self, bench: Bench, after_s: float) -> None:
        self._bench, self._after_s = bench, after_s
        self.senders = {
            link_key(joint.edge, worker): (joint.stage, joint.with_copies(worker))
            for joint in bench.layout.inputs
            for worker in joint.workers
        }
        """Of each link in, the stage of its sender, and the sender with its copies."""
        self._gone: dict[LinkKey, float] = {}
        """Since when nobody is there who could send on a link; until something comes."""
        self._down: dict[OutletLink, float] = {}
        """Since when a receiver is down for which something waits."""

    def __contains__(self, link: LinkKey) -> bool:
        return link in self._gone

    @property
    def is_deserted(self) -> bool:
        """True when nobody is there who could send anything."""
        return bool(self.senders) and len(self._gone) == len(self.senders)

    @property
    def names(self) -> list[str]:
        """Those who would send on a link on which nobody is there."""
        return sorted(self.name(link) for link in self._gone)[:NAMED_MAX]

    def name(self, link: LinkKey) -> str:
        """The sender of a link."""
        _, (sender, *_) = self.senders[link]
        return str(sender)

    def lose(self, link: LinkKey) -> bool:
        """One of those who send on a link died; False where another copy is there."""
        _, copies = self.senders[link]
        if any(map(self._bench.port.is_up, copies)):
            return False
        self._gone.setdefault(link, self._bench.port.now())
        self._bench.port.alarm(self._after_s)
        return True

    def write_off(self, link: LinkKey) -> None:
        """The sender of a link has nobody to send to it."""
        self._gone[link] = -self._after_s

    def come(self, link: LinkKey) -> None:
        """Something came on a link."""
        self._gone.pop(link, None)

    def is_overdue(self, link: LinkKey | None) -> bool:
        """True when a link was waited for long enough."""
        since = self._gone.get(link) if link is not None else None
        return since is not None and self._bench.port.now() - since >= self._after_s

    def let_pass(self) -> None:
        """Have a receiver that is down for long hold nobody else up: what is put out for it is kept."""
        if not self._bench.outlet.blocked:
            return
        now = self._bench.port.now()
        for link in self._bench.outlet.all_links:
            if link.placed or not link.waiting:
                self._down.pop(link, None)
            elif link not in self._down:
                self._down[link] = now
                self._bench.port.alarm(self._after_s)
            elif now - self._down[link] >= self._after_s:
                link.overflows = True
