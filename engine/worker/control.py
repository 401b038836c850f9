"""The worker's end of its control channel: views and orders in, heartbeats out, on a thread of its own."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from riprap.controller.messages import CHANNEL_BYTES_MAX, pack, unpack

HEARTBEAT_S = 0.1
LOOK_S = 0.001
"""From one look of a busy compute thread for orders to the next: a look costs as much as a small message."""


class ControlChannel:
    """A SEQPACKET socket to the agent.

    The compute thread takes orders with `poll`, every millisecond while it is busy: on busy cores a hand-over from
    another thread would cost it more. The control thread sends heartbeats, wakes the compute thread from its sleep when
    an order is there, and ends the process when the agent is gone.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._order = threading.Lock()  # what is said later was known later: `done` must not be followed by less
        self._stopped = threading.Event()
        self._polled = threading.Event()
        self._look_at = 0.0
        self._beat_at = 0.0

    def receive(self) -> dict[str, Any]:
        """Wait for one message; EOFError when the agent is gone."""
        return self._received(0)

    def poll(self) -> dict[str, Any] | None:
        """The next order, None when there is none now; EOFError when the agent is gone."""
        now = time.monotonic()
        if now < self._look_at and self._polled.is_set():
            return None
        if not self._polled.is_set():
            self._polled.set()
        try:
            return self._received(socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._look_at = now + LOOK_S
            return None

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; errors of a vanished agent are left to the control thread."""
        with self._order:
            self._send(message)

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(pack(message, CHANNEL_BYTES_MAX))
        self._beat_at = time.monotonic() + HEARTBEAT_S

    def start(
        self, progress: Callable[[], dict[str, Any] | None], wake: Callable[[], None], calm_s: float = HEARTBEAT_S
    ) -> None:
        """Heartbeats from now on: `progress` is called on the control thread 100 ms after whatever was said last, and
        must only read; when it says None, for nothing worth sending, it is called after `calm_s`."""
        threading.Thread(target=self._run, args=(progress, wake, calm_s), name="control", daemon=True).start()

    def stop(self) -> None:
        """No more heartbeats."""
        self._stopped.set()

    def _received(self, flags: int) -> dict[str, Any]:
        data = b""
        with contextlib.suppress(ConnectionResetError):  # the agent went with messages of ours unread
            data = self._socket.recv(CHANNEL_BYTES_MAX, flags)
        if not data:
            raise EOFError("the agent closed the control channel")
        return unpack(data, CHANNEL_BYTES_MAX)

    def _run(self, progress: Callable[[], dict[str, Any] | None], wake: Callable[[], None], calm_s: float) -> None:
        self._beat_at = time.monotonic() + HEARTBEAT_S
        while not self._stopped.is_set():
            readable, _, _ = select.select([self._socket], [], [], max(0.0, self._beat_at - time.monotonic()))
            if time.monotonic() >= self._beat_at:
                with self._order:
                    if message := progress():
                        self._send(message)
                    else:
                        self._beat_at = time.monotonic() + calm_s
            if readable:
                self._hand_over(wake)

    def _hand_over(self, wake: Callable[[], None]) -> None:
        """Have the compute thread take what is there; the end of the channel is acted on here, even if it hangs."""
        self._polled.clear()
        try:
            if not self._socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK):
                os._exit(1)
        except BlockingIOError:
            return  # taken in the meantime
        except OSError:
            os._exit(1)
        wake()
        self._polled.wait(max(0.0, self._beat_at - time.monotonic()))
