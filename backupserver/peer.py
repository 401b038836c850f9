"""One server, as a client's thread sees it: the records sent to it, those it has, and those that wait for it."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import zmq

from riprap.backupserver import protocol
from riprap.backupserver.pieces import Bodies
from riprap.backupserver.places import Unreadable
from riprap.backupserver.record import Origin
from riprap.codec.errors import FrameError
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import WorkerKeys

PING_S = 0.2
CALM_PING_S = 0.6  # of one that has acknowledged everything; shorter than what it would take for a stall
REASON_MAX = 500
SILENCE_S = 2.0  # of a server, after which the others go on without it
KNOCK_S = 0.5  # silence after which a server may have another key, where several are known
RETRY_S = 0.3  # after a server said that it is full, or cannot read
SLOWEST_BYTES_S = 8e6  # of a link or a disk, unless it turns out slower; bytes under way are given that much time more


def is_near(address: str) -> bool:
    """True for a server on this host."""
    if not address.startswith("tcp://"):
        return True
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((host, 0))
        except OSError:
            return False
    return True


class Saved(NamedTuple):
    """A record on its way. `sequence` orders what this client sends; (incarnation, number) stays with the record."""

    sequence: int
    incarnation: int
    number: int
    kind: str
    epoch: int
    body: list[Any]
    size: int
    floor: int = 0
    """Parts of checkpoints below this one are no longer needed."""
    since: int = 0
    """Nor are states and items of epochs below this one."""


class Answer(NamedTuple):
    """A server's answer when it was opened: its fields, and the bodies of the records of the restore point."""

    fields: dict[str, Any]
    bodies: list[memoryview]
    has_records: bool
    """True when they were wanted with it."""

    @property
    def stale(self) -> bool:
        """True when the server may lack records that were acknowledged."""
        return bool(self.fields["stale"])

    @property
    def dropped(self) -> str:
        """The records that were damaged there."""
        return str(self.fields["dropped"])

    def origins_with(self, fence: int) -> list[Origin]:
        """Those that the server knows, and that of this incarnation, which goes on from its records."""
        return [*protocol.origins(self.fields, fence), Origin(fence, *self.fields["newest"])]

    @property
    def rank(self) -> tuple[tuple[int, ...], bool]:
        """Of two answers the one of higher rank is newer, or as new and whole."""
        return tuple(self.fields["newest"]), not self.dropped


class Peer:
    """Owned by one thread at a time. Invariant: while it is not `away`, nothing counts as durable that this server has
    not acknowledged; so a server that was told it is in sync, and has not been away since, lacks nothing. One that was
    away is told once it has caught up, for the others go on without it until then.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, name: str, fence: int, keys: WorkerKeys
    ) -> None:
        self.address, self._context, self._name, self._fence, self._own = address, context, name, fence, keys.own
        self._keys = keys.servers
        self._key = keys.servers[0]
        self._in_doubt = False  # it has not been heard since its keys were told
        self.socket = self._connect()
        self.acked = 0
        self.sent = 0
        self._behind = 0  # the number that it must have acknowledged to lack nothing
        self._under_way: deque[tuple[int, int]] = deque()  # numbers and sizes of what it has not acknowledged
        self._slowest = SLOWEST_BYTES_S
        self._answers = False  # it has been heard on this connection
        self.in_sync = False
        self.away = False
        self.fenced = False
        self.full = ""
        """The reason why it could not write the last records sent."""
        self.unreadable = ""
        """The reason why it could not read those that it was asked for."""
        self.fetch = self._reads = is_near(address)
        """Records are wanted with the answer; and to be read where they stand, until that fails once."""
        self.checkpoint = 0  # of that checkpoint, if it is not 0
        self.answer: Answer | None = None
        self._opening = True
        self._fetched = False  # the last question was for records too
        self._cut = False  # libzmq has given the connection up for good
        self._server = ""
        self._stalls = 0
        self._pings = self._asked = 0
        self._bodies = Bodies(0)
        self._retry_at = 0.0
        self._pinged_at = time.monotonic()
        self._unanswered_at = float("inf")  # when the first ping was sent of those since it was heard
        self._knocked_at = self._pinged_at

    @property
    def is_calm(self) -> bool:
        """True when there is nothing to wait for."""
        return self.in_sync and self.acked >= self.sent and self._unanswered_at == float("inf")

    def ask(self) -> None:
        """Shut older incarnations out there, and ask for its records; `hear` brings the answer."""
        self._opening, self.in_sync, self.answer, self._retry_at = True, False, None, 0.0
        self._ping(time.monotonic())  # answered before it reads the restore point, which may take long
        self._asked = self._pings
        self._bodies = Bodies(self._asked)
        self._fetched = self.fetch
        self._say("open", fetch=self.fetch, here=self._reads, checkpoint=self.checkpoint, answer=self._asked)

    def is_giving(self, now: float) -> bool:
        """True while it may be sending its records."""
        return self.fetch and self.answer is None and not self._retry_at and now < self._unanswered_at + SILENCE_S

    def hear(self) -> None:
        """Take all that has come from the server."""
        while True:
            try:
                frames = deque(self.socket.recv_multipart(zmq.NOBLOCK, copy=False))
            except zmq.Again:
                return
            try:
                self._take(protocol.unpack(frames.popleft().bytes), frames)
            except FrameError:
                continue  # not one of our servers
            self._unanswered_at, self._in_doubt, self._answers = float("inf"), False, True

    def bring_up(self, live: Sequence[Saved], origins: Sequence[Origin], known: int = 0) -> None:
        """Send a server that was opened all live records after the first `known`, which it has itself, and before them
        the origins of this and former incarnations: it may have records that none of these knew of.
        """
        self.answer, self.in_sync = None, False
        self.acked = self.sent = known
        self._under_way.clear()
        if origins:
            self._say("origins", origins=origins)
        self.send(live)
        self._behind = self.sent
        if not self.away:
            self._say("synced", stalls=self._stalls)

    def send(self, records: Sequence[Saved]) -> None:
        """Send records that the server has not been sent, unless it is not open."""
        if self._opening:
            return
        for saved in records:
            if saved.sequence <= self.sent:
                continue
            head = protocol.pack(
                "save", name=self._name, fence=self._fence, seq=saved.sequence, incarnation=saved.incarnation,
                number=saved.number,
                epoch=saved.epoch, kind=saved.kind, floor=saved.floor, since=saved.since,
            )  # fmt: skip
            self._post([head, *protocol.frames_of(saved.body)])
            self._under_way.append((saved.sequence, saved.size))
            self.sent = saved.sequence

    def use_keys(self, keys: tuple[bytes, ...]) -> None:
        """The server may have these keys, also if it has another now: then it keeps its connection while it answers."""
        self._keys, self._in_doubt = keys, True
        self._ping(time.monotonic())

    def watch(self, now: float, patience_s: float) -> None:
        """Ping; ask one again that was full, or could not read; connect anew to one that is cut off, or silent for too
        long, which is away."""
        if not self.in_sync and not self._opening and self.answer is None and self.acked >= self._behind:
            self._join()
        if self._retry_at and now > self._retry_at:
            self.ask()
        is_late = now > self._unanswered_at + patience_s
        nbytes = sum(size for _, size in self._under_way) if is_late else 0
        patience_s += nbytes / self._slowest
        if self._cut or now > self._unanswered_at + patience_s:
            if self._answers and nbytes and not self._cut:  # it lives, so perhaps these took longer on their way
                self._slowest = nbytes / (2 * patience_s)
            self._unanswered_at, self.away, self._cut = float("inf"), True, False
            self._connect_anew(now)
        elif self._may_be_shut_out and now > max(self._unanswered_at, self._knocked_at) + KNOCK_S:
            self._connect_anew(now)
        elif now > self._pinged_at + (CALM_PING_S if self.is_calm else PING_S):
            self._ping(now)

    def _join(self) -> None:
        """It has caught up, and nothing counts as durable without it any more."""
        self.in_sync, self._slowest = True, SLOWEST_BYTES_S
        if self.away:
            self.away = False
            self._say("synced", stalls=self._stalls)

    @property
    def _may_be_shut_out(self) -> bool:
        """True when its silence may mean that it has another key."""
        return len(self._keys) > 1 or (self._in_doubt and self._keys != (self._key,))

    def _connect_anew(self, now: float) -> None:
        """With the next of the keys that the server may have."""
        self.socket.close(linger=0)  # with all that is queued on it
        place = self._keys.index(self._key) + 1 if self._key in self._keys else 0
        self._key, self._knocked_at, self._answers = self._keys[place % len(self._keys)], now, False
        self._under_way.clear()
        self.socket = self._connect()
        self.ask()

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        self._unanswered_at = min(self._unanswered_at, now)
        self._pings += 1
        self._say("ping", ping=self._pings)

    def _take(self, message: dict[str, Any], frames: deque[zmq.Frame]) -> None:
        kind = message["type"]
        if kind == "saved" and not self._opening:
            self.acked = max(self.acked, protocol.number(message, "seq"))
            while self._under_way and self._under_way[0][0] <= self.acked:
                self._under_way.popleft()
            self.full = ""
        elif kind == "piece":
            self._bodies.take(message, frames)
        elif kind == "opened":
            if protocol.number(message, "answer") != self._asked:
                return  # it was asked again meanwhile
            try:
                bodies = self._bodies.of(message, self._name)
            except Unreadable:
                self._reads = False
                self.ask()
                return
            self._server, self._stalls = str(message.get("server")), protocol.number(message, "stalls")
            self._opening, self.in_sync, self.acked, self.sent, self.unreadable = False, False, 0, 0, ""
            self.answer = Answer(message, bodies, self._fetched)
        elif kind == "fenced":
            self.fenced = True
        elif kind == "full":
            self._opening, self.in_sync, self.away = True, False, True
            self._retry_at = time.monotonic() + RETRY_S
            self.full = str(message.get("reason", ""))[:REASON_MAX]
        elif kind == "unreadable":
            if protocol.number(message, "answer") == self._asked:
                self._retry_at = time.monotonic() + RETRY_S
                self.unreadable = str(message.get("reason", ""))[:REASON_MAX]
        elif kind == "unknown" and not self._opening:
            self.ask()
        elif kind == "pong":
            self._pong(message)

    def _pong(self, message: dict[str, Any]) -> None:
        if self._opening:
            # answers come in order, so a ping that was sent after the question and answered before it tells of its loss
            if not self._retry_at and protocol.number(message, "ping") > self._asked:
                self.ask()
        elif message.get("server") != self._server:
            self.ask()  # it is another process than before
        elif self.in_sync and not message.get("synced"):
            self._stalls = protocol.number(message, "stalls")
            self._say("synced", stalls=self._stalls)  # it stood still, but for so short that nothing went on without it

    def _connect(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        call_with(socket, self._own, self._key)
        protocol.bound_frames(socket, protocol.PIECE_BYTES)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)  # the client's window bounds what is under way
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 100)
        socket.connect(self.address)
        return socket

    def _say(self, kind: str, /, **fields: Any) -> None:
        self._post([protocol.pack(kind, name=self._name, fence=self._fence, **fields)])

    def _post(self, frames: Sequence[Any]) -> None:
        """Send, unless somebody who is no server of ours answered there: libzmq has then given up, and would wait."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            self._cut = True
