"""Asks the controller about a job again and again, so that nobody else waits while no controller answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from riprap.codec.errors import ConfigError, RiprapError
from riprap.controller.client import Client


class Poller(threading.Thread):
    """A thread that owns the client from `start` to `stop`; `status` is the last answer, empty before the first.

    `every_s` may be changed at any time, and `wants_drain` be set; `drained` is true once that is decided.
    """

    def __init__(self, client: Client, job: str, every_s: float) -> None:
        super().__init__(name="status poller", daemon=True)
        self.status: Mapping[str, Any] = {}
        self.answered_at = time.monotonic()
        self._client = client
        self._job = job
        self.every_s = every_s
        self.wants_drain = self.drained = False
        self._stopping = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        """The thread's loop."""
        while not self._stopping.wait(self.every_s):
            try:
                self.status = self._client.status(self._job)
                self.answered_at = time.monotonic()
                self._drain()
            except ConfigError as refused:
                self._error = RiprapError(
                    f"the controller has answered: {refused.args[0]}",
                    "it was forgotten or taken out of ZooKeeper while it ran; go on with `riprap run --resume RUNDIR`",
                )
                return
            except RiprapError:
                continue  # nobody leads at the moment; how long that may last is the caller's to say
            except Exception as error:
                self._error = error
                return

    def _drain(self) -> None:
        """Have the stream drained, if that is wanted; asked again at the next look where no controller answers."""
        if not self.wants_drain or self.drained:
            return
        try:
            self._client.drain(self._job)
            self.drained = True
        except ConfigError as refused:
            self._error = refused

    def check(self) -> None:
        """Raise here what ended the thread, if anything did."""
        if self._error:
            raise self._error

    def stop(self) -> None:
        """End the thread; the client is the caller's again."""
        self._stopping.set()
        if self.is_alive():
            self.join()
