"""The messages of clients and servers: a small msgpack map, and the bodies of records behind it, in frames.

client: open(name, fence, fetch,     server: piece(answer, sizes)..., opened(answer, server, stalls, newest, origins,
             here, checkpoint, answer)       stale, records, dropped, places?, directory?) | fenced(fence)
                                             | unreadable(answer, reason), ask again
        save(name, fence, seq,               saved(name, seq), all up to seq | unknown(name), open first | fenced(fence)
             incarnation, number, epoch,     | full(name, reason), nothing of it was kept
             kind, floor, since)
        read(name, fence, of, above, here,   piece(answer, sizes)..., found(answer, of, records, dropped, places?,
             answer)                         directory?): the restore point of a copy of the same task, where its newest
                                             record is of a later epoch than `above`; nobody is fenced
        origins(name, fence, origins)        (records of incarnations behind what later ones went on from do not count)
        synced(name, fence, stalls)          (the client has brought this server up to date)
        ping(name, fence, ping)              pong(ping, server, stalls, synced), and behind it unknown(name) |
                                             fenced(fence) to who may not save
        status()                             status(...)
        forget(job)                          forgot(job): nothing is kept of its workers, who are fenced

`seq` orders what one client sends; (`incarnation`, `number`) is the record's own: a record that a later incarnation
sends to another server is the same record. Incarnations are told by their fences. `checkpoint` asks for the record of
that one instead of the newest state, and those of checkpoints below `floor` are needed no more, nor states and items of
epochs below `since`; 0 is none in all. A body is as many frames as it takes. Those of an answer come before it, in
pieces (pieces.py), under the number that the client has given to its question; `records` says how many bytes each body
has. Who is `here`, on the server's host, may be told where they stand instead, and is sent none (places.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack
import zmq

from riprap.backupserver.record import BODY_BYTES_MAX, ORIGINS_KEPT, Origin
from riprap.codec.errors import FrameError

HEAD_BYTES_MAX = 1 << 22
FRAME_BYTES_MAX = 1 << 20
"""The most bytes of a body's frame. libzmq takes a first frame of any permitted size from strangers too, so each of
their connections may cost as much. Bodies cut to this size take no measurable time; much smaller ones would."""
PIECE_BYTES = 1 << 22
"""The most bytes of an answer's frame, and about those of a piece: a client calls a few servers, and nobody calls it.
Larger bodies are put together there, by a copy. Much larger frames would be memory that is new each time, which costs
more than it saves."""
FRAMES_MAX = 1 << 16
"""The most frames of one body: a few thousand full ones, and the small arrays of a state."""
SEAL_BYTES_MAX = 256
"""Bytes that CURVE adds to a frame: 33 (https://rfc.zeromq.org/spec/26/)."""


def bound_frames(socket: zmq.Socket[Any], bytes_max: int) -> None:
    """Hang up on whoever announces a larger frame, before any of it is read. Call it before `bind` or `connect`."""
    socket.setsockopt(zmq.MAXMSGSIZE, bytes_max + SEAL_BYTES_MAX)


def frames_of(body: Iterable[Any], bytes_max: int = FRAME_BYTES_MAX) -> list[Any]:
    """The buffers of a body as frames; larger ones are sliced, not copied."""
    frames: list[Any] = []
    for buffer in body:
        if len(buffer) <= bytes_max:
            frames.append(buffer)
        else:
            view = memoryview(buffer)
            frames += [view[at : at + bytes_max] for at in range(0, len(view), bytes_max)]
    return frames


def check_body(frames: Sequence[Any]) -> Sequence[Any]:
    """The frames of one body; FrameError when they are too many, or too large together."""
    size = sum(map(len, frames))
    if len(frames) > FRAMES_MAX or size > BODY_BYTES_MAX:
        raise FrameError(f"a record of {size} bytes in {len(frames)} frames")
    return frames


def pack(kind: str, /, **fields: Any) -> bytes:
    """The map of a message."""
    return bytes(msgpack.packb({"type": kind, **fields}))


def unpack(data: bytes) -> dict[str, Any]:
    """The map of a message; FrameError when it is none."""
    if len(data) > HEAD_BYTES_MAX:
        raise FrameError(f"a message of {len(data)} bytes")
    try:
        message = msgpack.unpackb(data)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"not a message: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise FrameError("a message is a map with a type")
    return message


def text(message: dict[str, Any], name: str, bytes_max: int) -> str:
    """A field that is a short text; FrameError."""
    value = message.get(name)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= bytes_max:
        raise FrameError(f"{name} is {str(value)[:80]!r}, not a short text")
    return value


def origins(message: dict[str, Any], fence: int) -> list[Origin]:
    """The origins of incarnations up to this one; FrameError."""
    told = message.get("origins")
    if not isinstance(told, list) or len(told) > ORIGINS_KEPT + 1:
        raise FrameError(f"origins are {str(told)[:80]}, not a list of at most {ORIGINS_KEPT + 1}")
    try:
        found = [Origin(*one) for one in told]
    except TypeError as error:
        raise FrameError(f"an origin is not made of {', '.join(Origin._fields)}: {error}") from error
    for origin in found:
        for name in origin._fields:
            number(origin._asdict(), name)
        if origin.by > fence:
            raise FrameError(f"an origin is of incarnation {origin.by}, after {fence}")
    return found


def number(message: dict[str, Any], name: str, default: int | None = None) -> int:
    """A field that is a whole number from 0 to 2**62; FrameError."""
    value = message.get(name, default)
    if value.__class__ is not int or not 0 <= value < 1 << 62:
        raise FrameError(f"{name} is {str(value)[:80]!r}, not a number of 0 or more")
    return int(value)
