"""Composes summary.json from what the job left behind: a pure function of facts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.cli.epochs import EpochRow

Stats = Mapping[str, Any]


BACKUPS = (
    "state_backups", "state_backup_bytes", "item_backups", "item_backup_bytes", "punctuation_backups", "replayed_items",
)  # fmt: skip
"""What the persisting schemes of general topologies saved: records of states, items, bytes."""


@dataclass(frozen=True)
class Injected:
    """One fault that was injected; `at` is monotonic seconds, `incarnation` 0 for services."""

    target: str
    incarnation: int
    action: str
    at: float


@dataclass(frozen=True)
class Facts:
    """What a summary is made of. `status` is the controller's last answer, `started_at` when `riprap run` began.

    `epochs` are those committed since then, `earlier` those of each attempt before that at the same job.
    """

    job: str
    scheme: str
    status: Mapping[str, Any]
    epochs: Sequence[EpochRow]
    earlier: Sequence[Sequence[EpochRow]] = ()
    injected: Sequence[Injected] = ()
    started_at: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


def compose(facts: Facts) -> dict[str, Any]:
    """The content of summary.json; what nobody reported counts as nothing.

    Items, epochs, their latencies and `seconds` are those of all attempts (the time between two attempts is nobody's);
    what workers count and what failed is that of the last one, for lost processes cannot be asked.
    """
    stats = stats_by_worker(facts.status)
    every = [one for lives in stats.values() for one in lives]
    rows = [row for attempt in (*facts.earlier, facts.epochs) for row in attempt]
    items = sum(row.items for row in rows)
    items_now = sum(row.items for row in facts.epochs)
    first_emit = _first_emit(every, facts.epochs, facts.started_at)
    seconds = _seconds(first_emit, every, facts.epochs)
    seconds += sum(_seconds(_first_emit([], attempt), [], attempt) for attempt in facts.earlier)
    bytes_sent = _by_edge(every, "bytes_sent")
    model, metrics = _sinks_view(stats, "model"), _metrics(stats)
    return {
        "job": facts.job,
        "scheme": facts.scheme,
        "completed": facts.status.get("phase") == "COMPLETED",
        "attempts": len(facts.earlier) + 1,
        "items": items,
        "seconds": seconds,
        "items_per_second": items / seconds if seconds else 0.0,
        "epochs": len(rows),
        "epoch_latency_ms": _latency([row.latency_ms for row in rows]),
        "startup_seconds": first_emit - facts.started_at if first_emit is not None else None,
        "bytes_sent": bytes_sent,
        "bytes_shared": _by_edge(every, "bytes_shared"),
        "bytes_per_item": sum(bytes_sent.values()) / items_now if items_now else 0.0,
        "failures": match_failures(facts.injected, facts.status.get("failures") or ()),
        **{name: _total(every, name) for name in ("decoded_items", "recomputed_items", "duplicates_dropped")},
        **{name: _total(every, name) for name in ("rows", "decoded_rows")},
        "backups": {name: _total(every, name) for name in BACKUPS},
        "lost": {"items": _total(every, "lost_items"), "states": _total(every, "lost_states")},
        "skipped_blocks": _total(every, "skipped_blocks"),
        "malformed": _total(every, "malformed"),
        "model": model,
        "output": _sinks_view(stats, "output"),
        "metrics": {**metrics, **facts.metrics},
        "peak_rss_mb": {worker: max(_numbers(lives, "peak_rss_mb"), default=0) for worker, lives in stats.items()},
        "cpu_seconds": {worker: sum(_numbers(lives, "cpu_seconds")) for worker, lives in stats.items()},
        "environment": dict(facts.environment),
    }


def stats_by_worker(status: Mapping[str, Any]) -> dict[str, list[Stats]]:
    """The statistics of every incarnation of every worker, the latest last."""
    lives: dict[str, list[Stats]] = {worker: [] for worker in status.get("workers") or {}}
    past = sorted((status.get("past") or {}).items(), key=lambda item: _incarnation(item[0]))
    for name, stats in past:
        lives.setdefault(name.partition("#")[0], []).append(stats or {})
    for worker, state in (status.get("workers") or {}).items():
        lives[worker].append(state.get("stats") or {})
    return lives


def match_failures(injected: Sequence[Injected], recorded: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each failure once: injected faults with what the controller saw of them, then what came by itself.

    Times in ms count from the injection, or from the detection of a failure that nobody injected. A fault that nobody
    noticed (a short stop) has no detection.
    """
    left = [dict(record) for record in recorded]
    failures = []
    for fault in sorted(injected, key=lambda one: one.at):
        record = _record_of(fault, left)
        if record:
            left.remove(record)
        failures.append(_failure(fault.target, fault.incarnation, fault.action, fault.at, fault.at, record or {}))
    for record in left:
        worker, incarnation = str(record.get("worker")), record.get("incarnation", 0)
        failures.append(
            _failure(worker, incarnation, str(record.get("reason")), None, record.get("detected_at"), record)
        )
    return failures


def _record_of(fault: Injected, records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The controller's record of the incarnation that was hit; a stop that was slow to show may come much later."""
    for record in records:
        same = (record.get("worker"), record.get("incarnation")) == (fault.target, fault.incarnation)
        if same and (record.get("detected_at") or 0.0) >= fault.at:
            return record
    return None


def _failure(
    worker: str, incarnation: int, action: str, injected_at: float | None, since: float | None, record: Stats
) -> dict[str, Any]:
    def elapsed_ms(name: str) -> float | None:
        at = record.get(name)
        return round((at - since) * 1000, 3) if at and since is not None else None

    return {
        "worker": worker,
        "incarnation": incarnation,
        "action": action,
        "injected_at": injected_at,
        "detected_ms": elapsed_ms("detected_at") if injected_at is not None else None,
        "restored_ms": elapsed_ms("restored_at"),
        "caught_up_ms": elapsed_ms("caught_up_at"),
    }


def _seconds(first: float | None, every: list[Stats], epochs: Sequence[EpochRow]) -> float:
    """From the first item emitted to the last epoch committed; 0 when either is not known."""
    last = max([*times(every, "last_commit_at"), *(row.committed_at for row in epochs)], default=None)
    return max(0.0, last - first) if first is not None and last is not None else 0.0


def _first_emit(every: list[Stats], epochs: Sequence[EpochRow], since: float = 0.0) -> float | None:
    """As a worker said; if none of them lived to say it, the first epoch began its latency before its commit.

    A sink that goes on where an earlier attempt ended also remembers the beginning of that; it lies before `since`.
    """
    said = (moment for moment in times(every, "first_emit_at") if moment >= since)
    began = (row.committed_at - row.latency_ms / 1000 for row in epochs)
    return min(said, default=min(began, default=None))


def _latency(values: list[float]) -> dict[str, float]:
    """Median, 99th percentile (the nearest rank) and maximum; zeros when there are none."""
    if not values:
        return {"median": 0.0, "p99": 0.0, "max": 0.0}
    ordered = sorted(values)
    rank = -(-99 * len(ordered) // 100)
    return {"median": statistics.median(ordered), "p99": ordered[rank - 1], "max": ordered[-1]}


def _by_edge(every: list[Stats], name: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for stats in every:
        for edge, count in (stats.get(name) or {}).items():
            total[edge] = total.get(edge, 0) + count
    return total


def _sinks_view(stats: Mapping[str, list[Stats]], name: str) -> dict[str, Any]:
    """A file (`model`, `output`) as the first sink last reported it; with several sinks, each one's under `all`."""
    files = {worker: one[name] for worker, lives in sorted(stats.items()) for one in lives if one.get(name)}
    view = dict(next(iter(files.values()), {}))
    if len(files) > 1:
        view["all"] = files
    return view


def _metrics(stats: Mapping[str, list[Stats]]) -> dict[str, float]:
    """As the first sink last reported them."""
    metrics = [one["metrics"] for _, lives in sorted(stats.items()) for one in lives[-1:] if one.get("metrics")]
    return dict(metrics[0]) if metrics else {}


def times(every: Iterable[Stats], name: str) -> list[float]:
    """A moment as the workers report it; one that has not come yet is absent or 0."""
    return [value for one in every if (value := one.get(name))]


def _numbers(every: Iterable[Stats], name: str) -> list[float]:
    return [value for one in every if (value := one.get(name)) is not None]


def _total(every: list[Stats], name: str) -> int:
    return int(sum(_numbers(every, name)))


def _incarnation(name: str) -> int:
    number = name.rpartition("#")[2]
    return int(number) if number.isdecimal() else 0
