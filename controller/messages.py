"""The wire form of control messages: one bounded msgpack map each, checked field by field, never unpickled."""

from __future__ import annotations

import math
from typing import Any

import msgpack

from riprap.codec.errors import FrameError
from riprap.codec.trust.keys import EVERYBODYS, SECRET_BYTES

MESSAGE_BYTES_MAX = 1024 * 1024
CHANNEL_BYTES_MAX = 512 * 1024  # a packet of a worker's channel
TEXT_MAX = 64 * 1024
GAP = " ... "
COUNT_MAX = 2**62

Message = dict[str, Any]


def pack(message: Message, limit: int = MESSAGE_BYTES_MAX) -> bytes:
    """The bytes of a message. Raises FrameError when it is over the limit, or holds what msgpack cannot carry."""
    try:
        data = msgpack.packb(message, default=_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"a control message cannot be packed: {error}") from error
    if len(data) > limit:
        raise FrameError(f"a control message of {len(data)} bytes is over the limit of {limit}")
    return bytes(data)


def unpack(data: bytes, limit: int = MESSAGE_BYTES_MAX) -> Message:
    """The map in `data`, which has a string `type`. Raises FrameError for anything else, and nothing but that."""
    if len(data) > limit:
        raise FrameError(f"a control message of {len(data)} bytes is over the limit of {limit}")
    try:
        message = msgpack.unpackb(data, strict_map_key=True, max_ext_len=0)
    except Exception as error:  # msgpack raises many kinds; a stranger's bytes may provoke any
        raise FrameError(f"not msgpack: {error.__class__.__name__}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise FrameError("a control message is a map with a type")
    return message


def sayable(words: str, most: int = TEXT_MAX) -> str:
    """As a message can hold them: without the middle of what is longer than `most` characters, with escapes for
    what is no Unicode, such as the bytes of a file's name."""
    words = words.encode(errors="backslashreplace").decode()
    half = most // 2 - len(GAP)
    return words if len(words) <= most else f"{words[:half]}{GAP}{words[-half:]}"


def text(message: Message, name: str, default: str | None = None) -> str:
    """A string field; FrameError when it is missing (and there is no default) or not a string."""
    value = message.get(name, default)
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise FrameError(f"{name} must be a string")
    return value


def texts(message: Message, name: str) -> list[str]:
    """A list of strings; FrameError when it is missing, or something else."""
    value = message.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) and len(one) <= TEXT_MAX for one in value):
        raise FrameError(f"{name} must be a list of strings")
    return value


def secret(message: Message) -> bytes:
    """A cluster's secret; FrameError when it is missing or none."""
    value = message.get("secret")
    if not isinstance(value, bytes) or len(value) != SECRET_BYTES or value == EVERYBODYS:
        raise FrameError(f"secret must be {SECRET_BYTES} bytes")
    return value


def count(message: Message, name: str, default: int | None = None) -> int:
    """A non-negative integer field; FrameError when it is missing (and there is no default) or anything else."""
    value = message.get(name, default)
    if value.__class__ is not int or not 0 <= value <= COUNT_MAX:
        raise FrameError(f"{name} must be a count")
    return value


def moment(message: Message, name: str) -> float:
    """A finite number, 0 when absent; FrameError when it is something else."""
    value = message.get(name, 0.0)
    if value.__class__ not in (int, float) or not math.isfinite(value):
        raise FrameError(f"{name} must be a number")
    return float(value)


def mapping(message: Message, name: str) -> dict[Any, Any]:
    """A map field, empty when absent; FrameError when it is something else."""
    value = message.get(name, {})
    if not isinstance(value, dict):
        raise FrameError(f"{name} must be a map")
    return value


def _plain(value: Any) -> Any:
    """A NumPy scalar as its Python number; TypeError for anything else."""
    item = getattr(value, "item", None)
    if not callable(item):
        raise TypeError(f"{type(value).__name__} is not a plain value")
    return item()
