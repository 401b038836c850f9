"""Lines that a server sends over TCP: connects as a client, and again with back-off when the connection is lost."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable

from riprap.operators.inputs.live_lines import LINE_BYTES_MAX, Lines, Places, Report, lines_of, whole_bytes

SCHEME = "tcp://"
BACK_OFF_S, BACK_OFF_MAX_S = 0.1, 5.0
RECEIVE_BYTES = 1 << 16
UNDER_WAY = (0, errno.EINPROGRESS, errno.EALREADY, errno.EINTR)


def addresses_of(path: str) -> list[tuple[str, int]] | None:
    """Host and port of each address of `tcp://HOST:PORT[,tcp://HOST:PORT...]`; None where one is not of this form."""
    found = []
    for one in path.split(","):
        host, _, port = one.strip().removeprefix(SCHEME).rpartition(":")
        if not one.strip().startswith(SCHEME) or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            return None
        found.append((host.strip("[]"), int(port)))
    return found


class TcpLines:
    """One connection. An unfinished line at the end of the connection is dropped, and reported.

    Nothing can be asked for twice: lines that the server has sent and nobody has taken are lost with this process.
    """

    def __init__(self, address: tuple[str, int], report: Report, clock: Callable[[], float] = time.monotonic) -> None:
        self._address, self._report, self._clock = address, report, clock
        self._name = f"{SCHEME}{address[0]}:{address[1]}"
        self._socket: socket.socket | None = None
        self._peer: tuple[object, ...] = ()
        self._connected = False
        self._buffer = bytearray()
        self._skipping = False
        self._back_off_s, self._next_try_at = BACK_OFF_S, 0.0

    def go_to(self, places: Places) -> None:
        """The server decides from where it goes on."""

    def take(self, lines: int, nbytes: int, rest: bool) -> Lines | None:
        """The lines received. `rest`: also one that has no newline yet."""
        if len(self._buffer) < nbytes and self._is_connected():
            self._receive(nbytes)
        self._drop_long()
        data = bytes(self._buffer)
        used = whole_bytes(data, lines) or (len(data) if rest else 0)
        del self._buffer[:used]
        return lines_of(data[:used], {}) if used else None

    def _is_connected(self) -> bool:
        if self._socket is None and self._clock() >= self._next_try_at:
            self._try()
        if self._socket is None or self._connected:
            return self._connected
        try:
            problem = self._socket.connect_ex(self._peer)
        except OSError as error:
            problem = error.errno or errno.ECONNREFUSED
        if problem in (0, errno.EISCONN):
            self._connected, self._back_off_s = True, BACK_OFF_S
            self._report("input_connected", address=self._name)
        elif problem not in UNDER_WAY:
            self._lose(errno.errorcode.get(problem, str(problem)))
        return self._connected

    def _try(self) -> None:
        """Begin to connect."""
        try:
            family, kind, _, _, self._peer = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)[0]
            self._socket = socket.socket(family, kind)
        except OSError as error:
            self._lose(str(error))
            return
        self._socket.setblocking(False)

    def _receive(self, nbytes: int) -> None:
        """Receive until there are `nbytes` bytes, or a line that is too long is certain."""
        assert self._socket is not None
        try:
            while len(self._buffer) < nbytes or (b"\n" not in self._buffer and len(self._buffer) <= LINE_BYTES_MAX):
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    self._lose("closed by the server")
                    return
                self._buffer += data
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(str(error))

    def _lose(self, reason: str) -> None:
        """The connection is no more; try again later."""
        end = self._buffer.rfind(b"\n") + 1
        if len(self._buffer) > end and not self._skipping:
            self._report("input_rest_dropped", address=self._name, bytes=len(self._buffer) - end)
        del self._buffer[end:]
        if not end:
            self._skipping = False
        if self._connected or self._back_off_s == BACK_OFF_S:
            self._report("input_disconnected", address=self._name, reason=reason)
        if self._socket is not None:
            self._socket.close()
        self._socket, self._connected = None, False
        self._next_try_at = self._clock() + self._back_off_s
        self._back_off_s = min(2 * self._back_off_s, BACK_OFF_MAX_S)

    def _drop_long(self) -> None:
        """Leave lines out that are too long."""
        end = self._buffer.find(b"\n") + 1
        if not self._skipping and not end and len(self._buffer) > LINE_BYTES_MAX:
            self._skipping = True
            self._report("input_line_dropped", address=self._name, bytes_max=LINE_BYTES_MAX)
        if self._skipping:
            del self._buffer[: end or len(self._buffer)]
            self._skipping = not end
