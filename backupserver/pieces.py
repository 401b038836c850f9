"""The bodies of an answer in pieces: each is sent as soon as it has been read, and put together as the pieces come, so
that a server that reads, what encrypts and decrypts, and the client that copies are all busy at once."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import zmq

from riprap.backupserver.places import bodies_at
from riprap.backupserver.protocol import PIECE_BYTES, frames_of, number
from riprap.backupserver.record import BODY_BYTES_MAX
from riprap.codec.errors import FrameError


def pieces_of(bodies: Iterable[memoryview]) -> Iterator[tuple[list[int], list[Any]]]:
    """Pieces of about PIECE_BYTES: the sizes of the bodies that begin in each, and frames, which are no copies."""
    sizes: list[int] = []
    frames: list[Any] = []
    held = 0
    for body in bodies:
        sizes.append(len(body))
        for frame in frames_of([body], PIECE_BYTES):
            frames.append(frame)
            held += len(frame)
            if held >= PIECE_BYTES:
                yield sizes, frames
                sizes, frames, held = [], [], 0
    if frames:
        yield sizes, frames


class Bodies:
    """The bodies of one answer, as far as they have come. Pieces of others are left out."""

    def __init__(self, answer: int) -> None:
        self._answer = answer
        self._done: list[memoryview] = []
        self._body: memoryview | None = None
        """The one under way, of which `_at` bytes are there."""
        self._at = 0

    def take(self, message: dict[str, Any], frames: Sequence[zmq.Frame]) -> None:
        """Take a piece in; FrameError when it does not go on from the one before."""
        if number(message, "answer") != self._answer:
            return
        sizes = message.get("sizes")
        if not isinstance(sizes, list):
            raise FrameError("a piece of an answer without sizes")
        begin = deque(sizes)
        for frame in frames:
            if self._body is None:
                if not begin:
                    raise FrameError(f"a frame of {len(frame)} bytes that no body has room for")
                self._begin(begin.popleft(), frame)
            else:
                self._fill(self._body, frame)
        if begin:
            raise FrameError("a piece of an answer whose bodies do not begin in it")

    def _begin(self, size: Any, frame: zmq.Frame) -> None:
        if len(frame) == size:
            self._done.append(frame.buffer)
            return
        if size.__class__ is not int or not 0 < size <= BODY_BYTES_MAX:
            raise FrameError(f"a body of {str(size)[:80]} bytes")
        self._body, self._at = memoryview(mmap.mmap(-1, size)), 0  # pages that are made as they are filled
        self._fill(self._body, frame)

    def _fill(self, body: memoryview, frame: zmq.Frame) -> None:
        end = self._at + len(frame)
        if end > len(body):
            raise FrameError(f"a body of {len(body)} bytes, and frames that do not make it up")
        body[self._at : end] = frame.buffer
        self._at = end
        if end == len(body):
            self._done.append(body)
            self._body = None

    def of(self, message: dict[str, Any], name: str) -> list[memoryview]:
        """Those of the records of an answer on a worker: sent before it, or named by it. FrameError as `whole`;
        Unreadable."""
        records = message["records"]
        if "places" in message:
            return bodies_at(message.get("directory"), name, records, message["places"])
        return self.whole([size for *_, size in records])

    def whole(self, sizes: Sequence[Any]) -> list[memoryview]:
        """All of them, which are not held here any longer; FrameError when they are not of these sizes."""
        if self._body is not None or [len(body) for body in self._done] != list(sizes):
            raise FrameError(f"{len(self._done)} bodies that are not those of the {len(sizes)} records of the answer")
        done, self._done = self._done, []
        return done
