"""The records of the persisting schemes: states, whole or in part, and blocks; and how they come back.

Records of the backup server have an epoch, and a "state" supersedes the items up to its own, but states that are too
large to be saved whole again and again are items too, and say since which epoch items are needed. Blocks are numbered
in the order of their receipt, so twice that number is the epoch of a saved block, and that of a whole state is twice
the number of the last block that it includes: what it does not include survives it. Partial states lie between. Each
part builds on the record before it, of the same incarnation or of the one that was restored, back to a whole one, or to
the first of a round of slices (parts/copies.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import WINDOW, LinkKey, TaskProgress, number_of
from riprap.engine.schemes.parts.copies import Copies, bytes_of, slice_fields, sliced
from riprap.operators.states.base import Backup, Sliced, State

Extras = Iterable[tuple[LinkKey, Block]]


def _is_whole(record: Block, state: Block | None) -> bool:
    """True of one that builds on none; of former versions' records that is told by their kind, which `state` has."""
    return record is state or record.meta.get("builds_on") == 0


class Base(NamedTuple):
    """A record that others build on, by its version. What is of epochs below `since` they do not need."""

    version: int
    since: int


class Recorder:
    """Saves for one task. What the store does not take at once is kept and tried again; `full` says so.

    `notes` says what else a new incarnation must know.
    """

    def __init__(
        self, port: Port, progress: TaskProgress, state: State | None, notes: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.port, self.progress, self.state, self._notes = port, progress, state, notes
        self._copies: Copies[Base] = Copies(state)
        self.state_number = 0
        """The record of the newest state."""
        self.size = 0
        """The bytes of the newest state or progress."""
        self._waiting: deque[tuple[str, Epoch, dict[str, Any], Sequence[np.ndarray], int]] = deque()
        self._version = self._builds_on = 0
        """The number of the newest record among all that a task's incarnations save, and of the one to build on."""
        self._goes_on_from_another = False
        """Another copy's records were restored: the next one must supersede all that this one's incarnations saved."""
        self._written: set[tuple[LinkKey, int]] = set()
        """Blocks not arrived that are in a record which all later ones build on."""

    @property
    def full(self) -> bool:
        """True when a state waits for room in the store."""
        return bool(self._waiting)

    @property
    def needs_base(self) -> bool:
        """True when so much was saved that all of the state is to be saved anew, in one record or in slices: nothing
        else lets the servers forget what came before."""
        return self._copies.is_base_due

    @property
    def needs_state(self) -> bool:
        """True when progress is not to be saved alone: nothing is saved yet that it could build on, or too much."""
        return self.state is not None and (self._copies.base is None or self.needs_base)

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
            size = bytes_of(arrays)
            self.port.count("item_backup_bytes", size)
            self.note_saved(size)
        return bool(entry.record)

    def note_saved(self, size: int) -> None:
        """One record more was saved, of so many bytes, that the next whole state supersedes."""
        self._copies.note_more(size)

    def go_on_from(self, recovered: Recovered) -> None:
        """This was restored. Of a large state the next record holds the changes alone; of others it is a whole one,
        which supersedes all that was saved, and so it is where the records are those of another copy, which this one's
        cannot build on."""
        self._version = recovered.latest
        self._goes_on_from_another = recovered.author not in ("", self.port.author)
        if recovered.author != self.port.author or recovered.base is None or not recovered.copies:
            return
        if self._copies.go_on(recovered.base, recovered.copies):
            self._builds_on = recovered.version
            self._written = {(link, number_of(block)) for link, block in recovered.extras}

    def holds(self, link: LinkKey, block: Block) -> bool:
        """True when the newest record, durable or not, lets a new incarnation put this block out again."""
        return (link, number_of(block)) in self._written

    def save_progress(self, extras: Extras) -> None:
        """Save progress alone, between two states: windows that are closed, and what was put out. Without a state it
        is all there is; before the first state is saved, that is saved with it, for it is worth nothing alone."""
        self._save_alone(extras, "progress")

    def save_output(self, extras: Extras) -> None:
        """The same, however far the state may be from what is durable: feedback that only the present state includes is
        not said to have come. Whoever fed it back sends it again, for it is not acknowledged."""
        self._save_alone(extras, "output")

    def _save_alone(self, extras: Extras, what: str) -> None:
        if self.state is not None and self._copies.base is None:
            self.save_state(extras)
            return
        self._save(Sliced(Backup(self.state is None and self._copies.is_whole_due, ())), extras, what)

    def copy_state(self) -> Backup | None:
        """All of the state, for something else than a record; None without a state."""
        if self.state is None:
            return None
        if (copied := self.state.copy_all()) is not None:
            return copied
        self._copies.lose()  # what it takes in is in no record
        return self._copies.copy_whole().backup

    def save_state(self, extras: Extras) -> None:
        """Save the state, whole or in part, and all progress; `extras` are the blocks that have not arrived yet."""
        if self.state is None:
            self.save_progress(extras)
            return
        self._save(self._copies.copy(), extras, "state")
        self.port.count("state_backups")

    def _save(self, found: Sliced, extras: Extras, what: str) -> None:
        self._version += 1
        full = found.backup.full
        blocks, pending = self._unwritten(extras, full or self._copies.begins_round(found))
        arrays, waiting = list(found.arrays), []
        for link, block in blocks:
            waiting.append([list(link), *fields_of(block), len(block.arrays)])
            arrays += block.arrays
        meta: dict[str, Any] = {
            "progress": self.progress.pack(), "version": self._version, "what": what, "notes": self._notes(),
            "state": len(found.arrays), "slice": slice_fields(found), "extras": waiting,
            "types": [type_of(array) for array in arrays],
            "pending": [[list(link), number] for link, number in pending.items()],
        }  # fmt: skip
        arrays = [plain(array) for array in arrays]
        self.size = size = bytes_of(arrays)
        is_state = full and (self._goes_on_from_another or not self._copies.is_large_with(size))
        self._goes_on_from_another, kind = False, "state" if is_state else "item"
        epoch = Epoch(2 * self.progress.included + (kind == "item"))
        own = Base(self._version, epoch if kind == "item" else 0)
        base = self._copies.note(own, found, size - bytes_of(found.arrays))
        builds_on, self._builds_on = 0 if full else self._builds_on, self._version
        meta |= {"author": self.port.author, "builds_on": builds_on, "base": base.version}
        self._waiting.append((kind, epoch, meta, arrays, base.since))
        self.port.count("state_backup_bytes", size)
        self.retry()

    def _unwritten(self, extras: Extras, whole: bool) -> tuple[list[tuple[LinkKey, Block]], dict[LinkKey, int]]:
        """Of these blocks those that are in no record that this one builds on, and the first number of each link. A
        whole one builds on none, and one that begins a round must do without those before it."""
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
        self.copies: list[Sliced] = []
        """The state is that of these."""
        self.base: Base | None = None
        """The oldest record that is needed."""
        self.progress: TaskProgress | None = None
        self._extras: dict[tuple[LinkKey, int], Block] = {}
        self.entries: list[Entry] = []
        self.version = self.latest = 0
        """Of the newest record that all is there of, and of the newest of all."""
        self.author = ""
        """The worker that saved the newest record."""
        self.notes: dict[str, Any] = {}
        self._processed: dict[int, int] = {}  # up to where all was, when a block was saved
        for record in records:
            if "number" in record.meta:
                self.entries.append(_entry(record))
                self._processed[record.meta["number"]] = record.meta["included"]
        parts = [record for record in records if "version" in record.meta]
        if state is not None:
            parts.append(state)
        self.latest = max((part.meta["version"] for part in parts), default=0)
        chain = _chain(parts, state)
        if chain:
            self.base = Base(chain[0].meta["version"], 0 if chain[0] is state else int(chain[0].epoch))
        for part in chain:
            self._take(part, _is_whole(part, state))
        self.entries.sort(key=lambda entry: entry.number)

    def _take(self, part: Block, whole: bool) -> None:
        arrays, count, before = restored(part), part.meta["state"], self.progress
        self.version, self.progress = part.meta["version"], TaskProgress.unpack(part.meta["progress"])
        self.author, self.notes = part.meta.get("author", ""), part.meta["notes"]
        if part.meta["what"] == "state":
            self.copies.append(sliced(arrays[:count], part.meta.get("slice", ()), whole))
        elif before is not None and self.copies:  # the state is still that of before
            self.progress.included, self.progress.partial = before.included, before.partial
            self.progress.done, self.progress.heard = before.done, before.heard
            if part.meta["what"] == "output":
                self.progress.feedback = before.feedback
        for link, *fields, width in part.meta["extras"]:
            block = block_of(fields, arrays[count : count + width])
            self._extras[tuple(link), number_of(block)] = block
            count += width
        first = {tuple(link): number for link, number in part.meta["pending"]}
        self._extras = {key: block for key, block in self._extras.items() if key[1] >= first.get(key[0], math.inf)}

    @property
    def since(self) -> int:
        """Records of epochs below this one are superseded, though a server that was started again may have them."""
        return 0 if self.base is None else self.base.since

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


def _base_of(record: Block) -> int | None:
    """The version of the oldest record that this one builds on."""
    base = record.meta.get("base")
    return int(base[-1]) if isinstance(base, list) else base  # for a while it stood behind an incarnation


def _before(record: Block) -> int:
    """The version of the record that this one builds on."""
    tells = isinstance(record.meta.get("base"), int)
    return int(record.meta["builds_on"] if tells else record.meta["version"] - 1)


def _chain(parts: Sequence[Block], state: Block | None) -> list[Block]:
    """The newest record that all is there of, behind all that it builds on; that begins with the whole state, or with a
    round of slices."""
    there = {record.meta["version"]: record for record in parts}
    for newest in sorted(there, reverse=True):
        version, chain = newest, [there[newest]]
        base = _base_of(chain[0])
        while not (found := version == base or _is_whole(chain[-1], state)):
            if (version := _before(chain[-1])) not in there:
                break
            chain.append(there[version])
        if found:
            return chain[::-1]
    return []


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
    if state is not None and recovered.copies:
        state.recover_chain(recovered.copies)
    progress.failures.append(progress.begun)
