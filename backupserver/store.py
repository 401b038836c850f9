"""The live part of the log: per worker its fence, its two newest states, the items that either of them needs, and its
parts of checkpoints that are not released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.backupserver.record import ORIGINS_KEPT, Head, Origin
from riprap.backupserver.segments import SEGMENT_BYTES, Place, Segments, number_of
from riprap.backupserver.storage import Storage

STATES_KEPT = 2  # a damaged newest one falls back to the one before
COMPACT_SHARE = 0.5  # of a sealed segment's bytes; with fewer alive it is rewritten
COMPACT_STEP_BYTES = 8 << 20


class LiveRecord(NamedTuple):
    """A live record."""

    head: Head
    place: Place


@dataclass
class WorkerLog:
    """The live records of one worker. `items` and `checkpoints` by (fence, sequence); states the oldest first.

    `fences` by incarnation: the newest one's, and those of others that tell an origin.
    """

    fence: int = 0
    fences: dict[int, LiveRecord] = field(default_factory=dict)
    states: list[LiveRecord] = field(default_factory=list)
    items: dict[tuple[int, int], LiveRecord] = field(default_factory=dict)
    checkpoints: dict[tuple[int, int], LiveRecord] = field(default_factory=dict)

    def entries(self) -> list[LiveRecord]:
        """All live records."""
        return [*self.fences.values(), *self.states, *self.items.values(), *self.checkpoints.values()]

    def is_cut_off(self, head: Head) -> bool:
        """True of a state or an item that a later incarnation knew nothing of when it went on."""
        key = (head.fence, head.sequence)
        return head.fence < self.fence and any(origin.cuts_off(key) for origin in self.origins)

    @property
    def origins(self) -> list[Origin]:
        """All that are told, the oldest first."""
        told = (_origin(entry.head) for _, entry in sorted(self.fences.items()))
        return [origin for origin in told if origin is not None]

    def items_after(self, epoch: int) -> list[LiveRecord]:
        """The items of later epochs, in order."""
        return [item for _, item in sorted(self.items.items()) if item.head.epoch > epoch]


def job_of(name: str) -> str:
    """The job of a worker's log."""
    return name.rpartition("/")[0]


def _origin(fence: Head) -> Origin | None:
    """The origin that a fence tells; None where it was written before that was known."""
    return Origin(fence.fence, fence.epoch - 1, fence.sequence) if fence.epoch else None


def _uncovered(origins: Sequence[Origin]) -> list[Origin]:
    """Those that cut off something that no later one does."""
    return [one for i, one in enumerate(origins) if not any(later.covers(one) for later in origins[i + 1 :])]


def task_of(name: str) -> str:
    """The task of a worker's log, which its copies have in common (`codec.ids.WorkerId`)."""
    return name.partition("~")[0]


class Store:
    """Opens a storage, takes records, and gives them back. Not thread-safe."""

    def __init__(self, storage: Storage, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.segments = Segments(storage, segment_bytes)
        self.logs: dict[str, WorkerLog] = {}
        self._bytes: Counter[str] = Counter(dict.fromkeys(storage.names(), 0))  # of whole records, in each segment
        self._live: Counter[str] = Counter()
        self._forgotten: dict[str, LiveRecord] = {}  # jobs, with the record that says so
        self._dead: dict[str, int] = {}  # segments, with how many groups there were when the last record in them died
        self._unread: dict[str, int] = {}  # segments that could not be read, with the number of the newest one then
        for head, place in sorted(self.segments.scan(), key=lambda one: one[0].kind != "fence"):  # they say what counts
            self._bytes[place.segment] += place.length
            self._index(LiveRecord(head, place))
        self.damage = "; ".join(self.segments.damage)

    def fence(self, name: str) -> int:
        """The newest incarnation of a worker that was opened here; 0 for none."""
        return self.logs[name].fence if name in self.logs else 0

    def forget(self, job: str) -> int:
        """Drop the logs of all workers of a job; returns their number. OSError, with nothing dropped, if that cannot be
        written.

        A record says so as long as there are segments that may hold records of the job; its epoch is the last of these.
        """
        names = [name for name in self.logs if job_of(name) == job]
        if names and job not in self._forgotten:
            self.append([(Head("forget", job, 0, 0, self.segments.newest), [])])
            self.segments.seal()  # so that even the newest segment can be rewritten, and deleted
        return len(names)

    def is_forgotten(self, name: str) -> bool:
        """True when the worker's job was forgotten."""
        return job_of(name) in self._forgotten

    def begin_incarnation(self, name: str, fence: int) -> None:
        """Shut older incarnations out; like any record, for good when it has been synced.

        OSError when that cannot be written: they are shut out while this process lives, and once the new one has
        saved something.
        """
        self.logs.setdefault(name, WorkerLog()).fence = fence
        self.append([(Head("fence", name, fence, 0, 0), [])])

    def origins(self, name: str) -> list[Origin]:
        """Those of a worker's incarnations."""
        return self.logs.get(name, WorkerLog()).origins

    def go_on_from(self, name: str, origins: Sequence[Origin]) -> None:
        """Cut off what there is of a worker's former incarnations behind one's origin. OSError when that cannot be
        written."""
        known = self.origins(name)
        unknown = [one for one in origins if not any(other.covers(one) for other in known)]
        new = [Head("fence", name, one.by, one.sequence, one.fence + 1) for one in unknown]
        if new:
            self.append([(head, []) for head in new])

    def append(self, group: Sequence[tuple[Head, Sequence[Any]]]) -> None:
        """Append records; OSError leaves everything as it was."""
        for (head, _), place in zip(group, self.segments.append(group)):
            self._bytes[place.segment] += place.length
            self._index(LiveRecord(head, place))

    def release(self, name: str, floor: int, since: int = 0) -> None:
        """A worker's parts of checkpoints below `floor` are no longer needed, nor its states and items of epochs below
        `since`.

        It is not written: after a restart the server knows them again, until the worker saves its next record.
        """
        if (log := self.logs.get(name)) is None:
            return
        if floor:
            self._release_below(log.checkpoints, floor)
        if since:
            self._release_below(log.items, since)
            self._release(state for state in log.states if state.head.epoch < since)
            log.states = [state for state in log.states if state.head.epoch >= since]

    def _release_below(self, kept: dict[tuple[int, int], LiveRecord], epoch: int) -> None:
        self._release(kept.pop(key) for key in [key for key, one in kept.items() if one.head.epoch < epoch])

    def parts(self, name: str, checkpoint: int, dropped: list[str]) -> Iterator[tuple[Head, memoryview]]:
        """A worker's parts of checkpoints up to this one, the newest of each, in their order; each is read when it is
        asked for, and what is damaged goes to `dropped`. OSError where one cannot be read, and may be whole.

        A part may hold what has changed since the one before it.
        """
        for entry in self._parts(name, checkpoint):
            if part := self.segments.read(entry.place):
                yield part
            else:
                dropped.append(f"its part of checkpoint {entry.head.epoch}")

    def _parts(self, name: str, checkpoint: int) -> list[LiveRecord]:
        log = self.logs.get(name, WorkerLog())
        newest = {part.head.epoch: part for _, part in sorted(log.checkpoints.items()) if part.head.epoch <= checkpoint}
        return [newest[number] for number in sorted(newest)]

    def restore(self, name: str, dropped: list[str]) -> Iterator[tuple[Head, memoryview]]:
        """The newest whole state first, if there is one, then the items of later epochs in order; as `parts`."""
        log, least = self.logs.get(name, WorkerLog()), 0
        for entry in reversed(log.states):
            if state := self.segments.read(entry.place):
                least = state[0].epoch
                yield state
                break
            dropped.append(f"the state of epoch {entry.head.epoch}")
        for entry in log.items_after(least):
            if item := self.segments.read(entry.place):
                yield item
            else:
                dropped.append(f"an item of epoch {entry.head.epoch}")

    def live(self, name: str, checkpoint: int = 0) -> list[LiveRecord]:
        """The records that `parts`, or without a checkpoint `restore`, would read, where none is damaged."""
        if checkpoint:
            return self._parts(name, checkpoint)
        log = self.logs.get(name, WorkerLog())
        states = log.states[-1:]
        least = states[0].head.epoch if states else 0
        return [*states, *log.items_after(least)]

    def newest_epoch(self, name: str) -> int:
        """The epoch of the newest record that `restore` would return; -1 for none."""
        log = self.logs.get(name, WorkerLog())
        return max((entry.head.epoch for entry in (*log.states, *log.items.values())), default=-1)

    def compact(self) -> None:
        """Copy the live records of one sealed segment that is mostly dead, and delete the segments that are wholly so.

        They are deleted by a later call, when what supersedes their records, and the copies, have been synced; a crash
        before that leaves both copies, which are one for the index. OSError loses nothing.
        """
        self.segments.end_sync()
        self._copy_what_failed()
        self._forget_what_is_gone()
        for name in [name for name, groups in self._dead.items() if groups <= self.segments.synced]:
            self._drop(name)
        sealed = [name for name in self._bytes if name != self.segments.active and name not in self._dead]
        self._dead.update((name, self.segments.appended) for name in sealed if not self._live[name])
        # before anything is copied: on a full disk there may be no room for that, until what is dead is gone
        if self._dead or self.segments.failed:
            self.segments.begin_sync()
        for name in sealed:
            most = min(COMPACT_SHARE * self._bytes[name], COMPACT_STEP_BYTES)
            if 0 < self._live[name] < most and self._rewrite(name):
                break

    def _copy_what_failed(self) -> None:
        """Copy what is needed of segments that could not be synced, once others can. Until the copies are synced
        nothing is deleted: the segments may have held what supersedes it, or a copy of it."""
        failed = self.segments.failed
        for name in [name for name, groups in failed.items() if groups <= self.segments.synced]:
            is_copied = self._rewrite(name)
            self._dead = dict.fromkeys(self._dead, self.segments.appended + (not is_copied))
            if is_copied:
                del failed[name]

    def _forget_what_is_gone(self) -> None:
        """A job's end need not be remembered when no segment is left that its records may be in."""
        oldest = min(map(number_of, self._bytes), default=0)
        for job, entry in list(self._forgotten.items()):
            if oldest > entry.head.epoch:
                self._release([self._forgotten.pop(job)])

    def statistics(self) -> dict[str, int]:
        """Workers, live and stored bytes, segments."""
        return {
            "workers": len(self.logs),
            "live_bytes": sum(self._live.values()),
            "bytes": sum(self._bytes.values()),
            "segments": len(self._bytes),
        }

    def _rewrite(self, name: str) -> bool:
        """Copy the live records of a segment. False where one cannot be read now, which may be whole nevertheless: they
        all stay, until another segment has been begun."""
        if self._unread.get(name) == self.segments.newest:
            return False
        try:
            moved = self._living(name)
        except OSError:
            self._unread[name] = self.segments.newest
            return False
        if moved:
            self.append([(head, [body]) for head, body in moved])
        return True

    def _living(self, name: str) -> list[tuple[Head, memoryview]]:
        """The live records of a segment, but for those that are damaged. OSError where one cannot be read."""
        moved = [(entry.head, memoryview(b"")) for entry in self._forgotten.values() if entry.place.segment == name]
        for log in self.logs.values():
            for entry in log.entries():
                if entry.place.segment == name:
                    whole = self._whole(entry)
                    if whole:
                        moved.append(whole)
                    else:
                        self._forget(log, entry)
        return moved

    def _whole(self, entry: LiveRecord) -> tuple[Head, memoryview] | None:
        """A record, None when it is damaged; a fence is all in its head. OSError where it cannot be read."""
        if entry.head.kind == "fence":
            return entry.head, memoryview(b"")
        return self.segments.read(entry.place)

    def _drop(self, name: str) -> None:
        self.segments.remove(name)
        del self._bytes[name], self._dead[name]
        self._live.pop(name, None)
        self._unread.pop(name, None)

    def _index(self, entry: LiveRecord) -> None:
        head = entry.head
        if head.kind == "forget":
            self._index_end(entry)
            return
        if self.is_forgotten(head.name):
            return
        log = self.logs.setdefault(head.name, WorkerLog())
        log.fence = max(log.fence, head.fence)  # an incarnation that saved something was begun
        if head.kind == "fence":
            self._index_fence(log, entry)
            return
        if head.kind != "checkpoint" and log.is_cut_off(head):
            return
        self._live[entry.place.segment] += entry.place.length
        key = (head.fence, head.sequence)
        if head.kind in ("item", "checkpoint"):
            kept = log.items if head.kind == "item" else log.checkpoints
            self._release(filter(None, [kept.get(key)]))
            kept[key] = entry
            return
        states = {(e.head.fence, e.head.sequence): e for e in log.states}
        self._release(filter(None, [states.get(key)]))
        states[key] = entry
        ordered = [states[key] for key in sorted(states)]
        self._release(ordered[:-STATES_KEPT])
        log.states = ordered[-STATES_KEPT:]
        if len(log.states) == STATES_KEPT:
            self._release_below(log.items, min(e.head.epoch for e in log.states) + 1)

    def _index_fence(self, log: WorkerLog, entry: LiveRecord) -> None:
        """Keep an origin as long as records may be there that it cuts off."""
        known, origin = log.fences.get(entry.head.fence), _origin(entry.head)
        if known is not None and origin is None and _origin(known.head) is not None:
            return
        log.fences[entry.head.fence] = entry
        self._live[entry.place.segment] += entry.place.length
        self._release(filter(None, [known]))
        kept = {log.fence, *(one.by for one in _uncovered(log.origins)[-ORIGINS_KEPT:])}
        self._release(log.fences.pop(fence) for fence in sorted(set(log.fences) - kept))
        if origin is not None:
            self._release(state for state in log.states if log.is_cut_off(state.head))
            log.states = [state for state in log.states if not log.is_cut_off(state.head)]
            self._release(log.items.pop(key) for key in [key for key in log.items if origin.cuts_off(key)])

    def _index_end(self, entry: LiveRecord) -> None:
        job = entry.head.name
        self._release(filter(None, [self._forgotten.get(job)]))
        self._forgotten[job] = entry
        self._live[entry.place.segment] += entry.place.length
        for name in [name for name in self.logs if job_of(name) == job]:
            self._release(self.logs.pop(name).entries())

    def _forget(self, log: WorkerLog, entry: LiveRecord) -> None:
        """Leave a damaged record out, and note it."""
        head = entry.head
        self.damage = "; ".join(filter(None, [self.damage, f"the {head.kind} of {head.name}'s epoch {head.epoch}"]))
        self._release([entry])
        log.states = [state for state in log.states if state != entry]
        log.items = {key: item for key, item in log.items.items() if item != entry}
        log.checkpoints = {key: part for key, part in log.checkpoints.items() if part != entry}

    def _release(self, entries: Iterable[LiveRecord]) -> None:
        for entry in entries:
            self._live[entry.place.segment] -= entry.place.length
