"""The worker's end of its control channel: views and orders in, heartbeats out, on a thread of its own."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from controller.messages import CHANNEL_BYTES_MAX, pack, unpack

HEARTBEAT_S = 0.1


class ControlChannel:
    """A SEQPACKET socket to the agent. The compute thread takes orders from `orders`; `wake` tells it to look.

    `progress` is called on the control thread every 100 ms and must only read. The channel's end means that the agent
    is gone: the process ends with it.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self.orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def receive(self) -> dict[str, Any]:
        """Wait for one message; EOFError when the agent is gone."""
        data = self._socket.recv(CHANNEL_BYTES_MAX)
        if not data:
            raise EOFError("the agent closed the control channel")
        return unpack(data, CHANNEL_BYTES_MAX)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; errors of a vanished agent are left to the control thread."""
        with contextlib.suppress(OSError):
            self._socket.send(pack(message, CHANNEL_BYTES_MAX))

    def start(self, progress: Callable[[], dict[str, Any]], wake: Callable[[], None]) -> None:
        """From now on, receive in the background and send progress."""
        threading.Thread(target=self._run, args=(progress, wake), name="control", daemon=True).start()

    def stop(self) -> None:
        """No more heartbeats."""
        self._stopped.set()

    def _run(self, progress: Callable[[], dict[str, Any]], wake: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            readable, _, _ = select.select([self._socket], [], [], HEARTBEAT_S)
            if not readable:
                self.send(progress())
                continue
            try:
                self.orders.put(self.receive())
            except (EOFError, OSError):
                os._exit(1)
            wake()
