"""Answers libzmq when it asks whether a key may come in (ZAP, https://rfc.zeromq.org/spec/27/)."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from zmq.utils import z85

from riprap.codec.trust.keys import Authority
from riprap.codec.trust.strangers import Strangers

logger = logging.getLogger(__name__)

ENDPOINT = "inproc://zeromq.zap.01"
ORIGINS_MAX = 1000
"""Origins whose refusals are logged, each once."""
WAITING_MAX = 1024
"""Handshakes that wait for a decision; libzmq ends each in time, and the oldest are dropped."""
Admits = Callable[[bytes], str | None]
"""The name under which the messages of a key's holder come (their `User-Id`); empty: nobody may come in with it; None:
that is not known yet, ask again after `Doorkeeper.look_again`."""


def roles_of(authority: Authority, *roles: str) -> Callable[[bytes], str]:
    """The name of the role, of these, whose key it is; else empty."""
    names = {z85.decode(authority.pair(role).public): role for role in roles}
    return lambda key: names.get(key, "")


def under_its_key(key: bytes) -> str:
    """Lets in everybody who knows the server's key, under the caller's own: each request is checked against it."""
    return bytes(z85.encode(key)).decode()


def sender_of(frame: zmq.Frame) -> str:
    """The name under which the doorkeeper let in the sender of a frame that was received without a copy."""
    return str(frame.get("User-Id"))


class Doorkeeper:
    """Guards a socket that has its key (`serve_with`), from a thread of its own. Close it before socket and context.

    Make it before the socket's key gets around: until it is there, everybody who knows the key comes in.
    `refused` counts those who came with keys that are nobody's, and those who showed none: without the server's key a
    handshake cannot even begin.
    """

    def __init__(self, socket: zmq.Socket[bytes], admits: Admits) -> None:
        self._admits = admits
        self._origins: set[str] = set()
        self.refused = 0
        self._strangers = Strangers(socket)
        self._waiting: deque[Sequence[bytes]] = deque(maxlen=WAITING_MAX)
        self._closing = False
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._socket = socket.context.socket(zmq.ROUTER)  # several may wait for their answers
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(ENDPOINT)
        self._thread = threading.Thread(target=self._run, name="doorkeeper", daemon=True)
        self._thread.start()

    def look_again(self) -> None:
        """Decide on those who wait: more is known now."""
        os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """End the thread; nobody comes in any more. No effect when it has ended."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        if self.refused:
            logger.warning("refused %d connections in all", self.refused)
        self._socket.close()
        self._strangers.close()
        os.close(self._bell)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._strangers.monitor, zmq.POLLIN)
        poller.register(self._bell, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._strangers.monitor in ready or self._closing:
                for origin in self._strangers.take():
                    self._refuse(f"somebody {origin} who showed none of our keys")
            if self._bell in ready:
                os.eventfd_read(self._bell)
                if self._closing:
                    return
                self._ask_again()
            if self._socket in ready:
                self._answer(self._socket.recv_multipart())

    def _ask_again(self) -> None:
        for request in [self._waiting.popleft() for _ in range(len(self._waiting))]:
            self._answer(request)

    def _answer(self, request: Sequence[bytes]) -> None:
        """A request is version, number, domain, address, identity, mechanism and credentials: the key, 32 bytes.

        Before them is where the answer goes, and an empty frame.
        """
        name: str | None = ""
        number, address = b"", ""
        if len(request) == 9 and request[2] == b"1.0" and request[7] == b"CURVE":
            number, address = request[3], request[5].decode(errors="replace")
            with contextlib.suppress(Exception):  # of whatever a stranger's key provokes
                name = self._admits(request[8])
        if name is None:
            self._waiting.append(request)
            return
        if not name:
            self._refuse(f"{address}, whose key is nobody's")
        said: list[Any] = [b"200", b"OK", name.encode()] if name else [b"400", b"unknown key", b""]
        self._socket.send_multipart([*request[:2], b"1.0", number, *said, b""])

    def _refuse(self, whom: str) -> None:
        self.refused += 1
        if whom not in self._origins and len(self._origins) < ORIGINS_MAX:
            self._origins.add(whom)
            logger.warning("refused a connection from %s (further ones are counted)", whom)
