"""The paper's own tentative output (PPA V-B), to compare with: in place, and never made exact.

The window of whoever is absent counts as closed, for the task itself. What comes of it later is left out. The end of
each window that lacks something says who was absent, so that destinations can tell.
"""

from __future__ import annotations

from collections.abc import Callable

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import WINDOW, Cause, LinkKey
from riprap.engine.flow.rotation import Rotation
from riprap.engine.flow.scheme import Bench
from riprap.engine.schemes.parts.absent import NAMED_MAX, Absent


class InPlace:
    """Of one task."""

    def __init__(self, bench: Bench, after_s: float, rotation: Callable[[], Rotation]) -> None:
        self._bench, self._rotation = bench, rotation
        self._absent = Absent(bench, after_s)
        self._names: set[str] = set()
        """Those whose items are missing from the open window."""
        self._lacked = False
        """The same was so of the window before."""
        self._untold: dict[OutletLink, None] = dict.fromkeys(bench.outlet.all_links)
        """Receivers that have not heard that nobody sends to this task, should it come to that."""

    # what is asked
    @property
    def absent(self) -> list[str]:
        """Some of those whose items are missing from the open window, in order."""
        return sorted(self._names)[:NAMED_MAX]

    def is_late(self, entry: Entry) -> bool:
        """True for what belongs to a window that was closed without it."""
        return self._rotation().has_closed(entry.link, entry.block.epoch)

    # what happens
    def on_sender_lost(self, link: LinkKey) -> None:
        """One of those who send on a link died."""
        self._absent.lose(link)

    def on_arrival(self, entry: Entry) -> None:
        """A block came in. Whoever sends what is late alone is not back yet."""
        if entry.link in self._absent and not self.is_late(entry):
            self._absent.come(entry.link)
            self._untold = dict.fromkeys(self._bench.outlet.all_links)

    def on_receive(self, entry: Entry) -> None:
        """The task takes a block in, which is not late."""
        self._names.update(entry.block.meta.get("absent", ()))

    def on_restored(self) -> None:
        """The task is where a checkpoint was made, of which nothing is missing."""

    def on_tentative(self, link: LinkKey, block: Block) -> None:
        """Nobody sends to the sender of a link."""
        self._absent.write_off(link)

    def on_placed(self, link: OutletLink) -> None:
        """A receiver, perhaps a new incarnation of it, has said how far it is."""
        self._untold[link] = None

    def on_window(self, epoch: int) -> None:
        """The task has closed a window."""
        port, lacks = self._bench.port, bool(self._names)
        if lacks and self._bench.journal is not None:
            port.count("tentative_windows")
            if not self._lacked:
                port.report("tentative", window=epoch, absent=self.absent)
        if lacks != self._lacked:
            self._lacked = lacks
            port.count("tentative_now", 1 if lacks else -1)
        self._names.clear()

    # what is done
    def step(self, turn: LinkKey | None) -> bool:
        """Close the window of the link that the task waits for, if it is time. True when something was done."""
        self._absent.let_pass()
        if turn is None or self._bench.inbox or self._bench.held.get(turn) or not self._absent.is_overdue(turn):
            return False
        if self._absent.is_deserted:
            self._tell_receivers()
            return False
        window = self._bench.progress.epoch + 1
        if not any(self._is_over(window, link) for link in self._absent.senders if link not in self._absent):
            return False
        self._names.add(self._absent.name(turn))
        self._bench.hold(Entry(0, turn, self._end_of(window), acknowledged=True))
        return True

    def _is_over(self, window: int, link: LinkKey) -> bool:
        """True when a sender has closed a window: no sooner is it known that somebody is late for it."""
        if self._rotation().has_closed(link, window):
            return True
        newest = waiting[-1].block if (waiting := self._bench.held.get(link)) else None
        return newest is not None and newest.epoch + (newest.kind == Kind.PUNCTUATION) > window

    def _end_of(self, window: int) -> Block:
        """As if the sender had put out nothing. It has no number: the link goes on where it was."""
        meta = {"items": 0, "last": False, "opened_at": self._bench.port.now(), "idle": True}
        return Block(Kind.PUNCTUATION, Epoch(window), meta=meta | {"cause": Cause(*WINDOW, window, 0)})

    def _tell_receivers(self) -> None:
        """They need not wait for this task's windows."""
        window = Epoch(self._bench.progress.epoch + 1)
        for link in [*self._untold]:
            notice = Block(Kind.TENTATIVE, window, meta={"absent": self._absent.names})
            if not link.may_send or self._bench.port.send(link.joint.edge, link.to, notice):
                del self._untold[link]
