"""Joins a worker to its backup servers: what a former incarnation saved comes in as blocks, what this one saves goes
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from riprap.backupserver.client import BackupClient  # here, so that the zygote has it when a worker is restored
from riprap.backupserver.copies import CopyReader, newest_epoch
from riprap.backupserver.record import Record, RestorePoint
from riprap.codec.blocks import NO_KEY, Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.codec.trust.keys import WorkerKeys


class RecordStore(Protocol):
    """Keeps a worker's states and items (backupserver.BackupClient)."""

    @property
    def durable(self) -> int:
        """Everything saved up to this number is safe."""

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        """Take a record and return its number; 0, and nothing is taken, when too much is under way. States and items of
        epochs below `since` are needed no more."""

    @property
    def full(self) -> str:
        """Reason why nothing can be saved; empty while it can."""

    def use_keys(self, servers: Sequence[bytes]) -> None:
        """The servers may have these public keys from now on."""

    def recall(self, deadline_s: float, checkpoint: int = 0) -> RestorePoint:
        """A next incarnation's restore point, or part of a checkpoint, once all of it is safe; a RiprapError when
        it is not in time."""

    def release(self, floor: int) -> None:
        """Parts of checkpoints below this one are needed no more."""

    def close(self, deadline_s: float) -> bool:
        """Wait until everything saved is safe; False when it is not in time."""


class NoStore:
    """For jobs without backup servers: nothing is kept, and everything counts as safe."""

    durable = 0
    full = ""

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        """Forget a record."""
        self.durable += 1
        return self.durable

    def use_keys(self, servers: Sequence[bytes]) -> None:
        """There are no servers."""

    def recall(self, deadline_s: float, checkpoint: int = 0) -> RestorePoint:
        """Nothing was kept."""
        return RestorePoint()

    def release(self, floor: int) -> None:
        """Nothing was kept."""

    def close(self, deadline_s: float) -> bool:
        """There is nothing to wait for."""
        return True


class Restored(NamedTuple):
    """The records of a former incarnation: its newest state, and the items behind it."""

    state: Block | None = None
    items: Sequence[Block] = ()
    dropped: str = ""
    of: str = ""
    """The name under which another copy of the task has saved them; empty where they are the worker's own."""


def open_store(
    servers: Sequence[str],
    name: str,
    fence: int,
    keys: WorkerKeys,
    deadline_s: float,
    wake: Callable[[], None],
    checkpoint: int = 0,
    copies: Sequence[str] = (),
) -> tuple[RecordStore, Restored]:
    """Shut former incarnations of the worker out, and fetch what they saved, or their part of a checkpoint; without
    servers there is nothing. Where one of `copies`, names of records, has something newer, that is fetched instead.

    Raises a RiprapError that names the servers when they do not answer in time.
    """
    if not servers:
        return NoStore(), Restored()
    client = BackupClient(servers, name, fence, keys, wake=wake, deadline_s=deadline_s)
    own = client.open(checkpoint)
    if copies:
        of, point = CopyReader(servers, name, fence, keys).newest(copies, newest_epoch(own))
        if of:
            return client, restored(point)._replace(of=of)
    return client, restored(own)


def restored(point: RestorePoint) -> Restored:
    """A restore point as blocks."""
    state = None if point.state is None else _block(point.state)
    return Restored(state, [_item(record) for record in point.items], point.dropped)


def _block(record: Record) -> Block:
    return Block(Kind.FEEDBACK, Epoch(record.epoch), arrays=tuple(record.arrays), meta=record.meta)


def _item(record: Record) -> Block:
    """A persisted data block as it was received; its key stands in the record's fields. What else a record means, its
    scheme says (engine/schemes/parts/recorder.py)."""
    meta, arrays = dict(record.meta), tuple(record.arrays)
    key = Key(*meta.pop("key", NO_KEY))
    return Block(Kind.DATA, Epoch(record.epoch), key, len(arrays[0]) if arrays else 0, arrays, meta=meta)
