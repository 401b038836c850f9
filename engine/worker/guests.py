"""Peers that may connect to this worker: incarnations in its views, each with its key."""

from __future__ import annotations

from collections.abc import Iterable

import zmq
from zmq.utils import z85

from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.trust.doorkeeper import Doorkeeper
from riprap.engine.flow.intake import identity
from riprap.engine.wire.network import Network


class Guests:
    """Changed by the compute thread, asked by the doorkeeper's. `peers` are those who connect here at all."""

    def __init__(self, peers: Iterable[WorkerId]) -> None:
        self._keys = dict.fromkeys(peers, b"")
        self._names: dict[bytes, str] = {}

    def expect(self, peer: WorkerId, incarnation: Incarnation, key: bytes) -> None:
        """An incarnation has begun, with that public key: that of a former one is worth nothing. ValueError when it is
        none."""
        if peer in self._keys:
            self.dismiss(peer)
            self._keys[peer] = z85.decode(key)
            self._names[self._keys[peer]] = identity(peer, incarnation).decode()

    def dismiss(self, peer: WorkerId) -> None:
        """An incarnation is over."""
        if key := self._keys.get(peer):
            self._names[key] = ""

    def admits(self, key: bytes) -> str | None:
        """The identity of the incarnation which holds that key, empty when it is over; None while no view has told of
        it."""
        return self._names.get(key)


def open_door(network: Network, guests: Guests) -> Doorkeeper:
    """The doorkeeper of a network that has not started. Close it before the network."""
    context, listener = network.listener()
    # pyzmq takes both, though its overloads do not say so
    socket: zmq.Socket[bytes] = zmq.Socket(zmq.Context.shadow(context), shadow=listener)  # type: ignore[call-overload]
    return Doorkeeper(socket, guests.admits)
