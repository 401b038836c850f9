"""The content of a run directory, as series of numbers that can be drawn."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.engine.run_directory.directory import read_events, read_summary
from riprap.engine.run_directory.epochs import EpochRow, EpochTail

BINS = 100
"""Intervals that throughput is averaged over and of which the longest latency is kept: more would not be seen."""


@dataclass(frozen=True)
class Mark:
    """A failure, `at` seconds after the first item."""

    at: float
    worker: str


@dataclass(frozen=True)
class Series:
    """The series that are drawn of a run. `seconds` count from the first item's emission."""

    job: str
    scheme: str
    metrics: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """Name -> (items, values)."""
    seconds: np.ndarray
    """The bounds of the intervals, one more than there are intervals."""
    items_per_second: np.ndarray
    latency_ms: np.ndarray
    """The longest of each interval; NaN where no epoch was committed."""
    failures: Sequence[Mark]
    recoveries: Sequence[tuple[float, float]]
    """The stretches in which the job was RECOVERING, from and to."""
    bytes_sent: Mapping[str, int]
    bytes_shared: Mapping[str, int]
    """By edge; empty before the run has ended."""


def read_series(run_dir: Path) -> Series:
    """The series of a run that has ended or goes on; ConfigError when nothing is committed there."""
    rows = _rows(run_dir)
    if not rows:
        raise ConfigError(
            f"{run_dir}: no epoch is committed there, so there is nothing to draw", "name a run directory"
        )
    began = min(row.committed_at - row.latency_ms / 1000 for row in rows)
    times = np.array([row.committed_at - began for row in rows])
    edges = np.linspace(0.0, max(times.max(), 1e-9), min(BINS, len(rows)) + 1)
    bins = np.clip(np.digitize(times, edges, right=True) - 1, 0, len(edges) - 2)
    items = np.bincount(bins, [row.items for row in rows], len(edges) - 1)
    latency = np.full(len(edges) - 1, np.nan)
    np.fmax.at(latency, bins, [row.latency_ms for row in rows])
    summary, attempts = read_summary(run_dir), _attempts(read_events(run_dir))
    return Series(
        job=str(summary.get("job") or run_dir.name),
        scheme=str(summary.get("scheme", "")),
        metrics=_metrics(run_dir),
        seconds=edges,
        items_per_second=items / np.diff(edges),
        latency_ms=latency,
        failures=_failures(attempts, began),
        recoveries=_recoveries([event for events in attempts for event in events], began, float(edges[-1])),
        bytes_sent=summary.get("bytes_sent", {}),
        bytes_shared=summary.get("bytes_shared", {}),
    )


def _files(run_dir: Path, name: str) -> list[tuple[str, Path]]:
    """A file that each sink writes: of the only sink, or of each with its number."""
    alone = run_dir / f"{name}.csv"
    return [("", alone)] if alone.exists() else [(path.stem, path) for path in sorted(run_dir.glob(f"{name}.*.csv"))]


def _rows(run_dir: Path) -> list[EpochRow]:
    """The epochs of all sinks, in the order of their commits."""
    tails = [EpochTail(path, index) for index, (_, path) in enumerate(_files(run_dir, "epochs"))]
    rows = [row for tail in tails for row in _on_one_clock(tail.refresh())]
    return sorted(rows, key=lambda row: row.committed_at)


def _on_one_clock(rows: list[EpochRow]) -> list[EpochRow]:
    """The rows since the clock last began anew (the sink moved to another host, or the machine was started again)."""
    begins = [
        0,
        *(n for n, (a, b) in enumerate(pairwise(rows), 1) if b.clock != a.clock or b.committed_at < a.committed_at),
    ]
    return rows[begins[-1] :]


def _metrics(run_dir: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found: dict[str, dict[int, tuple[int, float]]] = {}
    for sink, path in _files(run_dir, "metrics"):
        for epoch, items, name, value in _notes(path):
            label = f"{name} ({sink.replace('metrics.', 'sink ')})" if sink else name
            found.setdefault(label, {})[epoch] = items, value  # an epoch that was computed again counts once
    return {
        name: (np.array([one[0] for one in notes]), np.array([one[1] for one in notes]))
        for name, by_epoch in found.items()
        if (notes := [by_epoch[epoch] for epoch in sorted(by_epoch)])
    }


def _notes(path: Path) -> Iterable[tuple[int, int, str, float]]:
    """The whole lines: of one that is being written, the number may be there in part."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1].decode(errors="replace")
    for fields in csv.reader(io.StringIO(whole, newline="")):
        with suppress(ValueError):  # the heading, and what is damaged
            epoch, items, name, value = fields
            yield int(epoch), int(items), name, float(value)


def _attempts(events: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The events of each attempt at the job, without those before the machine was started again: that was another
    clock."""
    attempts: list[list[Mapping[str, Any]]] = [[]]
    for event in events:
        if event["event"] == "phase" and event.get("before") == "SUBMITTED":
            if attempts[-1] and event["monotonic"] < attempts[-1][0]["monotonic"]:
                attempts.clear()
            attempts.append([])
        attempts[-1].append(event)
    return attempts


def _failures(attempts: Sequence[Sequence[Mapping[str, Any]]], began: float) -> list[Mark]:
    """Each incarnation that was lost once: when it was hit, or else when that was detected. Every attempt counts
    incarnations from 1."""
    lost: dict[tuple[int, str, int], float] = {}
    for number, events in enumerate(attempts):
        for event in events:
            if event["event"] in ("fault_injected", "detected"):
                worker = str(event.get("target") or event.get("worker"))
                lost.setdefault((number, worker, event.get("incarnation", 0)), event["monotonic"] - began)
            elif event["event"] == "service_restarted":
                lost.setdefault((number, str(event["service"]), int(event["wall"])), event["monotonic"] - began)
    return [Mark(at, worker) for (_, worker, _), at in sorted(lost.items(), key=lambda one: one[1])]


def _recoveries(events: Sequence[Mapping[str, Any]], began: float, end: float) -> list[tuple[float, float]]:
    """From each change to RECOVERING to the next change."""
    changes = [(event["monotonic"] - began, event["phase"]) for event in events if event["event"] == "phase"]
    spans = pairwise([*changes, (math.inf, "")])
    return [(at, min(until, end)) for (at, phase), (until, _) in spans if phase == "RECOVERING" and at < end]
