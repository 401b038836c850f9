"""kazoo's connection to a ZooKeeper server, with TLS of our own, and with an end to its giving up.

Kazoo ends a session for good when a server refuses it, is lost while it authenticates us, or acknowledges an identity
before it answers what was asked earlier; a leader or an agent would then live on without one. Here it connects again,
and whoever waits for the first connection learns why there is none.

Kazoo also waits for a server to let us in as long as the session lives. One that is starting may neither answer nor
hang up (it fails to close what it cannot serve before its database is there), and the session would be lost.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections import deque
from itertools import islice
from typing import Any

from kazoo.exceptions import ConnectionDropped, SASLException, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL

SASL_STEPS_MAX = 8
"""DIGEST-MD5 takes two; a server without SASL answers each with an empty challenge, for as long as one asks."""
FIRST_WAIT = 1 / 6
"""The part of kazoo's time for an answer that the first attempt to connect waits; each that was in vain doubles it. So
two requests that a starting server loses cost half a session, and a slow server has all the time in the end."""

READ_SHARE = 2 / 3
"""The part of a session's time for which kazoo waits for an answer, in milliseconds."""

Address = tuple[str, int]

LOG = logging.getLogger("kazoo.session")
LOG.addFilter(lambda record: record.levelno >= logging.INFO)  # below that kazoo writes passwords


class Handler(SequentialThreadingHandler):
    """Kazoo's threads, whose sockets speak the TLS of a context, or none."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(self, *args: Any, **options: Any) -> socket.socket:
        """A connected socket, after the handshake; OSError."""
        if self._tls is None:
            return super().create_connection(*args, **options)
        plain = socket.create_connection(options["address"], options["timeout"])
        try:
            secure = self._tls.wrap_socket(plain, server_hostname=options["hostname"])
        except BaseException:
            plain.close()
            raise
        secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return secure

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        """As select.select; a socket is ready too when TLS has decrypted more than was taken of it."""
        held = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        ready = super().select(readers, writers, others, 0 if held else timeout)
        return [*ready[0], *(one for one in held if one not in ready[0])], ready[1], ready[2]


class Connection(ConnectionHandler):
    """Connects for ever, and keeps by server the reason why the last attempt failed."""

    failures: dict[Address, Exception]
    rounds: int
    """Times that every server has been tried in vain."""

    def __init__(self, client: Any, sasl: dict[str, str] | None) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=LOG, sasl_options=sasl)
        self.failures, self.rounds = {}, 0
        self._admitted = False
        self._wait = FIRST_WAIT
        self.session_s = 0.0
        """The silence after which the server ends the session, as it grants it: never less than two of its ticks."""
        self.news = threading.Event()
        """Set when an attempt has failed."""

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        try:
            times = super()._connect(host, hostip, port)
        except SessionExpiredError:
            raise
        except Exception as error:
            self._note((hostip, port), error)
            if isinstance(error, ConnectionDropped | KazooTimeoutError):
                raise
            raise ConnectionDropped(f"not admitted: {error!r}") from error
        self.failures.clear()
        self.session_s = times[0] / READ_SHARE / 1000
        self._admitted = True
        self._wait = FIRST_WAIT
        return times

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        try:
            return super()._invoke(timeout * self._wait, request, xid)
        except KazooTimeoutError:
            self._wait = min(2 * self._wait, 1.0)
            raise

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if isinstance(request, SASL) and xid is not None and xid > SASL_STEPS_MAX:
            raise SASLException("the server challenges without end")
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:
        header, buffer, offset = super()._read_header(timeout)
        _bring_forward(self.client._pending, header.xid)
        return header, buffer, offset

    def _connect_loop(self, retry: Any) -> Any:
        try:
            return super()._connect_loop(retry)
        finally:
            self.rounds += 1
            self.news.set()

    def _note(self, server: Address, error: Exception) -> None:
        if self._admitted and _is_refusal(error) and repr(self.failures.get(server)) != repr(error):
            LOG.error("ZooKeeper at %s:%d lets us in no more: %r; trying again", *server, error)
        self.failures[server] = error
        self.news.set()


def _bring_forward(pending: deque[Any], xid: int) -> None:
    """Put first the request that an answer belongs to: requests are answered in order, identities at once.

    `pending` has (request, result, xid) of what was sent. No effect for what was not asked for.
    """
    place = next((place for place, (_, _, asked) in enumerate(pending) if asked == xid), 0)
    if place and (xid == AUTH_XID or all(asked == AUTH_XID for _, _, asked in islice(pending, place))):
        found = pending[place]
        del pending[place]
        pending.appendleft(found)


def _is_refusal(error: Exception) -> bool:
    """True when a server, or its certificate, and not a lost connection ended an attempt."""
    lost = isinstance(error, ConnectionDropped | KazooTimeoutError)
    return not lost or isinstance(error.__context__, ssl.SSLCertVerificationError)
