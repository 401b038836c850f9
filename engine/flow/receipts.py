"""Tells senders what they need not keep any more, and keeps sources from running far ahead of each other."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from riprap.codec.blocks import Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.backlog import Backlog
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.progress import LinkKey, link_key

if TYPE_CHECKING:
    from riprap.engine.flow.port import Port  # whose package imports this module


class End(NamedTuple):
    """A window's punctuation as it came; its number is one of the sender's incarnation."""

    epoch: Epoch
    sender: tuple[WorkerId | None, Incarnation]
    seq: Seq


class Receipts:
    """Acknowledgements of one task.

    A window stays open until all inputs have closed it, and what came of it and of later ones may have to be kept
    until then. So what a source sends is acknowledged only up to its first punctuation of an open window: behind that
    it has the room of its link, and then it waits for the other sources. All of the window has been sent by then, on
    all links, so nobody waits for a source that waits.
    """

    def __init__(self, layout: Layout, port: Port) -> None:
        self._port = port
        self._sources = {
            link_key(joint.edge, worker) for joint in layout.inputs if joint.from_source for worker in joint.workers
        }
        self._ends: defaultdict[LinkKey, deque[End]] = defaultdict(deque)
        """Of open windows, in the order of receipt."""
        self._withheld: dict[LinkKey, Entry] = {}
        """The newest that may be acknowledged but for an open window."""
        self._backlog: Backlog | None = None

    def debloat(self, target_s: float, most: int) -> None:
        """Let as many blocks of a link wait here as are processed in so many seconds; a whole window has `most`."""
        self._backlog = Backlog(target_s, most, self._port.now)

    def pause(self) -> None:
        """The blocks that were let in wait for what others owe, not for this task."""
        if self._backlog is not None:
            self._backlog.pause()

    def note(self, entry: Entry, closed: int) -> None:
        """A block came in, when this window and those before it were closed: perhaps by a former incarnation."""
        if entry.block.kind == Kind.PUNCTUATION and entry.link in self._sources and entry.block.epoch > closed:
            self._ends[entry.link].append(End(entry.block.epoch, (entry.sender, entry.incarnation), entry.seq))
        edge, sender = entry.edge, entry.sender
        if self._backlog is None or edge is None or sender is None or entry.block.kind == Kind.FEEDBACK:
            return
        if (room := self._backlog.came(entry)) is not None and entry.incarnation == self._port.incarnation(sender):
            self._port.limit(edge, sender, entry.seq - 1, room)

    def acknowledge(self, entry: Entry) -> None:
        """The sender need not keep this any more, nor what it sent before."""
        edge, sender = entry.edge, entry.sender
        if edge is None or sender is None or entry.incarnation != self._port.incarnation(sender):
            return  # on the sender's next connection, numbers mean other blocks
        if self._backlog is not None and (room := self._backlog.done(entry)) is not None:
            self._port.limit(edge, sender, entry.seq, room)
        ends = self._ends[entry.link]
        while ends and ends[0].sender != (sender, entry.incarnation):
            ends.popleft()
        seq = entry.seq
        if ends and seq >= ends[0].seq:
            self._withheld[entry.link] = entry
            seq = Seq(ends[0].seq - 1)
        self._port.ack(edge, sender, seq)

    def close(self, epoch: Epoch) -> None:
        """A window is closed: acknowledge what was withheld for it."""
        for ends in self._ends.values():
            while ends and ends[0].epoch <= epoch:
                ends.popleft()
        withheld, self._withheld = self._withheld, {}
        for entry in withheld.values():
            self.acknowledge(entry)
