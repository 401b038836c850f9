"""Puts keys on sockets: CURVE (https://rfc.zeromq.org/spec/26/) authenticates both ends and encrypts what passes."""

from __future__ import annotations

from typing import Any

import zmq

from riprap.codec.trust.keys import CLIENT, CONTROLLER, KeyPair, own_authority
from riprap.codec.trust.reader import own_reader

HANDSHAKE_MS = 3000
"""A peer that connects and then says nothing is dropped after this."""
BACKLOG = 256
"""Connections that wait to be accepted."""
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 60, 10, 3
"""A caller may vanish with its host, without a word: its connection is given up after so long a silence, when no probe
is answered."""


def serve_with(socket: zmq.Socket[Any], pair: KeyPair, domain: str) -> None:
    """Let in only those who know the public half. Call it before `bind`; the doorkeeper of the context names them."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    socket.setsockopt(zmq.BACKLOG, BACKLOG)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)


def call_with(socket: zmq.Socket[Any], pair: KeyPair, server: bytes) -> None:
    """Be the holder of `pair`, and talk to nobody but the server of that public key. Call it before `connect`."""
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
    socket.setsockopt(zmq.CURVE_SERVERKEY, server)


def call_as(socket: zmq.Socket[Any], role: str, server: str) -> None:
    """The same by roles, as a process of this user: an agent that calls the controller, say. ConfigError.

    A client that holds a reader's keys calls the controller with those.
    """
    if (role, server) == (CLIENT, CONTROLLER) and (reader := own_reader()):
        call_with(socket, reader.own, reader.controller)
        return
    call_with(socket, own_authority().pair(role), own_authority().pair(server).public)
