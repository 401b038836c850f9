"""Records in a backup server's store, with contents that follow from their numbers, and what it gives back of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from riprap.backupserver.body import pack_body, unpack_body
from riprap.backupserver.record import Head
from riprap.backupserver.store import Store

NAME, OTHER = "job/sink.0", "job/processor.1"
Found = tuple[int | None, list[tuple[int, int]]]


def body(value: float) -> list[Any]:
    return pack_body({"value": value}, [np.arange(3) + value, np.array([value])])


def save(store: Store, kind: str, epoch: int, sequence: int, name: str = NAME, fence: int = 1) -> None:
    store.append([(Head(kind, name, fence, sequence, epoch), body(epoch * 1000 + sequence))])


def found(store: Store, name: str = NAME) -> Found:
    """(epoch of the state, (epoch, sequence) of the items), after a check of every value."""
    state, items = None, []
    for head, content in store.restore(name, []):
        meta, arrays = unpack_body(content)
        value = head.epoch * 1000 + head.sequence
        assert meta == {"value": value} and np.array_equal(arrays[0], np.arange(3) + value) and arrays[1][0] == value
        if head.kind == "state":
            state = head.epoch
        else:
            items.append((head.epoch, head.sequence))
    return state, items


def closed(store: Store) -> None:
    store.segments.close()
