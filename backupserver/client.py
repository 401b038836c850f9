"""A worker's end: sends what is saved to all backup servers on a thread of its own, and knows what is durable.

A record is durable when every server in sync has acknowledged it. A server that stays silent for a while leaves the
in-sync set as long as one remains. When it is back it gets all live records again, and is in sync once it has
acknowledged them.

Restore rule: a server that was brought in sync by the former life's client, in the same process, has every acknowledged
record, so its answer is enough. Any other may have missed some while it was away, so all servers must answer then, and
the newest answer counts: whichever server was in sync at the end is among them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import zmq

from backupserver import protocol
from backupserver.record import Record, RestorePoint, pack_body, unpack_body
from codec.errors import FrameError, RiprapError

PING_S = 0.2
SILENCE_S = 1.0  # of a server, after which it is not in sync any more
RETRY_S = 0.3  # after a server said that it is full


class BackupUnavailable(RiprapError):
    """Too few backup servers answered."""

    exit_code = 1


class Saved(NamedTuple):
    """A record on its way."""

    sequence: int
    kind: str
    epoch: int
    body: list[Any]
    size: int


class Peer:
    """One server, as the client's thread sees it."""

    def __init__(self, address: str, socket: zmq.Socket[bytes]) -> None:
        self.address, self.socket = address, socket
        self.server = ""
        self.acked = 0
        self.sent = 0
        self.in_sync = False
        self.opening = True
        self.answer: tuple[dict[str, Any], list[memoryview]] | None = None
        self.heard_at = self.pinged_at = time.monotonic()
        self.retry_at = 0.0
        self.silent = False


class BackupClient:
    """`save` and `durable` may be used from any one thread; everything else happens on the client's own.

    `incarnation` grows from life to life of a worker: servers refuse older ones. `wake` is called when `durable` has
    grown. `window_bytes` bounds what is saved and not durable.
    """

    def __init__(
        self, servers: Sequence[str], job: str, worker: str, incarnation: int, *, window_bytes: int = 64 << 20,
        wake: Callable[[], None] = lambda: None, deadline_s: float = 30.0,
    ) -> None:  # fmt: skip
        self._name, self._fence = f"{job}/{worker}", incarnation
        self._window_bytes, self._wake, self._deadline_s = window_bytes, wake, deadline_s
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._peers = [Peer(address, self._connect(address)) for address in servers]
        self._live: deque[Saved] = deque()  # what a server must have: the newest state, the items behind it, the rest
        self._sequence = 0
        self._waiting_bytes = 0
        self._sizes: deque[tuple[int, int]] = deque()
        self.durable = 0
        self.fenced = False
        self._stopped = False
        self._grown = threading.Event()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)

    def open(self) -> RestorePoint:
        """Shut older lives out and fetch the restore point; BackupUnavailable when too few servers answer in time."""
        deadline = time.monotonic() + self._deadline_s
        for peer in self._peers:
            self._ask_to_open(peer)
        chosen = None
        while chosen is None:
            for peer in self._peers:
                self._hear(peer)
            if self.fenced:
                raise BackupUnavailable(f"a newer life of {self._name} has begun", "this one must end")
            chosen = self._choose()
            if chosen is None:
                if time.monotonic() > deadline:
                    raise self._unavailable()
                self._await(min(PING_S, max(0.0, deadline - time.monotonic())))
        point = self._restore_point(*chosen)
        self._adopt(point)
        self._thread.start()
        return point

    def save(self, kind: str, epoch: int, meta: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> int:
        """Take a record; its number, or 0 when the window is full. A state supersedes records up to its epoch."""
        body = pack_body(meta, arrays)
        size = sum(map(len, body))
        with self._lock:
            if self._waiting_bytes and self._waiting_bytes + size > self._window_bytes:
                return 0
            self._sequence += 1
            self._waiting_bytes += size
            self._sizes.append((self._sequence, size))
            self._keep(Saved(self._sequence, kind, epoch, body, size))
            number = self._sequence
        os.eventfd_write(self._bell, 1)
        return number

    def close(self, deadline_s: float) -> bool:
        """Wait until everything saved is durable, and end the thread; False when it was not in time."""
        if self._stopped:
            return self.durable >= self._sequence
        deadline = time.monotonic() + deadline_s
        while self.durable < self._sequence and not self.fenced and time.monotonic() < deadline:
            self._grown.wait(max(0.0, min(PING_S, deadline - time.monotonic())))
            self._grown.clear()
        self._stopped = True
        os.eventfd_write(self._bell, 1)
        if self._thread.is_alive():
            self._thread.join(2.0)
        self._context.destroy(linger=0)
        os.close(self._bell)
        return self.durable >= self._sequence

    def _keep(self, saved: Saved) -> None:
        if saved.kind == "state":
            self._live = deque(one for one in self._live if one.epoch > saved.epoch and one.kind == "item")
        self._live.append(saved)

    def _connect(self, address: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)  # the window bounds what is under way
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 100)
        socket.connect(address)
        return socket

    def _await(self, timeout_s: float) -> None:
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        for peer in self._peers:
            poller.register(peer.socket, zmq.POLLIN)
        poller.poll(int(timeout_s * 1000) + 1)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def _run(self) -> None:
        while not self._stopped:
            self._await(PING_S)
            now = time.monotonic()
            for peer in self._peers:
                self._hear(peer)
                self._send_new(peer, now)
                self._watch(peer, now)
            self._advance()

    def _ask_to_open(self, peer: Peer) -> None:
        peer.opening, peer.in_sync, peer.answer = True, False, None
        self._send(peer, protocol.pack("open", name=self._name, fence=self._fence))

    def _hear(self, peer: Peer) -> None:
        while True:
            try:
                frames = peer.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                self._take(peer, protocol.unpack(frames[0].bytes), [frame.buffer for frame in frames[1:]])
            except (FrameError, IndexError):
                continue  # not one of our servers
            peer.heard_at, peer.silent = time.monotonic(), False

    def _take(self, peer: Peer, message: dict[str, Any], bodies: list[memoryview]) -> None:
        kind = message["type"]
        if kind == "saved" and not peer.opening:
            peer.acked = max(peer.acked, protocol.number(message, "seq"))
        elif kind == "opened":
            peer.server, peer.opening = str(message.get("server")), False
            peer.acked, peer.sent = 0, 0
            peer.answer = (message, bodies)
            if self._thread.is_alive():
                self._bring_up(peer)
        elif kind == "fenced":
            self.fenced = True
        elif kind == "full":
            peer.opening, peer.retry_at = True, time.monotonic() + RETRY_S
            peer.in_sync = False
        elif not peer.opening and (kind == "unknown" or (kind == "pong" and message.get("server") != peer.server)):
            self._ask_to_open(peer)  # it is another process than before

    def _choose(self) -> tuple[dict[str, Any], list[memoryview]] | None:
        """The answer to restore from, by the rule above; None while it cannot be told."""
        answers = [peer.answer for peer in self._peers if peer.answer is not None]
        if len(answers) < len(self._peers):
            answers = [answer for answer in answers if not answer[0]["stale"]]
        return max(answers, key=lambda answer: tuple(answer[0]["newest"]), default=None)

    def _unavailable(self) -> BackupUnavailable:
        silent = [peer.address for peer in self._peers if peer.answer is None]
        return BackupUnavailable(
            f"backup servers {', '.join(silent)} did not answer for {self._deadline_s:g} s, and no other is sure to"
            f" have all of {self._name}",
            "start them on their storage; or take them out of backup.servers, to accept what the others have",
        )

    def _restore_point(self, message: dict[str, Any], bodies: list[memoryview]) -> RestorePoint:
        state, items, dropped = None, [], [str(message["dropped"])]
        for (kind, epoch, _, sequence), body in zip(message["records"], bodies):
            try:
                meta, arrays = unpack_body(memoryview(body))
            except FrameError as error:
                dropped.append(str(error))
                continue
            record = Record(kind, epoch, sequence, meta, arrays)
            if kind == "state":
                state = record
            else:
                items.append(record)
        return RestorePoint(state, items, "; ".join(filter(None, dropped)))

    def _adopt(self, point: RestorePoint) -> None:
        """Make what was restored the first records of this life, so that every server gets them."""
        restored = ([point.state] if point.state else []) + list(point.items)
        for record in restored:
            self._sequence += 1
            body = pack_body(record.meta, record.arrays)
            self._live.append(Saved(self._sequence, record.kind, record.epoch, body, 0))
        for peer in self._peers:
            if peer.answer is not None:
                self._bring_up(peer)

    def _bring_up(self, peer: Peer) -> None:
        """Send a server all live records; it is in sync when it has them."""
        peer.answer = None
        with self._lock:
            live = list(self._live)
        for saved in live:
            self._send_record(peer, saved)
        self._send(peer, protocol.pack("synced", name=self._name, fence=self._fence))
        peer.in_sync = not live

    def _send_new(self, peer: Peer, now: float) -> None:
        if peer.opening:
            if peer.retry_at and now > peer.retry_at:
                peer.retry_at = 0.0
                self._ask_to_open(peer)
            return
        with self._lock:
            fresh = [saved for saved in self._live if saved.sequence > peer.sent]
        for saved in fresh:
            self._send_record(peer, saved)

    def _send_record(self, peer: Peer, saved: Saved) -> None:
        head = protocol.pack(
            "save", name=self._name, fence=self._fence, seq=saved.sequence, epoch=saved.epoch, kind=saved.kind
        )
        peer.socket.send_multipart([head, *saved.body], copy=False)
        peer.sent = saved.sequence

    def _watch(self, peer: Peer, now: float) -> None:
        """Look after a server that should say something; one that does not is connected to anew, and asked to open."""
        if not peer.opening and peer.acked >= peer.sent:
            peer.in_sync = True
        if now > peer.heard_at + SILENCE_S:
            peer.socket.close(linger=0)  # with all that is queued on it
            peer.socket, peer.heard_at = self._connect(peer.address), now
            peer.silent = True
            self._ask_to_open(peer)
        elif now > peer.pinged_at + PING_S:
            peer.pinged_at = now
            self._send(peer, protocol.pack("ping", name=self._name))

    def _advance(self) -> None:
        acked = [peer.acked for peer in self._peers if peer.in_sync or not self._may_leave(peer)]
        durable = min(acked, default=0)
        if durable > self.durable:
            with self._lock:
                while self._sizes and self._sizes[0][0] <= durable:
                    self._waiting_bytes -= self._sizes.popleft()[1]
            self.durable = durable
            self._grown.set()
            self._wake()

    def _may_leave(self, peer: Peer) -> bool:
        """Whether the others are enough without this server: it is silent, and one of them is in sync."""
        return peer.silent and any(one.in_sync for one in self._peers if one is not peer)

    def _send(self, peer: Peer, message: bytes) -> None:
        peer.socket.send(message)
