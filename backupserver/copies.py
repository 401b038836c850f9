"""The records of a task's other copies, for a copy that begins: it need not go back to its own, where theirs are newer.

Nobody is shut out by it and nothing depends on it, so a server that is silent, or whose records are damaged, counts as
one that has none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from riprap.backupserver import protocol
from riprap.backupserver.body import unpack_body
from riprap.backupserver.peer import SILENCE_S, is_near
from riprap.backupserver.pieces import Bodies
from riprap.backupserver.places import Unreadable
from riprap.backupserver.record import Record, RestorePoint
from riprap.codec.errors import FrameError
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import WorkerKeys

ANSWER = 1
"""The number of the question; each connection asks one."""


class CopyReader:
    """Asks on behalf of one incarnation of a copy, `name` and `fence`."""

    def __init__(self, servers: Sequence[str], name: str, fence: int, keys: WorkerKeys) -> None:
        self._servers = sorted(servers, key=lambda address: not is_near(address))
        self._keys, self._who = keys, {"name": name, "fence": fence}

    def newest(self, copies: Sequence[str], above: int) -> tuple[str, RestorePoint]:
        """Of these names of records the one that has the newest, and its restore point; an empty name, and nothing,
        where none has a record of a later epoch than `above`."""
        best = "", RestorePoint()
        with zmq.Context() as context:
            for address in self._servers:
                for of in copies:
                    point = self._read(context, address, of, above)
                    if (epoch := newest_epoch(point)) > above:
                        best, above = (of, point), epoch
        return best

    def _read(self, context: zmq.Context[zmq.Socket[bytes]], address: str, of: str, above: int) -> RestorePoint:
        question = {**self._who, "of": of, "above": max(0, above), "answer": ANSWER}
        sockets = [context.socket(zmq.DEALER) for _ in self._keys.servers]
        try:
            for socket, key in zip(sockets, self._keys.servers, strict=True):  # it has one of them
                call_with(socket, self._keys.own, key)
                protocol.bound_frames(socket, protocol.PIECE_BYTES)
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(address)
                socket.send(protocol.pack("read", **question, here=is_near(address)))
            return next(self._answers(sockets, question), RestorePoint())
        finally:
            for socket in sockets:
                socket.close()

    def _answers(self, sockets: Sequence[zmq.Socket[bytes]], question: dict[str, Any]) -> Iterator[RestorePoint]:
        """Those that come, as long as nobody is silent for too long. Who names records that are not to be had is asked
        to send them."""
        poller, bodies = zmq.Poller(), {socket: Bodies(ANSWER) for socket in sockets}
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        deadline = time.monotonic() + SILENCE_S
        while (left_s := deadline - time.monotonic()) > 0:
            for socket, _ in poller.poll(int(left_s * 1000) + 1):
                frames = deque(socket.recv_multipart(copy=False))
                try:
                    message = protocol.unpack(frames.popleft().bytes)
                    if message["type"] != "piece":
                        yield _point(message, bodies[socket], question["of"])
                        continue
                    bodies[socket].take(message, frames)
                except Unreadable:
                    socket.send(protocol.pack("read", **question))
                except FrameError:
                    continue  # not one of our servers
                deadline = time.monotonic() + SILENCE_S


def newest_epoch(point: RestorePoint) -> int:
    """The epoch of the newest record; -1 where there is none."""
    records = [*point.items] if point.state is None else [point.state, *point.items]
    return max((record.epoch for record in records), default=-1)


def _point(message: dict[str, Any], bodies: Bodies, of: str) -> RestorePoint:
    """Whole, or nothing."""
    if message["type"] != "found" or message.get("of") != of:
        raise FrameError("not an answer")
    records = []
    for (kind, epoch, _, sequence, _), body in zip(message["records"], bodies.of(message, of), strict=True):
        meta, arrays = unpack_body(body)
        records.append(Record(kind, epoch, sequence, meta, arrays))
    if message["dropped"]:
        return RestorePoint()
    state = next((record for record in records if record.kind == "state"), None)
    return RestorePoint(state, [record for record in records if record.kind == "item"])
