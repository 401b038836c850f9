"""Origins of those who do not get through a handshake, as far as the monitor of a socket can tell."""

from __future__ import annotations

import contextlib
import os
import socket as sockets
import struct
from typing import NamedTuple

import zmq

FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
"""Without keys or with wrong ones, and who leaves, or says nothing, before that shows."""
EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | FAILED
CREDENTIALS = struct.Struct("3i")  # pid, user and group, as SO_PEERCRED gives them


class Event(NamedTuple):
    """One event of a monitor; `value` is the connection's descriptor, except for a failure, which names none."""

    kind: int
    value: int
    endpoint: str


class Strangers:
    """Follows the connections of a socket. Owned by one thread; `monitor` is readable when `take` has something to do.

    libzmq tells of an accepted connection, of a failure and of the end, each from its only thread, so the end that
    follows a failure is that of the one which failed. It closes a connection after it has told of its end: an origin
    that was looked up before that is right, and any other is not used.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._watched = socket
        self.monitor = socket.get_monitor_socket(EVENTS)
        self._origins: dict[int, str] = {}
        self._failed = False

    def close(self) -> None:
        """Watch no more."""
        self._watched.disable_monitor()
        self.monitor.close(linger=0)

    def take(self) -> list[str]:
        """The origins of the failures since the last call: `from ADDRESS`, or `at ENDPOINT` where it had gone."""
        failures: list[str] = []
        events = self._drain()
        while events:
            ended = {event.value for event in events if event.kind == zmq.EVENT_DISCONNECTED}
            looked_up = {e.value: origin_of(e.value) for e in events if e.kind == zmq.EVENT_ACCEPTED}
            following = self._drain()
            ended |= {event.value for event in following if event.kind == zmq.EVENT_DISCONNECTED}
            failures += [origin for event in events if (origin := self._follow(event))]
            self._origins |= {fd: origin for fd, origin in looked_up.items() if fd not in ended}
            events = following
        return failures

    def _follow(self, event: Event) -> str:
        """The origin of a failure that is known now; else empty."""
        if event.kind & FAILED:
            self._failed = True
        elif event.kind == zmq.EVENT_DISCONNECTED:
            origin, failed = self._origins.pop(event.value, ""), self._failed
            self._failed = False
            return (origin or f"at {event.endpoint}") if failed else ""
        else:
            self._origins.pop(event.value, None)
        return ""

    def _drain(self) -> list[Event]:
        events = []
        with contextlib.suppress(zmq.Again):
            while True:
                head, endpoint = self.monitor.recv_multipart(zmq.NOBLOCK)
                kind, value = struct.unpack("=Hi", head)
                events.append(Event(kind, value, endpoint.decode(errors="replace")))
        return events


def origin_of(fd: int) -> str:
    """The other end of a connection: its address, or on this host its user; empty when it is no connection (now)."""
    try:
        with sockets.socket(fileno=os.dup(fd)) as connection:
            if connection.family == sockets.AF_UNIX:
                credentials = connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, CREDENTIALS.size)
                return f"from user {CREDENTIALS.unpack(credentials)[1]} of this host"
            return f"from {connection.getpeername()[0]}"
    except OSError:
        return ""
