"""Links: FIFO between two tasks, with sequence numbers, cumulative acknowledgement, a bounded window and replay.

Pure: what leaves goes through a Wire, what arrives comes in by method calls; the simulator brings another wire. The
sender keeps each block until it is acknowledged. A receiver takes blocks in order; when one is missing (a connection
was lost with blocks on it) it answers with a HELLO that names the sequence number it expects, and the sender replays
from there. A sender whose blocks stay unacknowledged says HELLO from time to time, so that a lost tail is noticed too.
A link belongs to two incarnations: a new one of either end starts it anew, and messages of an older one are refused.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge


class Wire(Protocol):
    """What carries the messages of links; it neither waits nor fails. What cannot be delivered is lost."""

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        """Forward, from the sending task to the receiving one."""

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq) -> None:
        """Backwards, from the receiving task to the sending one."""


class Window(NamedTuple):
    """What a link may have unacknowledged: so many blocks, and no further one once they come to so many bytes."""

    blocks: int
    nbytes: float = math.inf


class OutLink:
    """The sending half. Invariant: acked <= sent <= acked + window; `kept` holds exactly acked + 1 .. sent."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.sent = Seq(0)
        self.acked = Seq(0)
        self.kept: deque[Block] = deque()
        self.kept_bytes = 0
        self._sizes: deque[int] = deque()
        """Of `kept`, in bytes."""

    @property
    def room(self) -> int:
        """How many more blocks the window takes at most."""
        return 0 if self.kept_bytes >= self.window.nbytes else self.window.blocks - (self.sent - self.acked)

    def put(self, block: Block) -> Seq:
        """Keep a block and give it the next sequence number. There must be room."""
        self.sent = Seq(self.sent + 1)
        self.kept.append(block)
        self._sizes.append(block.nbytes)
        self.kept_bytes += self._sizes[-1]
        return self.sent

    def ack(self, seq: Seq) -> None:
        """Forget everything up to `seq`; a number that was never sent is ignored."""
        while self.acked < seq <= self.sent:
            self.kept.popleft()
            self.kept_bytes -= self._sizes.popleft()
            self.acked = Seq(self.acked + 1)

    def after(self, seq: Seq) -> list[tuple[Seq, Block]]:
        """What is kept behind `seq`, oldest first."""
        return [(Seq(self.acked + i), block) for i, block in enumerate(self.kept, 1) if self.acked + i > seq]


class InLink:
    """The receiving half. `asked` is the gap that the sender was told of last.

    Invariant: acked <= safe <= received <= safe + window.
    """

    def __init__(self) -> None:
        self.received = Seq(0)
        self.safe = Seq(0)
        self.acked = Seq(0)
        self.asked = Seq(0)


class Links:
    """All links of one worker, and what it knows of its peers' lives."""

    def __init__(self, wire: Wire, window: Window) -> None:
        self.wire, self.window = wire, window
        self.duplicates = self.fenced = self.replayed = self.overruns = 0
        self._lives: dict[WorkerId, Incarnation] = {}
        self._up: set[WorkerId] = set()
        self._out: dict[tuple[Edge, WorkerId], OutLink] = {}
        self._in: dict[tuple[Edge, WorkerId], InLink] = {}

    def incarnation(self, worker: WorkerId) -> Incarnation:
        """The latest life known; 0 before the first."""
        return self._lives.get(worker, Incarnation(0))

    def is_up(self, worker: WorkerId) -> bool:
        """Whether that life goes on."""
        return worker in self._up

    def lower(self, worker: WorkerId) -> None:
        """A peer is down: nothing is sent to it any more."""
        self._up.discard(worker)

    def raise_(self, worker: WorkerId, life: Incarnation) -> None:
        """A new life of a peer begins: its links start anew. It cannot connect before (engine/worker/guests.py)."""
        for halves in (self._out, self._in):
            for key in [key for key in halves if key[1] == worker]:
                del halves[key]
        self._lives[worker] = life
        self._up.add(worker)

    def room(self, edge: Edge, to: WorkerId) -> int:
        """Blocks that the window still takes; 0 while the peer is down."""
        return self._out_link(edge, to).room if to in self._up else 0

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        """Blocks on the way to this life of a peer, or there and not yet safe."""
        return len(self._out_link(edge, to).kept)

    def send(self, edge: Edge, to: WorkerId, block: Block) -> bool:
        """Put a block on the link; False when the peer is down or the window full."""
        if to not in self._up:
            return False
        link = self._out_link(edge, to)
        if link.room <= 0:
            return False
        self.wire.transmit(edge, to, link.put(block), block)
        return True

    def accept(self, edge: Edge, sender: WorkerId, life: Incarnation, seq: Seq, block: Block) -> bool:
        """Whether a message that came in is the next of its link, to be handed on now."""
        if life != self.incarnation(sender) or sender not in self._up:
            self.fenced += 1  # of a life that is over: what it said last might contradict the next one
            return False
        link = self._in_link(edge, sender)
        if block.kind == Kind.HELLO:
            if seq > link.received:
                self.wire.reply(edge, sender, Kind.HELLO, link.received)
            else:
                self.wire.reply(edge, sender, Kind.ACK, link.safe)
            return False
        if seq > link.safe + self.window.blocks:
            self.overruns += 1  # no peer of ours sends beyond its window, so what waits here stays bounded
        elif seq == link.received + 1:
            link.received = seq
            return True
        elif seq <= link.received:
            self.duplicates += 1
        elif link.asked != link.received + 1:
            link.asked = Seq(link.received + 1)
            self.wire.reply(edge, sender, Kind.HELLO, link.received)
        return False

    def on_reply(self, edge: Edge, peer: WorkerId, life: Incarnation, kind: Kind, seq: Seq) -> None:
        """The receiver of a link has answered: everything up to `seq` is safe (ACK), or only that much came (HELLO)."""
        link = self._out.get((edge, peer))
        if link is None or life != self.incarnation(peer):
            return
        if kind == Kind.ACK:
            link.ack(seq)
        elif kind == Kind.HELLO:
            for kept_seq, block in link.after(seq):
                self.replayed += 1
                self.wire.transmit(edge, peer, kept_seq, block)

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        """What was sent on a link and is not acknowledged, oldest first; also after the peer went down."""
        return list(self._out_link(edge, to).kept)

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        """All that came on this link, or that up to `seq`, is safe; the sender is told with the next flush."""
        link = self._in.get((edge, sender))
        if link:
            link.safe = link.received if seq is None else min(link.received, max(link.safe, seq))

    def flush(self, least: int) -> bool:
        """Send the acknowledgements that cover at least so many blocks; whether others are left."""
        left = False
        for (edge, sender), link in self._in.items():
            if link.safe - link.acked >= least:
                link.acked = link.safe
                self.wire.reply(edge, sender, Kind.ACK, link.safe)
            elif link.safe > link.acked:
                left = True
        return left

    def hello(self) -> None:
        """Ask the receivers of unacknowledged blocks how far they are. Called when a link had time to answer."""
        for (edge, to), link in self._out.items():
            if link.kept and to in self._up:
                self.wire.transmit(edge, to, link.sent, Block(Kind.HELLO, Epoch(0)))
        for incoming in self._in.values():
            incoming.asked = Seq(0)

    def _out_link(self, edge: Edge, to: WorkerId) -> OutLink:
        link = self._out.get((edge, to))
        if link is None:
            link = self._out[edge, to] = OutLink(self.window)
        return link

    def _in_link(self, edge: Edge, sender: WorkerId) -> InLink:
        link = self._in.get((edge, sender))
        if link is None:
            link = self._in[edge, sender] = InLink()
        return link


class LinkPort:
    """The part of a scheme's port that is about links; a port inherits it and sets `links`."""

    links: Links

    def send(self, edge: Edge, to: WorkerId, block: Block) -> bool:
        return self.links.send(edge, to, block)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.empty(shape, dtype)

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        return self.links.unacknowledged(edge, to)

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        return self.links.kept(edge, to)

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        self.links.ack(edge, sender, seq)

    def incarnation(self, worker: WorkerId) -> Incarnation:
        return self.links.incarnation(worker)

    def is_up(self, worker: WorkerId) -> bool:
        return self.links.is_up(worker)
