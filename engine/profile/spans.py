"""Reads the records of a job's threads, and computes the share of each kind of work in a time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from riprap.engine.run_directory.epochs import EpochRow
from riprap.engine.wire.trace import KINDS, SPAN
from riprap.engine.worker.profile_folder import ABOUT, SUFFIX, UNRECORDED

OTHER, STALLED = "other", "stalled"
SPENT = (*KINDS[1:], OTHER, STALLED)
"""The kinds of a thread's time. `other` is outside of all spans, `stalled` neither asleep by its own will nor on a
CPU: other threads have it, or a lock or the memory makes it wait."""

NETWORK = ("upstream", "downstream")
WAIT = KINDS.index("wait")
KIND_BITS = 8
EDGE_SHARE = 0.1
"""The part of the epochs, at the beginning and at the end each, that is not typical."""


@dataclass(frozen=True)
class Interval:
    """A time, in ns of CLOCK_MONOTONIC. Invariant: start_ns < end_ns."""

    start_ns: int
    end_ns: int

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns

    def within(self, other: Interval) -> Interval | None:
        """The part that lies in another one; None where there is none."""
        start, end = max(self.start_ns, other.start_ns), min(self.end_ns, other.end_ns)
        return Interval(start, end) if start < end else None


@dataclass(frozen=True)
class ThreadSpans:
    """The records of a thread of one incarnation. Invariant: `spans` (SPAN) are in order and do not overlap."""

    worker: str
    incarnation: int
    thread: str
    spans: np.ndarray
    full: bool
    """True when the record has its full size, so that older spans may be gone."""

    @property
    def name(self) -> str:
        """The worker's, with its incarnation behind it where that is not the first."""
        return self.worker if self.incarnation == 1 else f"{self.worker}#{self.incarnation}"

    @property
    def is_network(self) -> bool:
        """True when it is one of the two that move messages; the others compute."""
        return self.thread in NETWORK

    @property
    def recorded(self) -> Interval:
        """From the first span to the last."""
        return Interval(int(self.spans["start_ns"][0]), int(self.spans["end_ns"][-1]))


@dataclass(frozen=True)
class Shares:
    """The use of `seconds` by a thread: the share of each kind of SPENT; they add up to 1.

    Of `wait` it is the time that passed, of all that is work the time on a CPU.
    """

    seconds: float
    of: dict[str, float]


class Cpu:
    """The CPU time of a thread; within a span, and between two, it counts as spread evenly."""

    def __init__(self, spans: np.ndarray) -> None:
        self._wall = np.column_stack([spans["start_ns"], spans["end_ns"]]).ravel()
        self._cpu = np.maximum.accumulate(np.column_stack([spans["cpu_start_ns"], spans["cpu_end_ns"]]).ravel())

    def used(self, at_ns: int | np.ndarray) -> np.ndarray:
        """The CPU time used up to each of these times, in ns."""
        return np.asarray(np.interp(at_ns, self._wall, self._cpu))


def read_threads(folder: Path, boot: str) -> tuple[list[ThreadSpans], list[str]]:
    """All that was recorded on the host of this `boot`, and who ran elsewhere: clocks of hosts differ."""
    threads: list[ThreadSpans] = []
    elsewhere = []
    for about in sorted(folder.glob(f"*/{ABOUT}")):
        worker, _, incarnation = about.parent.name.partition("#")
        if boot_of(about) != boot:
            elsewhere.append(about.parent.name)
            continue
        for path in sorted(about.parent.glob(f"*{SUFFIX}")):
            slots = np.fromfile(path, dtype=SPAN)
            used = slots["tag"] != 0
            if used.any():
                spans = np.sort(slots[used], order="start_ns")
                threads.append(ThreadSpans(worker, int(incarnation), path.stem, spans, bool(used.all())))
    return threads, elsewhere


def boot_of(about: Path) -> str:
    """The host that an incarnation ran on, by its `boot`; empty when it was killed before it had said so."""
    try:
        return str(json.loads(about.read_text())["boot"])
    except ValueError:
        return ""


def read_unrecorded(folder: Path) -> dict[tuple[str, str], float]:
    """Stage and thread -> CPU time (s) of the threads that record no spans, all workers of a stage together."""
    used: defaultdict[tuple[str, str], float] = defaultdict(float)
    for path in sorted(folder.glob(f"*/{UNRECORDED}")):
        for thread, seconds in json.loads(path.read_text()).items():
            used[path.parent.name.partition(".")[0], thread] += seconds
    return used


def shares(thread: ThreadSpans, interval: Interval) -> Shares | None:
    """The shares of a thread's time in an interval, as far as it was recorded; None where nothing of it was."""
    part = interval.within(thread.recorded)
    if part is None:
        return None
    spans, cpu = thread.spans, Cpu(thread.spans)
    starts, ends = (np.clip(spans[name], part.start_ns, part.end_ns) for name in ("start_ns", "end_ns"))
    waits = kinds_of(spans) == WAIT
    passed = ends - starts
    ran = np.minimum(cpu.used(ends) - cpu.used(starts), passed)
    totals = np.bincount(kinds_of(spans), weights=np.where(waits, passed, ran), minlength=len(KINDS))[1:] / part.ns
    of = dict(zip(KINDS[1:], totals.tolist()))
    outside = 1.0 - passed.sum() / part.ns
    of[OTHER] = min(max(0.0, outside), float(cpu.used(part.end_ns) - cpu.used(part.start_ns) - ran.sum()) / part.ns)
    return Shares(part.ns / 1e9, of | {STALLED: max(0.0, 1.0 - sum(of.values()))})


def kinds_of(spans: np.ndarray) -> np.ndarray:
    """The kind of each span, a number of KINDS."""
    return (spans["tag"] & ((1 << KIND_BITS) - 1)).astype(np.int64)


def with_gaps(spans: np.ndarray) -> np.ndarray:
    """The spans, and the gaps between two of them as spans of kind 0."""
    gaps = np.zeros(max(0, len(spans) - 1), dtype=SPAN)
    for start, end in (("start_ns", "end_ns"), ("cpu_start_ns", "cpu_end_ns")):
        gaps[start], gaps[end] = spans[end][:-1], spans[start][1:]
    return np.sort(np.concatenate([spans, gaps[gaps["end_ns"] > gaps["start_ns"]]]), order="start_ns")


def epochs_of(spans: np.ndarray) -> np.ndarray:
    """The epoch of each span, 0 where the thread knew none."""
    return (spans["tag"] >> KIND_BITS).astype(np.int64)


def interval_of(row: EpochRow) -> Interval:
    """From the first emission of an epoch to its commit."""
    end = round(row.committed_at * 1e9)
    return Interval(end - max(1, round(row.latency_ms * 1e6)), end)


def typical(rows: Sequence[EpochRow], threads: Sequence[ThreadSpans]) -> EpochRow | None:
    """The epoch of median length among those that all threads recorded, except the first and the last ones.

    Where none was recorded whole, the last one; None where none was committed.
    """
    since = max((thread.recorded.start_ns for thread in threads if thread.full), default=0)
    whole = [row for row in rows if interval_of(row).start_ns >= since]
    edge = int(len(whole) * EDGE_SHARE)
    inner = sorted(whole[edge : len(whole) - edge], key=lambda row: row.latency_ms)
    return inner[(len(inner) - 1) // 2] if inner else rows[-1] if rows else None


def span_of_job(rows: Sequence[EpochRow], threads: Sequence[ThreadSpans]) -> Interval:
    """From the first emission to the last commit; where nothing was committed, from the first span to the last."""
    parts = [interval_of(row) for row in rows] or [thread.recorded for thread in threads]
    return Interval(min(part.start_ns for part in parts), max(part.end_ns for part in parts))
