"""One worker process as its agent sees it: its channel, its pidfd, and its row in the agent's reports."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Any

import msgpack

from riprap.codec.errors import FrameError
from riprap.controller import channel, messages
from riprap.controller.effects import Victim
from riprap.controller.messages import Message
from riprap.controller.processes import kill_by_pidfd
from riprap.controller.reports import EXITED, STARTING, STATS_BYTES_MAX, UP, WorkerReport

logger = logging.getLogger(__name__)

HEAD = ("phase", "horizon", "round", "checkpoint", "savepoint")
"""The fields of a view besides its workers."""


class Child:
    """A worker from the order to start it until its exit has been seen. Owned by the agent's thread."""

    def __init__(self, report: WorkerReport, end: socket.socket, order: int) -> None:
        end.setblocking(False)
        report.started_at = time.monotonic()
        self.report = report
        self.channel = end
        self.order = order
        self.pidfd = -1
        self.revision = 0
        """The revision of the last view that it was sent."""
        self._view: Message | None = None
        self._shown: dict[str, Any] = {}
        self._shown_head: dict[str, Any] = {}
        self._server_keys: list[bytes] = []  # not told yet
        self._stop_sent = False
        self._killed = False
        self._victim: Victim | None = None

    def started(self, pid: int, pidfd: int) -> None:
        """The process exists; the pidfd is ours now."""
        self.report.pid, self.pidfd = pid, pidfd
        if self._killed:
            kill_by_pidfd(pidfd)

    def kill(self) -> None:
        """SIGKILL it, as soon as it exists."""
        self._killed = True
        if self.pidfd >= 0:
            kill_by_pidfd(self.pidfd)

    def victim(self) -> Victim | None:
        """The process, the same one for all faults; None while there is none yet."""
        if self.pidfd < 0:
            return None
        self._victim = self._victim or Victim(self.report.pid, self.report.incarnation, self.pidfd)
        return self._victim

    def show(self, view: Message) -> None:
        """Tell it the news in a view; when the channel is full `flush` tells it later, from a newer view."""
        if view is not self._view:
            self._view = view
            self.flush()

    def tell_keys(self, servers: list[bytes]) -> None:
        """Tell it the keys that the backup servers may have; when the channel is full `flush` does it later."""
        self._server_keys = servers
        self.flush()

    def flush(self) -> None:
        """Tell it the news, once it is ready and all its peers are known, if it reads."""
        if self._server_keys and self._send({"type": "keys", "servers": self._server_keys}):
            self._server_keys = []
        view = self._view
        if view is None or self.report.state != UP:
            return
        known: dict[str, Any] = view["workers"]
        names = known if self.report.peers is None else [self.report.worker, *self.report.peers]
        if not all(name in known for name in names):
            return
        new = {name: known[name] for name in names if self._shown.get(name) != known[name]}
        head: dict[str, Any] = {name: view[name] for name in HEAD if name in view}
        if new or head != self._shown_head:
            if not self._send({"type": "view", "revision": view["revision"], **head, "workers": new}):
                return
            self._shown.update(new)
            self.revision, self._shown_head = view["revision"], head
        self._view = None

    def stop(self) -> None:
        """Ask it to finish and exit; once is enough."""
        if not self._stop_sent:
            self._stop_sent = self._send({"type": "stop"})

    def hear(self) -> bool:
        """Take all messages that wait; True when one of them changed more than the progress, False when none did."""
        changed = False
        while True:
            try:
                received = channel.receive(self.channel)
            except BlockingIOError:
                return changed
            except FrameError as error:
                logger.warning("%s sent a malformed message: %s", self.report.worker, error)
                continue
            if received is None:
                return changed
            message, fds = received
            for fd in fds:
                os.close(fd)
            try:
                changed |= self._take(message)
            except FrameError as error:
                logger.warning("%s sent a malformed %s: %s", self.report.worker, message["type"], error)

    def exited(self, status: int | None) -> None:
        """Note that its end has been seen, and close all that we hold of it."""
        self.report.state, self.report.status, self.report.exited_at = EXITED, status, time.monotonic()
        self.channel.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def _take(self, message: Message) -> bool:
        report = self.report
        match message["type"]:
            case "ready":
                report.ipc, report.tcp = messages.text(message, "ipc", ""), messages.text(message, "tcp", "")
                report.peers = _names(message)
                if report.state == STARTING:
                    report.state, report.ready_at = UP, time.monotonic()
            case "progress":
                report.beat = messages.count(message, "beat")
                report.epoch = messages.count(message, "epoch", 0)
                report.items = messages.count(message, "items", 0)
                report.call = messages.text(message, "call", "")
                report.call_line = messages.text(message, "call_line", "")
                report.call_ms = messages.count(message, "call_ms", 0)
                report.accounted = messages.count(message, "accounted", 0)
                before, report.checkpoint = report.checkpoint, messages.count(message, "checkpoint", 0)
                if report.checkpoint != before:
                    report.saved_at = time.monotonic()
                self._keep_stats(message)
                return False
            case "done":
                report.done = True
                report.epoch = messages.count(message, "epoch", 0)
                report.accounted = messages.count(message, "accounted", 0)
                self._keep_stats(message)
            case "failed":
                report.error = messages.text(message, "error") or "unknown error"
                report.remedy = messages.text(message, "remedy", "")
            case other:
                raise FrameError(f"unknown type {other!r}")
        return True

    def _keep_stats(self, message: Message) -> None:
        stats: dict[Any, Any] = messages.mapping(message, "stats")
        if len(msgpack.packb(stats)) > STATS_BYTES_MAX:
            raise FrameError(f"stats of more than {STATS_BYTES_MAX} bytes are not kept")
        if stats:
            self.report.stats = stats

    def _send(self, message: Message) -> bool:
        """True when the message is out, or the worker gone so that it does not matter."""
        try:
            channel.send(self.channel, message)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


def _names(message: Message) -> list[str] | None:
    """The workers that it must know; None for all of its job."""
    names = message.get("peers")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FrameError("peers must be a list of names")
    return names
