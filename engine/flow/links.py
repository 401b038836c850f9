"""Links: FIFO between two tasks, with sequence numbers, cumulative acknowledgement, a bounded window and replay.

Pure: what leaves goes through a Wire, what arrives comes in by method calls; the simulator brings another wire. The
sender keeps each block until it is acknowledged. A receiver takes blocks in order; when one is missing (a connection
was lost with blocks on it) it answers with a HELLO that names the sequence number it expects, and the sender replays
from there. A sender whose blocks stay unacknowledged says HELLO from time to time, so that a lost tail is noticed too.
A link belongs to two incarnations and to a round of the job: a new incarnation of either end, and a further round,
start it anew. Messages of an older incarnation or of another round are refused: those of a later round are sent again.
What is done for every message stands in engine/flow/_links.pyx, the odd cases here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Round, Seq, WorkerId
from riprap.engine.flow._links import OrdinaryLinks, OutLink, places
from riprap.engine.flow.edges import Edge


class Wire(Protocol):
    """Carries the messages of links; it neither waits nor fails. What cannot be delivered is lost."""

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        """Forward, from the sending task to the receiving one."""

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None:
        """Backwards, from the receiving task to the sending one; how many blocks behind `seq` it takes, 0: a window."""


class Window(NamedTuple):
    """A link's limit of unacknowledged blocks: so many, and no further one once they come to so many bytes."""

    blocks: int
    nbytes: float = math.inf


class Links(OrdinaryLinks):
    """All links of one worker, and what it knows of its peers' incarnations."""

    def __init__(self, wire: Wire, window: Window) -> None:
        super().__init__(wire, window)
        self.duplicates = self.fenced = self.replayed = self.overruns = 0
        self.round = Round(0)
        """Times that the job was rolled back."""

    @property
    def up(self) -> list[WorkerId]:
        """The peers that are up."""
        return sorted(self._up)

    def lower(self, worker: WorkerId) -> None:
        """A peer is down: nothing is sent to it any more."""
        self._up.discard(worker)

    def raise_(self, worker: WorkerId, incarnation: Incarnation) -> None:
        """A new incarnation of a peer begins: its links start anew. It cannot connect before
        (engine/worker/guests.py)."""
        for halves in (self._out, self._in):
            for key in [key for key in halves if key[1] == worker]:
                del halves[key]
        self._incarnations[worker] = incarnation
        self._up.add(worker)

    def enter(self, round_: Round) -> None:
        """A further round begins: all links start anew, between the same incarnations."""
        self.round = round_
        self._out.clear()
        self._in.clear()

    def ask_anew(self, edge: Edge, sender: WorkerId) -> None:
        """Have a sender that entered this round before us send what it has put on the link since."""
        if sender in self._up:
            self.wire.reply(edge, sender, Kind.HELLO, Seq(0))

    def is_of_round(self, round_: int, blocks: int = 1) -> bool:
        """True when a message of so many blocks was sent in this round; those of others are counted."""
        if round_ == self.round:
            return True
        self.fenced += blocks
        return False

    def _on_odd(self, edge: Edge, sender: WorkerId, incarnation: Incarnation, seq: Seq, block: Block) -> None:
        """A message came that is not the next of its link, or that is none."""
        if incarnation != self.incarnation(sender) or sender not in self._up:
            self.fenced += 1  # of an incarnation that is over: what it said last might contradict the next one
            return
        link = self._in_link(edge, sender)
        if block.kind == Kind.HELLO:
            if seq > link.received:
                self.wire.reply(edge, sender, Kind.HELLO, link.received)
            else:
                self._tell(edge, sender, link)
        elif seq > link.safe + places(self.window, block):
            self.overruns += 1  # no peer of ours sends beyond its window, so what waits here stays bounded
        elif seq <= link.received:
            self.duplicates += 1
        elif link.asked != link.received + 1:
            link.asked = Seq(link.received + 1)
            self.wire.reply(edge, sender, Kind.HELLO, link.received)

    def _replay(self, edge: Edge, peer: WorkerId, link: OutLink, seq: Seq) -> None:
        for kept_seq, block in link.after(seq):
            self.replayed += 1
            self.wire.transmit(edge, peer, kept_seq, block)

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        """Blocks sent on a link and not acknowledged, oldest first; also after the peer went down."""
        return list(self._out_link(edge, to).kept)

    def hello(self) -> None:
        """Ask the receivers of unacknowledged blocks how far they are. Called when a link had time to answer."""
        for (edge, to), link in self._out.items():
            if link.kept and to in self._up:
                self.wire.transmit(edge, to, link.sent, Block(Kind.HELLO, Epoch(0)))
        for incoming in self._in.values():
            incoming.asked = Seq(0)


class LinkPort:
    """The part of a scheme's port that is about links, asked for with every message: methods of the links as they are.

    A port inherits it and calls `use`.
    """

    links: Links
    send: Callable[..., bool]
    room: Callable[[Edge, WorkerId], int]
    unacknowledged: Callable[[Edge, WorkerId], int]
    kept: Callable[[Edge, WorkerId], list[Block]]
    ack: Callable[..., None]
    limit: Callable[[Edge, WorkerId, int, int], None]
    incarnation: Callable[[WorkerId], Incarnation]
    is_up: Callable[[WorkerId], bool]

    def use(self, links: Links) -> None:
        """Set the links."""
        self.links = links
        self.send, self.ack, self.limit = links.send, links.ack, links.limit
        self.room, self.unacknowledged, self.kept = links.room, links.unacknowledged, links.kept
        self.incarnation, self.is_up = links.incarnation, links.is_up

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.empty(shape, dtype)
