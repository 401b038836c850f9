"""The backup server's process: takes workers' records, commits them in groups, gives them to the next incarnations."""

from __future__ import annotations

import logging
import os
import signal
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import FrameType
from typing import Any, NamedTuple

import zmq

from riprap.backupserver import protocol
from riprap.backupserver.pieces import pieces_of
from riprap.backupserver.places import PLACES_MAX, about, named
from riprap.backupserver.record import KINDS, NAME_BYTES_MAX, Head, Origin
from riprap.backupserver.storage import open_storage
from riprap.backupserver.store import Store, job_of, task_of
from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.files import no_space
from riprap.codec.trust.curve import serve_with
from riprap.codec.trust.doorkeeper import Doorkeeper, sender_of, under_its_key
from riprap.codec.trust.keys import BACKUP, CLIENT, KeyPair
from riprap.codec.trust.rotation import keyring

logger = logging.getLogger(__name__)

GROUP_RECORDS = 1024
GROUP_BYTES = 8 << 20  # what a worker that is to be restored waits for
IDLE_MS = 500
SYNCING_MS = 50  # between two looks at a sync that something waits for
STALL_S = 1.5  # shorter than the silence after which clients go on without a server
COMPACT_RETRY_S = 1.0
RECEIVE_HWM = 1000
FENCE_MAX = (1 << 62) - 1  # of a job that was forgotten, in which no incarnation may write
OVER_MAX = 4096  # forgotten jobs whose last workers are kept out; they end within seconds
Frames = Sequence[Any]


def serve(listen: str, storage: str, durability: str, interval_ms: int) -> None:
    """Run a backup server until SIGTERM or SIGINT; call it on the main thread.

    `durability`: acknowledge after fsync (always), after write with an fsync every `interval_ms` (interval), or after
    write alone (never). ConfigError when the address or the storage cannot be used.
    """
    ended: list[int] = []
    wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def end(signum: int, frame: FrameType | None) -> None:
        ended.append(signum)
        os.eventfd_write(wakeup, 1)

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, end)
    store = Store(open_storage(storage))
    if store.damage:
        logger.warning("the storage %s is damaged; left out: %s", storage, store.damage)
    server = Server(listen, store, durability, interval_ms / 1000, wakeup)
    try:
        while not ended:
            server.step(IDLE_MS)
    finally:
        server.close()


class Wanted(Enum):
    """The form in which a client wants the records that it asks for."""

    NOTHING, PLACES, BODIES = range(3)


class Save(NamedTuple):
    """A record that has come: its sender, and its place among those of that sender."""

    client: bytes
    sequence: int
    head: Head
    body: Frames
    floor: int
    """The sender needs no parts of checkpoints below this one."""
    since: int
    """Nor states and items of epochs below this one."""


class Server:
    """One socket and one store. A step takes what has come, commits it as one group, and answers.

    Of each worker one connection may write: the last that its newest incarnation opened. What comes on another may have
    lost something in between.
    """

    def __init__(self, listen: str, store: Store, durability: str, interval_s: float, wakeup: int) -> None:
        self.store, self._durability, self._interval_s = store, durability, interval_s
        self.id = uuid.uuid4().hex
        self.refused = self.malformed = self.intruders = self.groups = self.syncs = self.records = 0
        self.full = self.unreadable = ""
        self._writers: dict[str, bytes] = {}
        self._synced: set[str] = set()  # workers of which nothing is lacking here
        self._stale: dict[str, bool] = {}  # what their incarnations were told when they opened
        self._over: dict[str, None] = {}  # jobs that were forgotten, the newest last
        self.stalls = 0
        self._stepped_at = time.monotonic()
        self._sync_at = float("inf")
        self._compact_at = 0.0
        ring = keyring()
        self._authority, self._former = ring.own, ring.former  # whose workers go on when a cluster changes its keys
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        pair = self._authority.pair(BACKUP)
        serve_with(self._router, pair, BACKUP)
        self._doorkeeper = Doorkeeper(self._router, under_its_key)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.RCVHWM, RECEIVE_HWM)
        self._router.setsockopt(zmq.SNDHWM, 0)  # answers are small, or asked for once
        protocol.bound_frames(self._router, protocol.FRAME_BYTES_MAX)
        self._router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self._router.bind(listen)
        except zmq.ZMQError as error:
            self._close_sockets()
            raise ConfigError(f"cannot listen at {listen}: {error.strerror}", "name a free address") from error
        self._poller = zmq.Poller()
        self._poller.register(self._router, zmq.POLLIN)
        self._poller.register(wakeup, zmq.POLLIN)  # readable when the process is to end

    def step(self, timeout_ms: float) -> None:
        """Wait for messages at most this long, and serve them."""
        due_ms = max(0.0, (self._sync_at - time.monotonic()) * 1000)
        wait_ms = min(timeout_ms, SYNCING_MS) if self.store.segments.syncing else timeout_ms
        if self._poller.poll(int(min(wait_ms, due_ms))):
            self._look_at_clock()
            self._serve(self._receive())
        now = self._look_at_clock()
        try:
            if now >= self._sync_at:
                self._sync_at = float("inf") if self._begin_sync() else now + self._interval_s
            if now >= self._compact_at:
                self.store.compact()
        except OSError as error:
            self._compact_at = now + COMPACT_RETRY_S
            self._say_full(error)

    def close(self) -> None:
        """Sync what was acknowledged, and give everything back."""
        if self._durability != "never":
            self._sync()
        self.store.segments.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        self._doorkeeper.close()
        self._context.destroy(linger=0)

    def _look_at_clock(self) -> float:
        """After this process stood still nobody is in sync here until their clients say so again: it may lag behind."""
        now = time.monotonic()
        if now > self._stepped_at + STALL_S:
            self.stalls += 1
            self._synced.clear()
            self._stale.clear()
        self._stepped_at = now
        return now

    def _receive(self) -> list[Frames]:
        """The messages that wait, up to the size of a group."""
        group: list[Frames] = []
        size = 0
        while len(group) < GROUP_RECORDS and size < GROUP_BYTES:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            group.append(frames)
            size += sum(len(frame) for frame in frames)
        return group

    def _serve(self, messages: list[Frames]) -> None:
        saves: list[Save] = []
        for frames in messages:
            try:
                self._take(frames, saves)
            except FrameError as error:
                self.malformed += 1
                if self.malformed == 1:
                    logger.warning("dropped a malformed message (further ones are only counted): %s", error)
        self._commit(saves)

    def _take(self, frames: Frames, saves: list[Save]) -> None:
        if len(frames) < 2:
            raise FrameError("a message without content")
        client, message, key = frames[0].bytes, protocol.unpack(frames[1].bytes), sender_of(frames[1])
        kind = message["type"]
        if kind in ("status", "forget"):
            self._check_holder(key, [self._authority.pair(CLIENT)])
            self._answer(client, message, saves)
            return
        name = protocol.text(message, "name", NAME_BYTES_MAX)
        fence = protocol.number(message, "fence")
        self._check_holder(key, (one.life(name, fence) for one in (self._authority, *self._former)))
        if kind == "ping":
            number = protocol.number(message, "ping")
            self._send(client, "pong", ping=number, server=self.id, stalls=self.stalls, synced=name in self._synced)
            self._may_write(client, name, fence)  # a connection that was cut may have lost the last of what was saved
        elif kind == "open":
            self._commit(saves)  # what came before belongs to the restore point
            checkpoint, answer = (protocol.number(message, one, 0) for one in ("checkpoint", "answer"))
            wanted = _wanted(message) if message.get("fetch") else Wanted.NOTHING
            self._open(client, name, fence, wanted, checkpoint, answer)
        elif kind == "read":
            of = protocol.text(message, "of", NAME_BYTES_MAX)
            above, answer = (protocol.number(message, one, 0) for one in ("above", "answer"))
            if task_of(of) != task_of(name):
                raise FrameError(f"a request of {name[:80]!r} for the records of {of[:80]!r}, another task")
            self._commit(saves)
            self._read(client, of, _wanted(message), above, answer)
        elif kind == "origins":
            origins = protocol.origins(message, fence)
            self._commit(saves)
            if self._may_write(client, name, fence):
                self._go_on_from(client, name, origins)
        elif kind == "synced":
            stalls = protocol.number(message, "stalls")
            self._commit(saves)
            if self._may_write(client, name, fence) and stalls == self.stalls:
                self._synced.add(name)
        elif kind == "save":
            body = protocol.check_body(frames[2:])
            sequence = protocol.number(message, "seq")
            floor, since = (protocol.number(message, one, 0) for one in ("floor", "since"))
            save = Save(client, sequence, self._head(message, name, fence), body, floor, since)
            if self._may_write(client, name, fence):
                saves.append(save)
        else:
            raise FrameError(f"a message of type {kind[:40]!r}")

    def _check_holder(self, key: str, pairs: Iterable[KeyPair]) -> None:
        """An incarnation reads its own task's records and writes its own, and only clients ask about all of them."""
        if key.encode() not in (pair.public for pair in pairs):
            self.intruders += 1
            raise FrameError("a request of somebody whose key does not permit it")

    def _answer(self, client: bytes, message: dict[str, Any], saves: list[Save]) -> None:
        """Serve a client that is no worker."""
        if message["type"] == "status":
            self._send(client, "status", **self.status())
            return
        self._commit(saves)  # what came before is forgotten too
        self._forget(client, protocol.text(message, "job", NAME_BYTES_MAX))

    def _head(self, message: dict[str, Any], name: str, fence: int) -> Head:
        kind, incarnation = message.get("kind"), protocol.number(message, "incarnation")
        if kind not in KINDS or kind == "fence" or incarnation > fence:
            raise FrameError(f"a record of kind {str(kind)[:40]!r} and incarnation {incarnation}")
        return Head(kind, name, incarnation, protocol.number(message, "number"), protocol.number(message, "epoch"))

    def _forget(self, client: bytes, job: str) -> None:
        """Delete a job's logs; workers that still write them are over."""
        for name in [name for name in self._writers if job_of(name) == job]:
            del self._writers[name]
            self._synced.discard(name)
            self._stale.pop(name, None)
        try:
            logs = self.store.forget(job)
            self._make_durable()
        except OSError as error:
            self._say_full(error)
            return
        self._over[job] = None
        while len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]
        self._send(client, "forgot", job=job, logs=logs)

    def _is_over(self, name: str) -> bool:
        """True when the worker's job was forgotten, as far as this process or its storage remembers."""
        return job_of(name) in self._over or self.store.is_forgotten(name)

    def _may_write(self, client: bytes, name: str, fence: int) -> bool:
        if fence == self.store.fence(name) and client == self._writers.get(name):
            return True
        self._refuse(client, name, fence)
        return False

    def _refuse(self, client: bytes, name: str, fence: int) -> None:
        """An incarnation that is over may not write; one that has not opened on this connection must do so first."""
        known = FENCE_MAX if self._is_over(name) else self.store.fence(name)
        if fence < known:
            self.refused += 1
            self._send(client, "fenced", name=name, fence=known)
        else:
            self._send(client, "unknown", name=name)

    def _open(self, client: bytes, name: str, fence: int, wanted: Wanted, checkpoint: int, answer: int) -> None:
        if fence < self.store.fence(name) or self._is_over(name):
            self._refuse(client, name, fence)
            return
        if fence > self.store.fence(name):
            self._stale[name] = name not in self._synced
            try:
                self.store.begin_incarnation(name, fence)
                self._make_durable()
            except OSError as error:
                self._say_full(error)
        self._synced.discard(name)
        self._writers[name] = client
        dropped: list[str] = []
        try:
            given = self._give(client, answer, wanted, name, checkpoint, dropped)
        except OSError as error:
            self._say_unreadable(error)
            self._send(client, "unreadable", answer=answer, reason=self.unreadable)
            return
        self._send(
            client, "opened", answer=answer, name=name, server=self.id, stalls=self.stalls, **given,
            origins=self.store.origins(name),
            newest=max(((fence, sequence) for _, _, fence, sequence, _ in given["records"]), default=(0, 0)),
            stale=self._stale.get(name, True), dropped="; ".join(filter(None, (self.store.damage, *dropped))),
        )  # fmt: skip

    def _go_on_from(self, client: bytes, name: str, origins: Sequence[Origin]) -> None:
        try:
            self.store.go_on_from(name, origins)
            self._make_durable()
        except OSError as error:
            self._shut_out(error, {name: client})

    def _read(self, client: bytes, of: str, wanted: Wanted, above: int, answer: int) -> None:
        """Another copy of the task asks. Nothing follows from it for the worker whose records they are."""
        dropped: list[str] = []
        if self.store.newest_epoch(of) <= above:
            wanted = Wanted.NOTHING
        try:
            given = self._give(client, answer, wanted, of, 0, dropped)
        except OSError as error:
            self._say_unreadable(error)
            given, dropped = {"records": []}, [self.unreadable]
        self._send(client, "found", answer=answer, of=of, **given, dropped="; ".join(dropped))

    def _give(
        self, client: bytes, answer: int, wanted: Wanted, name: str, checkpoint: int, dropped: list[str]
    ) -> dict[str, Any]:
        """Name the records of a restore point, or send their bodies; the fields that tell the client of them. OSError
        where one cannot be read."""
        if wanted is Wanted.NOTHING:
            return {"records": []}
        folder, live = self.store.segments.storage.folder, self.store.live(name, checkpoint)
        if wanted is Wanted.PLACES and folder and len(live) <= PLACES_MAX:
            told, places = named(live)
            return {"records": told, "places": places, "directory": folder}
        restore = self.store.parts(name, checkpoint, dropped) if checkpoint else self.store.restore(name, dropped)
        return {"records": self._send_bodies(client, answer, restore)}

    def _send_bodies(self, client: bytes, answer: int, records: Iterator[tuple[Head, memoryview]]) -> list[list[Any]]:
        """Send the bodies of records, each once it has been read; what they are, each with its size."""
        told: list[list[Any]] = []

        def bodies() -> Iterator[memoryview]:
            for head, body in records:
                told.append(about(head, len(body)))
                yield body

        for sizes, frames in pieces_of(bodies()):
            self._router.send_multipart(
                [client, protocol.pack("piece", answer=answer, sizes=sizes), *frames], copy=False
            )
        self.unreadable = ""
        return told

    def _commit(self, saves: list[Save]) -> None:
        """Write a group, make it as durable as was asked, and acknowledge it; no group is left behind."""
        if saves:
            group = list(saves)
            saves.clear()
            self._write(group)

    def _write(self, saves: list[Save]) -> None:
        try:
            self.store.append([(save.head, [frame.buffer for frame in save.body]) for save in saves])
            self._make_durable()
        except OSError as error:
            self._shut_out(error, {save.head.name: save.client for save in saves})
            return
        self.full = ""
        self.groups += 1
        self.records += len(saves)
        since = {save.head.name: save.since for save in saves if save.since}
        for save in {save.head.name: save for save in saves}.values():  # the last of each acknowledges those before it
            self.store.release(save.head.name, save.floor, since.get(save.head.name, 0))
            self._send(save.client, "saved", name=save.head.name, seq=save.sequence)

    def _shut_out(self, error: OSError, clients: Mapping[str, bytes]) -> None:
        """Tell workers, by their names, that nothing of theirs was kept: what follows would leave a gap."""
        self._say_full(error)
        for name, client in clients.items():
            self._synced.discard(name)
            self._writers.pop(name, None)
            self._send(client, "full", name=name, reason=self.full)

    def _say_full(self, error: OSError) -> None:
        if not self.full:
            logger.error("nothing can be written: %s; records are not acknowledged until it can", error)
        said = no_space(error)
        self.full = str(said.args[0] if said else error)

    def _say_unreadable(self, error: OSError) -> None:
        """Note that records cannot be read: they may be whole, and what is older, if served, would cut them off."""
        if not self.unreadable:
            logger.error("records cannot be read: %s; who asks for them is given nothing until they can", error)
        self.unreadable = str(error)

    def _make_durable(self) -> None:
        """Make the records appended just now durable, as was asked."""
        if self._durability == "always":
            self._sync()
        elif self._durability == "interval":
            self._sync_at = min(self._sync_at, time.monotonic() + self._interval_s)

    def _sync(self) -> None:
        self._sync_at = float("inf")
        self.store.segments.sync()
        self.syncs += 1

    def _begin_sync(self) -> bool:
        begun = self.store.segments.begin_sync()
        self.syncs += begun
        return begun

    def status(self) -> dict[str, Any]:
        """Counters of this process, and the store's contents."""
        counters = {"records": self.records, "groups": self.groups, "syncs": self.syncs, "refused": self.refused}
        more = {
            "malformed": self.malformed,
            "intruders": self.intruders,
            "full": self.full,
            "unreadable": self.unreadable,
            "damage": self.store.damage,
            "server": self.id,
        }
        return {**counters, **more, **self.store.statistics()}

    def _send(self, client: bytes, kind: str, /, **fields: Any) -> None:
        self._router.send_multipart([client, protocol.pack(kind, **fields)])


def _wanted(message: Mapping[str, Any]) -> Wanted:
    return Wanted.PLACES if message.get("here") else Wanted.BODIES
