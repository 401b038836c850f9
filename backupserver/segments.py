"""The log: records appended to segments, found again at the start whatever a crash or a bad disk did to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from riprap.backupserver import record as records
from riprap.backupserver.record import Head
from riprap.backupserver.storage import Storage

SEGMENT_BYTES = 64 << 20


class Place(NamedTuple):
    """The place of a record in the log."""

    segment: str
    offset: int
    length: int


class Sync(NamedTuple):
    """A sync under way, of a number of groups; once it is done, the segment that failed, and the reason."""

    groups: int
    failed: Future[tuple[str, OSError] | None]


def number_of(segment: str) -> int:
    """The number in the name of a segment; they grow."""
    stem = segment.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


class Segments:
    """Owned by the server's thread, except for the syncs, done on a thread of their own: a disk may take a second for
    what was written in a tenth of one. Invariant: `size` bytes of the active segment are whole records.
    """

    def __init__(self, storage: Storage, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.storage, self.segment_bytes = storage, segment_bytes
        self.active = ""
        self.size = 0
        self.damage: list[str] = []
        self.appended = 0
        """Number of groups appended."""
        self.synced = 0
        """Number of them that have been forced to disk."""
        self.failed: dict[str, int] = {}
        """Segments that a sync failed for, and of how many groups: what is needed of them is to be copied, once that
        many have been synced."""
        self._number = 0
        self._unsynced: dict[str, int] = {}  # segments, with the last group that each got
        self._syncing: Sync | None = None
        self._syncer = ThreadPoolExecutor(1, "sync")

    def scan(self) -> Iterator[tuple[Head, Place]]:
        """All whole records, in the order of their segments; damaged ones are noted in `damage` and left out."""
        for name in self.storage.names():
            self._number = max(self._number, number_of(name))
            yield from self._scan_segment(name)

    def _scan_segment(self, name: str) -> Iterator[tuple[Head, Place]]:
        data = memoryview(self.storage.read(name))
        offset = 0
        while offset < len(data):
            found = records.read_header(data, offset)
            if found is None or offset + found[2] > len(data):
                following = self._resynchronise(data, offset + 1)
                if following is None:
                    self.damage.append(f"{name}: {len(data) - offset} bytes behind offset {offset}, a torn tail")
                    return
                self.damage.append(f"{name}: {following - offset} bytes at offset {offset}")
                offset = following
                continue
            head, name_length, length = found
            whole = records.check(data[offset : offset + length], name_length)
            if whole is None or head is None:
                self.damage.append(f"{name}: a record of {length} bytes at offset {offset}")
            else:
                yield head._replace(name=whole[0]), Place(name, offset, length)
            offset += length

    def _resynchronise(self, data: memoryview, offset: int) -> int | None:
        """The offset of the next record whose header and body are whole."""
        content = bytes(data)
        while (offset := content.find(records.MAGIC, offset)) >= 0:
            found = records.read_header(data, offset)
            if found and offset + found[2] <= len(data) and records.check(data[offset : offset + found[2]], found[1]):
                return offset
            offset += 1
        return None

    def append(self, group: Sequence[tuple[Head, Sequence[Any]]]) -> list[Place]:
        """Append records with one write; OSError leaves the log as it was."""
        if not self.active or self.size >= self.segment_bytes or not self.storage.appends:
            self._number += 1
            self.active, self.size = f"{self._number:012d}.segment", 0
        buffers: list[Any] = []
        places, offset = [], self.size
        for head, body in group:
            packed = records.pack(head, body)
            length = sum(map(len, packed))
            buffers += packed
            places.append(Place(self.active, offset, length))
            offset += length
        try:
            self.storage.append(self.active, buffers, self.size)
        except OSError:
            self._undo()
            raise
        self.size = offset
        self.appended += 1
        self._unsynced[self.active] = self.appended
        return places

    def seal(self) -> None:
        """Let the next record begin a segment of its own."""
        self.active = ""

    @property
    def newest(self) -> int:
        """The number of the newest segment."""
        return self._number

    def _undo(self) -> None:
        try:
            self.storage.cut(self.active, self.size)
        except OSError:
            self.active = ""  # what is torn at its end is found by the next scan

    @property
    def syncing(self) -> bool:
        """True when a sync has been begun and not noted as done."""
        return self._syncing is not None

    def begin_sync(self) -> bool:
        """Start to force to disk what was appended; False while that is still being done for what came before."""
        if self.syncing:
            return False
        self._syncing = Sync(self.appended, self._syncer.submit(self._sync_all, list(self._unsynced)))
        return True

    def end_sync(self, wait: bool = False) -> None:
        """Take note of a sync that is done; `wait` blocks until it is.

        After an OSError the segment is not appended to any more, and has `failed`: the system may have given up pages
        that it could not write, while the next sync succeeds (https://wiki.postgresql.org/wiki/Fsync_Errors).
        """
        sync = self._syncing
        if sync is None or not (wait or sync.failed.done()):
            return
        failed, self._syncing = sync.failed.result(), None
        if failed:
            name, error = failed
            self.active = "" if name == self.active else self.active
            self.failed[name] = sync.groups
            raise error
        self.synced = sync.groups
        self._unsynced = {name: last for name, last in self._unsynced.items() if last > sync.groups}

    def sync(self) -> None:
        """Force everything appended to disk, and return when it is there; OSError as in `end_sync`."""
        self.end_sync(wait=True)
        self.begin_sync()
        self.end_sync(wait=True)

    def _sync_all(self, names: list[str]) -> tuple[str, OSError] | None:
        """On the syncer's thread: the first that fails, with the reason."""
        for name in names:
            try:
                self.storage.sync(name)
            except OSError as error:
                return name, error
        return None

    def close(self) -> None:
        """Give the storage back; a sync that is under way is waited for."""
        self._syncer.shutdown()
        self.storage.close()

    def read(self, place: Place) -> tuple[Head, memoryview] | None:
        """A record's head and body, None when it is damaged. OSError where it cannot be read, and may be whole."""
        return records.read(memoryview(self.storage.read(place.segment, place.offset, place.length)))

    def remove(self, name: str) -> None:
        """Delete a segment none of whose records are needed any more."""
        self._unsynced.pop(name, None)
        self.failed.pop(name, None)
        self.storage.remove(name)
