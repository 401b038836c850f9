"""The coordinator of barrier snapshots (ABS): triggers checkpoints, counts who has saved its part, decides when one is
whole.

    due -> triggered -> all workers have saved their parts -> decided -> durable -> told and logged
                    \\-> aborted, by a loss or when it is not whole in time

Pure. A checkpoint is decided once its record is durable; what workers have saved of one that was aborted is never
restored. Numbers never repeat: they are reserved, durably, before one is triggered, and a new leader begins behind
those that its predecessor may have triggered.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.controller.checkpointing import CHECKPOINTING
from riprap.controller.reports import WorkerReport

RESERVED = 64
"""Numbers that are reserved at once: each reservation is a write, but mostly that of a decision."""

STOP_LEASE_S = 10.0
"""A job ends with a savepoint only while that is asked for again so often: who gave up does not expect it to end."""


class Marks(NamedTuple):
    """The durable part: the newest checkpoint that is whole (0: none), and the last number that may be triggered."""

    completed: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointPace:
    """The interval of checkpoints, in seconds, and how often in a row one may fail to become whole in time."""

    interval_s: float
    min_pause_s: float
    timeout_s: float
    failures_max: int

    @classmethod
    def of(cls, topology: Mapping[str, Any]) -> CheckpointPace | None:
        """That of a topology; None where its scheme makes no checkpoints."""
        options = topology.get("fault_tolerance") or {}
        if options.get("scheme") not in CHECKPOINTING:
            return None
        return cls(
            options["interval_ms"] / 1000, options["min_pause_ms"] / 1000, options["timeout_ms"] / 1000,
            options["tolerated_failures"],
        )  # fmt: skip


@dataclass(slots=True)
class Pending:
    """A checkpoint under way."""

    number: int
    triggered_at: float
    savepoint: str = ""
    """The directory where its parts are written too; empty for none."""
    saved: set[str] = field(default_factory=set)
    """The workers whose parts are safe."""


class WantedSavepoint(NamedTuple):
    """A savepoint that was asked for and is not whole."""

    ends: bool
    """True when the job is to end with it."""
    asked_at: float
    """The last time it was asked for."""


class Whole(NamedTuple):
    """A checkpoint that all workers have saved."""

    number: int
    triggered_at: float
    whole_at: float
    savepoint: str = ""
    """The directory with a copy of it, for other jobs; empty for none."""
    ends: bool = False
    """True when the job ends with it: no later one is made, so nothing behind it is ever announced."""


def checkpoint_fields(whole: Whole, rows: Collection[WorkerReport]) -> dict[str, Any]:
    """A checkpoint as it is logged: its duration and the longest waits of any worker, in ms, the worker whose part was
    safe last, and the bytes of all parts."""
    slowest = max(rows, key=lambda row: row.saved_at or 0.0)
    parts = [_part_of(row) for row in rows]
    duration_ms = (whole.whole_at - whole.triggered_at) * 1000
    return {
        "duration_ms": duration_ms,
        "slowest": slowest.worker,
        **({"savepoint": whole.savepoint} if whole.savepoint else {}),
        "bytes": sum(part.get("bytes", 0) for part in parts),
        "aligned_ms": max((part.get("aligned_ms", 0.0) for part in parts), default=0.0),
        "copy_ms": max((part.get("copy_ms", 0.0) for part in parts), default=0.0),
    }


def directory_of_part(row: WorkerReport) -> str:
    """The directory of a savepoint where a worker's newest part is on disk too; empty for none."""
    return str(_part_of(row).get("savepoint", ""))


def _part_of(row: WorkerReport) -> dict[str, Any]:
    """The statistics of a worker's newest part; none where it has none."""
    part = row.stats.get("checkpoint")
    return part if isinstance(part, dict) else {}


class Coordinator:
    """The checkpoints of one job in one leadership. `now` is monotonic."""

    def __init__(self, pace: CheckpointPace, marks: Marks, now: float) -> None:
        self.pace, self.marks = pace, marks
        self.pending: Pending | None = None
        self.failures = 0
        """Checkpoints in a row that were not whole in time."""
        self._decided = 0
        """The last that became whole, unless somebody was lost since."""
        self.wanted: dict[str, WantedSavepoint] = {}
        """By directory."""
        self.made: set[str] = set()
        """The directories of savepoints that are whole, though nobody may see that there yet."""
        self.lacking: dict[str, list[str]] = {}
        """By the directory of a savepoint that could not be made: the workers that have no part there."""
        self._next = marks.reserved + 1
        self._due_at = now + pace.interval_s

    @property
    def triggered(self) -> int:
        """The checkpoint under way; 0 for none."""
        return self.pending.number if self.pending is not None else 0

    def told(self, durable: Marks) -> tuple[int, int]:
        """For the workers: the checkpoint under way (0: none), and the newest that is durably whole.

        One that is whole stays under way until that is durable: so they are told of its end once.
        """
        decided = self._decided if self._decided > durable.completed else 0
        return self.triggered or decided, durable.completed

    @property
    def savepoint(self) -> str:
        """The directory of the savepoint under way; empty for none."""
        return self.pending.savepoint if self.pending is not None else ""

    def want(self, savepoint: str, ends: bool, now: float) -> None:
        """Make the next checkpoint a savepoint, in this directory, which is none of those `made`; one that is wanted
        stays so if asked for again."""
        known = self.wanted.get(savepoint)
        self.wanted[savepoint] = WantedSavepoint(known.ends if known else ends, now)

    def forget_unawaited(self, now: float) -> Pending | None:
        """Forget the savepoints with which the job was to end, and for which nobody asks any more; the one under way is
        given up, and returned."""
        for savepoint, wanted in list(self.wanted.items()):
            if wanted.ends and now - wanted.asked_at > STOP_LEASE_S:
                del self.wanted[savepoint]
        return self.abort(now) if self.savepoint and self.savepoint not in self.wanted else None

    def forget_ends(self) -> None:
        """The job has another end: forget the savepoints with which it was to end."""
        self.wanted = {savepoint: wanted for savepoint, wanted in self.wanted.items() if not wanted.ends}

    def reserve(self) -> None:
        """See to it that there are numbers to trigger; they count once the marks are durable."""
        if self.marks.reserved < self._next + RESERVED // 2:
            self.marks = self.marks._replace(reserved=self._next + RESERVED)

    def due_in(self, durable: Marks, now: float) -> float:
        """Seconds until the time of the next checkpoint; infinite while another is under way, or not durable."""
        return max(0.0, self._due_at - now) if self._may_trigger(durable) else math.inf

    def _may_trigger(self, durable: Marks) -> bool:
        waits = self.pending is not None or durable.completed != self.marks.completed
        return not waits and self._next <= durable.reserved

    def trigger(self, durable: Marks, now: float, hurried: bool) -> int:
        """Begin the next checkpoint if its time has come; returns its number, or 0. `hurried`: the job's end waits."""
        if not self._may_trigger(durable) or not (hurried or self.wanted or now >= self._due_at):
            return 0
        self.pending = Pending(self._next, now, next(iter(self.wanted), ""))
        self._next += 1
        self._due_at = now + self.pace.interval_s
        return self.pending.number

    def hear(self, saved: Mapping[str, int], now: float, lacking: Sequence[str] = ()) -> Whole | None:
        """Take in the newest part of each worker that is safe; the checkpoint under way once it is whole: decided. It
        is no savepoint if workers are `lacking` there, for their newest parts are not in its directory."""
        pending = self.pending
        if pending is None:
            return None
        for worker, number in saved.items():
            if number == pending.number:
                pending.saved.add(worker)
        if len(pending.saved) < len(saved):
            return None
        self.pending, self.failures, self._decided = None, 0, pending.number
        self.marks = self.marks._replace(completed=pending.number)
        self._due_at = max(self._due_at, now + self.pace.min_pause_s)
        wanted = self.wanted.pop(pending.savepoint, None)
        if pending.savepoint and lacking:
            self.lacking[pending.savepoint] = list(lacking)
            return Whole(pending.number, pending.triggered_at, now)
        if pending.savepoint:
            self.made.add(pending.savepoint)
        ends = wanted is not None and wanted.ends
        return Whole(pending.number, pending.triggered_at, now, pending.savepoint, ends)

    def is_late(self, now: float) -> bool:
        """True when the one under way should be whole by now."""
        return self.pending is not None and now - self.pending.triggered_at > self.pace.timeout_s

    def abort(self, now: float, failed: bool = False) -> Pending | None:
        """Give up the one under way: the parts saved of it are worth nothing. The next is due after an interval."""
        aborted, self.pending, self._decided = self.pending, None, 0
        self.failures += failed
        self._due_at = now + self.pace.interval_s
        return aborted
