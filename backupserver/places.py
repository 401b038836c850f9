"""Records that are named, not sent: a client on the server's host reads them where they stand in the log.

A large state crosses no socket then, and is neither encrypted nor copied. What is found is checked as a server checks
what it reads, and it must be what the server named. Where it is not to be had (another mount namespace, other rights, a
storage that is no directory, damage) the client asks again, to be sent it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from riprap.backupserver.record import HEADER, TAIL, Head, read

if TYPE_CHECKING:
    from riprap.backupserver.store import LiveRecord  # the server's alone

PLACES_MAX = 4096
"""Records that are named at once; of more, most are small."""


class Unreadable(Exception):
    """Records that were named are not to be had, or are others."""


def about(head: Head, nbytes: int) -> list[Any]:
    """The words of an answer on a record with a body of so many bytes."""
    return [head.kind, head.epoch, head.fence, head.sequence, nbytes]


def named(entries: Sequence[LiveRecord]) -> tuple[list[list[Any]], list[list[Any]]]:
    """The words of an answer on live records, and their places."""
    beside = HEADER.size + TAIL.size
    told = [about(head, place.length - beside - len(head.name.encode())) for head, place in entries]
    return told, [list(place) for _, place in entries]


def bodies_at(directory: Any, name: str, records: Sequence[Any], places: Any) -> list[memoryview]:
    """The bodies of a worker's records, mapped; Unreadable."""
    if not isinstance(directory, str) or not isinstance(places, list) or len(places) != len(records):
        raise Unreadable(f"{str(places)[:80]} in {str(directory)[:80]}, for {len(records)} records")
    files: dict[str, memoryview] = {}
    bodies = []
    for told, place in zip(records, places, strict=True):
        match place:
            case [str(segment), int(offset), int(length)] if os.path.basename(segment) == segment and offset >= 0:
                if segment not in files:
                    files[segment] = _mapped(os.path.join(directory, segment))
                bodies.append(_body(files[segment], offset, length, name, told))
            case _:
                raise Unreadable(f"no place in a log: {str(place)[:80]}")
    return bodies


def _mapped(path: str) -> memoryview:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return memoryview(mmap.mmap(file, 0, prot=mmap.PROT_READ))
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error


def _body(data: memoryview, offset: int, length: int, name: str, told: Any) -> memoryview:
    found = read(data[offset : offset + length])
    if found is None or found[0].name != name or about(found[0], len(found[1])) != told:
        raise Unreadable(f"damaged, or another record than {str(told)[:80]} of {name}, at {offset}")
    return found[1]
