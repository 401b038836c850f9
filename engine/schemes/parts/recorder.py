"""The records of the persisting schemes: states, whole or in part, and blocks; and how they come back.

Records of the backup server have an epoch, and a "state" supersedes the items up to its own. Blocks are numbered in the
order of their receipt, so twice that number is the epoch of a saved block, and that of a whole state is twice the
number of the last block that it includes: what it does not include survives it. Partial states lie between.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import WINDOW, LinkKey, TaskProgress, number_of
from riprap.operators import returns
from riprap.operators.states.base import Backup, State

Extras = Iterable[tuple[LinkKey, Block]]

PARTS_MAX = 256
PARTS_BYTES = 1 << 20
"""Partial states are saved until they and the blocks saved since are larger than the last whole one and this, or more
than those: only a whole one lets the backup server forget what came before."""


class Recorder:
    """Saves for one task. What the store does not take at once is kept and tried again; `full` says so.

    `notes` says what else a new incarnation must know.
    """

    def __init__(
        self, port: Port, progress: TaskProgress, state: State | None, notes: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.port, self.progress, self.state, self._notes = port, progress, state, notes
        self.state_number = 0
        """The record of the newest state."""
        self.size = 0
        """The bytes of the newest state or progress."""
        self._waiting: deque[tuple[str, Epoch, dict[str, Any], Sequence[np.ndarray]]] = deque()
        self._version = 0
        self._whole_bytes, self._part_bytes, self._parts = -1, 0, 0
        self._written: set[tuple[LinkKey, int]] = set()
        """Blocks not arrived that are in a record since the last whole one."""

    @property
    def full(self) -> bool:
        """True when a state waits for room in the store."""
        return bool(self._waiting)

    def save_block(self, entry: Entry) -> bool:
        """Save a received block; False when the store has no room."""
        block = entry.block
        meta = {"block": fields_of(block), "link": list(entry.link), "number": entry.number, "stage": entry.stage}
        meta["included"] = self.progress.included
        arrays = [plain(array) for array in block.arrays]
        entry.record = self.port.save("item", Epoch(2 * entry.number), meta, arrays)
        if entry.record:
            kind = "punctuation" if is_punctuation(block) else "item"
            self.port.count(f"{kind}_backups", block.items or 1)
            size = sum(array.nbytes for array in arrays)
            self.port.count("item_backup_bytes", size)
            self.note_saved(size)
        return bool(entry.record)

    def note_saved(self, size: int) -> None:
        """So many bytes more were saved that the next whole state supersedes."""
        self._part_bytes += size

    def go_on_from(self, version: int) -> None:
        """A former incarnation has saved states up to this one."""
        self._version = version

    def holds(self, link: LinkKey, block: Block) -> bool:
        """True when the newest record, durable or not, lets a new incarnation put this block out again."""
        return (link, number_of(block)) in self._written

    def save_progress(self, extras: Extras) -> None:
        """Save progress alone, between two states: windows that are closed, and what was put out. Without a state it
        is all there is; before the first state is saved, that is saved with it, for it is worth nothing alone."""
        if self.state is not None and self._whole_bytes < 0:
            self.save_state(extras)
            return
        self._save(Backup(self.state is None and self._is_whole_due, ()), extras, "progress")

    def copy_state(self) -> Backup | None:
        """All of the state, for something else than a record: the next record is a whole one. None without a state."""
        if self.state is None:
            return None
        self._whole_bytes = -1
        return returns.backup(self.state, "backup_all", self.state.backup_all(), Backup)

    def save_state(self, extras: Extras) -> None:
        """Save the state, whole or in part, and all progress; `extras` are the blocks that have not arrived yet."""
        if self.state is None:
            self.save_progress(extras)
            return
        method = "backup_all" if self._is_whole_due else "backup_state"
        backup = returns.backup(self.state, method, getattr(self.state, method)(), Backup)
        self._save(backup, extras, "state")
        self.port.count("state_backups")

    @property
    def _is_whole_due(self) -> bool:
        much = self._part_bytes > max(self._whole_bytes, PARTS_BYTES)
        return self._whole_bytes < 0 or self._parts >= PARTS_MAX or much

    def _save(self, backup: Backup, extras: Extras, what: str) -> None:
        self._version += 1
        blocks, pending = self._unwritten(extras, backup.full)
        meta: dict[str, Any] = {"progress": self.progress.pack(), "version": self._version, "what": what}
        arrays, waiting = list(backup.arrays), []
        for link, block in blocks:
            waiting.append([list(link), *fields_of(block), len(block.arrays)])
            arrays += block.arrays
        meta |= {"state": len(backup.arrays), "extras": waiting, "types": [type_of(array) for array in arrays]}
        meta["pending"] = [[list(link), number] for link, number in pending.items()]
        meta["notes"] = self._notes()
        arrays = [plain(array) for array in arrays]
        self.size = size = sum(array.nbytes for array in arrays)
        if backup.full:
            self._whole_bytes, self._part_bytes, self._parts = size, 0, 0
        else:
            self._part_bytes, self._parts = self._part_bytes + size, self._parts + 1
        epoch = 2 * self.progress.included + (not backup.full)
        self._waiting.append(("state" if backup.full else "item", Epoch(epoch), meta, arrays))
        self.port.count("state_backup_bytes", size)
        self.retry()

    def _unwritten(self, extras: Extras, whole: bool) -> tuple[list[tuple[LinkKey, Block]], dict[LinkKey, int]]:
        """Of these blocks those that are in no record since the last whole one, and the first number of each link."""
        before, self._written = set() if whole else self._written, set()
        fresh: list[tuple[LinkKey, Block]] = []
        first: dict[LinkKey, int] = {}
        for link, block in extras:
            number = number_of(block)
            self._written.add((link, number))
            first[link] = min(number, first.get(link, number))
            if (link, number) not in before:
                fresh.append((link, block))
        return fresh, first

    def retry(self) -> None:
        """Save what waits, if there is room now."""
        while self._waiting and (number := self.port.save(*self._waiting[0])):
            self.state_number = number
            self._waiting.popleft()


def fields_of(block: Block) -> list[Any]:
    """A block but for its arrays, as fields of a record."""
    return [int(block.kind), list(block.key), block.epoch, block.items, block.meta]


def block_of(fields: Sequence[Any], arrays: Sequence[np.ndarray]) -> Block:
    """The block of which these are the fields."""
    kind, key, epoch, items, meta = fields
    return Block(Kind(kind), Epoch(epoch), Key(*key), items, tuple(arrays), meta=meta)


def plain(array: np.ndarray) -> np.ndarray:
    """The bytes of a structured array, which records do not hold; any other array as it is."""
    return np.ascontiguousarray(array).view(np.uint8) if array.dtype.names else array


def type_of(array: np.ndarray) -> list[list[str]]:
    """Names and types of the fields of a structured array; nothing of any other."""
    return [[name, array.dtype[name].str] for name in array.dtype.names or ()]


class HasArrays(Protocol):
    """A record that was read."""

    @property
    def meta(self) -> Mapping[str, Any]: ...

    @property
    def arrays(self) -> Sequence[np.ndarray]: ...


def restored(part: HasArrays) -> list[np.ndarray]:
    """The arrays of a record as they were."""
    types = [np.dtype([(name, code) for name, code in fields]) if fields else None for fields in part.meta["types"]]
    return [array if of is None else array.view(of) for array, of in zip(part.arrays, types, strict=True)]


class Recovered:
    """Records sorted out: backups of the state in their order, progress, extras, blocks by number."""

    def __init__(self, state: Block | None, records: Sequence[Block]) -> None:
        self.backups: list[Backup] = []
        self.progress: TaskProgress | None = None
        self._extras: dict[tuple[LinkKey, int], Block] = {}
        self.entries: list[Entry] = []
        self.version = 0
        self.notes: dict[str, Any] = {}
        self._processed: dict[int, int] = {}  # up to where all was, when a block was saved
        parts = [] if state is None else [(state, True)]
        for record in records:
            if "version" in record.meta:
                parts.append((record, False))
            elif "number" in record.meta:
                self.entries.append(_entry(record))
                self._processed[record.meta["number"]] = record.meta["included"]
        for part, whole in sorted(parts, key=lambda pair: pair[0].meta["version"]):
            self._take(part, whole)
        self.entries.sort(key=lambda entry: entry.number)

    def _take(self, part: Block, whole: bool) -> None:
        arrays, count, before = restored(part), part.meta["state"], self.progress
        if not whole and before is None:
            return  # a part of a state that is not here
        self.version, self.progress = part.meta["version"], TaskProgress.unpack(part.meta["progress"])
        self.notes = part.meta["notes"]
        if part.meta["what"] == "state":
            self.backups = [*([] if whole else self.backups), Backup(whole, tuple(arrays[:count]))]
        elif before is not None and self.backups:  # the state is still that of before
            self.progress.included, self.progress.partial = before.included, before.partial
            self.progress.done, self.progress.heard = before.done, before.heard
            self.progress.feedback = before.feedback
        if whole:
            self._extras.clear()
        for link, *fields, width in part.meta["extras"]:
            block = block_of(fields, arrays[count : count + width])
            self._extras[tuple(link), number_of(block)] = block
            count += width
        first = {tuple(link): number for link, number in part.meta["pending"]}
        self._extras = {key: block for key, block in self._extras.items() if key[1] >= first.get(key[0], math.inf)}

    @property
    def extras(self) -> list[tuple[LinkKey, Block]]:
        """Blocks not arrived, in the order in which each link put them out."""
        return [(link, self._extras[link, number]) for link, number in sorted(self._extras)]

    def unprocessed(self) -> list[Entry]:
        """The saved blocks that the state does not include, in the order of their receipt."""
        included = self.progress.included if self.progress else 0
        entries = [entry for entry in self.entries if entry.number > included and not entry.is_input]
        if self.progress is None:
            return entries
        for entry in entries:
            entry.first = self.progress.included_of(entry.link, entry.block)
        return [entry for entry in entries if not self._overtook(entry)]

    def _overtook(self, entry: Entry) -> bool:
        """True when this is feedback that was processed before what had come earlier."""
        done = self.progress.done.get(entry.link) if self.progress and entry.block.kind == Kind.FEEDBACK else None
        return done is not None and number_of(entry.block) <= done.at.number

    def latest_run(self) -> list[Entry]:
        """Of these the most recent consecutive ones (AF 3.4.3), and all punctuation.

        What came before a gap was processed when what follows it was saved; where it was not (feedback, or a former
        incarnation, lies between), it is no gap.
        """
        entries = self.unprocessed()
        start = len(entries) - 1
        while start > 0:
            number, before = entries[start].number, entries[start - 1].number
            if before < number - 1 and before <= self._processed[number]:
                break
            start -= 1
        return [entry for i, entry in enumerate(entries) if i >= start or is_punctuation(entry.block)]


def is_punctuation(block: Block) -> bool:
    """True when a block closes a window, or was put out when its sender closed one."""
    return block.kind == Kind.PUNCTUATION or tuple(block.meta.get("cause", ())[:2]) == WINDOW


def _entry(record: Block) -> Entry:
    meta = record.meta
    block = block_of(meta["block"], record.arrays)
    return Entry(meta["number"], tuple(meta["link"]), block, stage=meta["stage"], record=-1, acknowledged=True)


def take_over(progress: TaskProgress, recovered: Recovered, state: State | None) -> None:
    """Put what was saved back into a task's progress and its operator's state, and note the failure."""
    heard = progress.heard
    if recovered.progress is not None:
        vars(progress).update(vars(recovered.progress))
        progress.heard = heard | progress.heard
    for entry in recovered.entries:
        progress.received = max(progress.received, entry.number)
        known = progress.heard.get(entry.link)
        if not entry.is_input and known is not None and number_of(entry.block) > known.at.number:
            known.note(entry.block)
    if state is not None:
        for backup in recovered.backups:
            state.recover_state(backup)
    progress.failures.append(progress.epoch)
