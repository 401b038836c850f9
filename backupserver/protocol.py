"""What clients and servers say to each other: a small msgpack map, and the buffers of record bodies behind it.

client: open(name, fence, fetch)     server: opened(server, stalls, newest, stale, records, dropped) | fenced(fence)
        save(name, fence, seq, life,         saved(name, seq), all up to seq | unknown(name), open first | fenced(fence)
             number, epoch, kind)            | full(name, reason), nothing of it was kept
        synced(name, fence, stalls)          (the client has brought this server up to date)
        ping(name, fence, ping)              pong(ping, server, stalls, synced)
        status()                             status(...)
        forget(job)                          forgot(job): nothing is kept of its workers, who are fenced

`seq` orders what one client sends; (`life`, `number`) is the record's own: a record that a later life sends to another
server is the same record.
"""

from __future__ import annotations

from typing import Any

import msgpack

from codec.errors import FrameError

HEAD_BYTES_MAX = 1 << 22


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


def number(message: dict[str, Any], name: str) -> int:
    """A field that is a whole number from 0 to 2**62; FrameError."""
    value = message.get(name)
    if value.__class__ is not int or not 0 <= value < 1 << 62:
        raise FrameError(f"{name} is {str(value)[:80]!r}, not a number of 0 or more")
    return int(value)
