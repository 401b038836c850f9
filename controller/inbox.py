"""A queue with a file descriptor, in which other threads leave things for a thread that polls sockets."""

from __future__ import annotations

import os
import queue
from typing import Any


class Inbox:
    """Any thread puts, one thread takes; `fileno` is readable while something may lie in it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """For a poller."""
        return self._fd

    def put(self, thing: Any) -> None:
        """Leave a thing; never blocks."""
        self._queue.put(thing)
        os.eventfd_write(self._fd, 1)

    def take_all(self) -> list[Any]:
        """All that was left so far, oldest first; never blocks."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return []
        things = []
        while not self._queue.empty():
            things.append(self._queue.get())
        return things
