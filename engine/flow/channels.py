"""The agreement of workers of one host on a channel (engine/wire/channel.pyi), beside their sockets.

    sender                                   receiver
      HELLO with the terms of its side   ->    joins that side
      joins the receiver's side         <-     HELLO with the terms of its own
      HELLO "begin"                      ->    reads, and answers, by the channel from here on

All three go by the sockets, which keep their order: what was sent by them before comes before what the channel carries.
Without memory to share, or without an answer, everything goes on by sockets.
"""

from __future__ import annotations

import os
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Neighbourhood
from riprap.engine.wire.arena import Arena
from riprap.engine.wire.channel import Channel
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network
from riprap.engine.wire.sharing import names_segment

Terms = list[Any]
"""Process, descriptor and token of a worker's segment, its side of the channel, and where reading begins there."""


def senders(layout: Neighbourhood) -> list[WorkerId]:
    """All workers that this one hears from, by any edge."""
    return list(dict.fromkeys(peer for peers in layout.incoming().values() for peer in peers))


def side_count(layout: Neighbourhood) -> int:
    """Most channels that a worker may have."""
    return len(layout.receivers()) + len(senders(layout))


class Channels:
    """The channels of one worker. `refused` says why there was no memory for one; empty otherwise."""

    def __init__(self, arena: Arena | None, layout: Neighbourhood, network: Network, bytes_max: int) -> None:
        self.refused = ""
        self._arena, self._network, self._bytes_max = arena, network, bytes_max
        ends = [(DOWNSTREAM, peer) for peer in layout.receivers()] + [(UPSTREAM, peer) for peer in senders(layout)]
        self._sides = {end: side for side, end in enumerate(ends)}
        self._made: dict[tuple[int, WorkerId], Channel] = {}

    def offer(self, receiver: WorkerId, connection: int) -> Terms | None:
        """Terms for a new incarnation of a receiver; None when there is no channel to be had."""
        return self._make(DOWNSTREAM, receiver, connection)

    def answer(self, sender: WorkerId, identity: bytes, offer: Any) -> Terms | None:
        """Join what a sender offers; what it is to be told. Nothing is read before it says that it begins."""
        terms = self._make(UPSTREAM, sender, identity) if offer is not None else None
        return terms if terms is not None and self._join(UPSTREAM, sender, offer) else None

    def accepted(self, receiver: WorkerId, answer: Any) -> bool:
        """Join what a receiver answered; whether the channel can begin."""
        return answer is not None and self._join(DOWNSTREAM, receiver, answer)

    def begin(self, origin: int, peer: WorkerId) -> None:
        """From here on everything goes by the channel that was agreed on; nothing when there is none."""
        channel = self._made.get((origin, peer))
        if channel is not None and not channel.is_broken:
            self._network.attach(channel)

    def drop(self, peer: WorkerId, identity: bytes) -> None:
        """The incarnation of a peer is over."""
        self._network.detach(identity)
        self._made.pop((UPSTREAM, peer), None)
        self._made.pop((DOWNSTREAM, peer), None)

    def _make(self, origin: int, peer: WorkerId, name: Any) -> Terms | None:
        side = self._sides.get((origin, peer))
        if self._arena is None or side is None:
            return None
        try:
            channel = Channel(self._arena, side, origin, name, self._bytes_max)
        except OSError as error:
            self.refused = str(error)
            return None
        self._made[origin, peer] = channel
        return [os.getpid(), self._arena.descriptor, self._arena.token, side, channel.tail]

    def _join(self, origin: int, peer: WorkerId, terms: Any) -> bool:
        channel = self._made.get((origin, peer))
        if channel is None or not names_segment(terms):
            return False
        try:
            channel.join(*terms)
        except OSError:  # of another namespace, or the peer is gone: sockets do as well
            return False
        return True
