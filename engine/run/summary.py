"""Composes summary.json from the job's traces: a pure function of facts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from riprap.codec.clock import clock_id
from riprap.codec.ids import WorkerId
from riprap.controller.completeness import Expected
from riprap.engine.run.losses import losses
from riprap.engine.run.metrics import combine
from riprap.engine.run.replicas import summed_up as replicas
from riprap.engine.run_directory.checkpoints import Checkpoint, summed_up
from riprap.engine.run_directory.epochs import Committed, EpochRow
from riprap.engine.worker.epochs_file import NOTHING_BEFORE, Before

Stats = Mapping[str, Any]
CLOCK_ID = clock_id()


BACKUPS = (
    "records", "record_bytes", "state_backups", "state_backup_bytes", "item_backups", "item_backup_bytes",
    "punctuation_backups", "replayed_items",
)  # fmt: skip
"""Counts of all that workers saved: records and their bytes; of them states, items, punctuation; and replayed items."""


COUNTED = ("decoded_items", "recomputed_items", "duplicates_dropped", "compensations")


@dataclass(frozen=True)
class Injected:
    """One fault that was injected; `at` is monotonic seconds of `clock`, `incarnation` 0 for services."""

    target: str
    incarnation: int
    action: str
    at: float
    clock: str = CLOCK_ID


@dataclass(frozen=True)
class Facts:
    """The facts of a summary. `status` is the controller's last answer, `started_at` when `riprap run` began, or the
    controller took the job; None where that was on another clock.

    `epochs` are those committed since then, `earlier` those of each attempt before that at the same job.
    """

    job: str
    scheme: str
    status: Mapping[str, Any]
    epochs: Sequence[EpochRow]
    earlier: Sequence[Sequence[EpochRow]] = ()
    injected: Sequence[Injected] = ()
    not_injected: Mapping[str, str] = field(default_factory=dict)
    """Fault -> the reason why it did not happen."""
    started_at: float | None = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    shortfall: str = ""
    """The items that `epochs.csv` lacks, though the controller holds the job for completed."""
    left_out: int = 0
    """The items of the input that a job has completed without."""
    before: Before = NOTHING_BEFORE
    """Totals of the epochs of which `epochs.csv` holds no lines any more."""
    items_earlier: int | None = None
    """The items that were committed when this attempt began; None where only the rows of `earlier` tell of them."""
    checkpoints: Sequence[Checkpoint] = ()
    """The checkpoints of all attempts, where the scheme makes any."""
    events: Iterable[Mapping[str, Any]] = ()
    """Those of all attempts, as far as kept."""
    first_item_at: float | None = None
    """The time of the first item, as far as the watcher of the job has heard."""
    one_host: bool = True
    """True when the sinks' moments in `epochs.csv` are on the same clock as those of `status`."""


def compose(facts: Facts) -> dict[str, Any]:
    """The content of summary.json; what nobody reported counts as nothing.

    Items, epochs, their latencies and `seconds` are those of all attempts (the time between two attempts is nobody's);
    what workers count and what failed is that of the last one, for lost processes cannot be asked.
    """
    stats = stats_by_worker(facts.status)
    every = [one for of_worker in stats.values() for one in of_worker]
    rows = [row for attempt in (*facts.earlier, facts.epochs) for row in attempt]
    items = facts.before.items + sum(row.items for row in rows)
    own = items - facts.before.items_of_others
    items_now = own - _items(facts.earlier)
    if facts.items_earlier is not None:
        items_now = items - max(facts.items_earlier, facts.before.items_of_others)
    first_emit, seconds = _span(facts, every)
    seconds += sum(_span_of_rows(attempt) for attempt in facts.earlier)
    bytes_sent = _by_edge(every, "bytes_sent")
    newest = {worker: found[-1:] for worker, found in stats.items()}
    model, metrics = _sinks_view(stats, "model"), combine(newest_of(stats))
    return {
        "job": facts.job,
        "scheme": facts.scheme,
        "completed": facts.status.get("phase") == "COMPLETED" and not facts.shortfall,
        "shortfall": facts.shortfall,
        "attempts": len(facts.earlier) + 1,
        "items": items,
        "items_of_savepoint": facts.before.items_of_others,
        "seconds": seconds,
        "items_per_second": _rate(facts, own, seconds),
        "epochs": facts.before.epoch + len({row.epoch for row in rows if row.epoch > facts.before.epoch}),
        "epochs_left_out": facts.before.epoch,
        "epoch_latency_ms": _latency([row.latency_ms for row in rows]),
        "startup_seconds": _difference(first_emit, facts.started_at),
        "bytes_sent": bytes_sent,
        "bytes_shared": _by_edge(every, "bytes_shared"),
        "bytes_per_item": sum(bytes_sent.values()) / items_now if items_now else 0.0,
        "faults_not_injected": dict(facts.not_injected),
        "failures": match_failures(facts.injected, facts.status.get("failures") or ()),
        "rollbacks": int(facts.status.get("round") or 0),
        **{name: _total(every, name) for name in COUNTED},
        **{name: _total(every, name) for name in ("rows", "decoded_rows")},
        "backups": {name: _total(every, name) for name in BACKUPS},
        **({"checkpoints": summed_up(facts.checkpoints)} if facts.checkpoints else {}),
        **({"replicas": found} if (found := _replicas(facts, every)) else {}),
        "lost": losses(stats, facts.left_out),
        "skipped_blocks": _total(every, "skipped_blocks"),
        "malformed": _total(every, "malformed"),
        "model": model,
        "output": _sinks_view(stats, "output"),
        **({"tentative": tentative} if (tentative := _tentative(newest)) else {}),
        "metrics": {**metrics, **facts.metrics},
        "peak_rss_mb": {worker: max(_numbers(found, "peak_rss_mb"), default=0) for worker, found in stats.items()},
        "cpu_seconds": {worker: sum(_numbers(found, "cpu_seconds")) for worker, found in stats.items()},
        "environment": dict(facts.environment),
    }


def _items(attempts: Sequence[Sequence[EpochRow]]) -> int:
    return sum(row.items for attempt in attempts for row in attempt)


def _replicas(facts: Facts, every: list[Stats]) -> dict[str, Any]:
    return replicas(facts.status.get("workers") or {}, facts.events, _total(every, "windows_compared"))


def stats_by_worker(status: Mapping[str, Any]) -> dict[str, list[Stats]]:
    """The statistics of every incarnation of every worker, the latest last."""
    stats: dict[str, list[Stats]] = {worker: [] for worker in status.get("workers") or {}}
    past = sorted((status.get("past") or {}).items(), key=lambda item: _incarnation(item[0]))
    for name, said in past:
        stats.setdefault(name.partition("#")[0], []).append(said or {})
    for worker, state in (status.get("workers") or {}).items():
        stats[worker].append(state.get("stats") or {})
    return stats


def shortfall(submitted: Mapping[str, Any], committed: Committed, status: Mapping[str, Any]) -> str:
    """The items that `epochs.csv` lacks of a job that is said to be completed: that was said to the controller.

    Items of committed epochs that stay lost are as each sink last counted them.
    """
    if status.get("phase") != "COMPLETED":
        return ""
    stats = stats_by_worker(status)
    left_out = [int(max(_numbers(stats.get(sink, []), "left_out_items"), default=0)) for sink in submitted["sinks"]]
    return Expected.from_topology(submitted).shortfall(committed.accounts(left_out))


def left_out(submitted: Mapping[str, Any], committed: Committed, status: Mapping[str, Any]) -> int:
    """The items that are in no window of a job whose windows do without what comes too late. Of a stream without end,
    or a job that is not completed, what has come too late."""
    if submitted["fault_tolerance"].get("reconcile", True):
        return 0
    items = submitted["schema"]["items"]
    if items is None or status.get("phase") != "COMPLETED":
        every = [one for of_worker in stats_by_worker(status).values() for one in of_worker]
        return _total(every, "late_items_dropped")
    return int(items) - committed.items


def newest_of(stats: Mapping[str, list[Stats]]) -> dict[str, Stats]:
    """The statistics of the latest incarnation of every worker. Of a task of which no copy has told metrics in its
    latest one, which has just begun or ended early, those that were told last."""
    newest = {worker: found[-1] for worker, found in stats.items() if found}
    tell = {WorkerId.parse(worker).primary for worker, said in newest.items() if said.get("metrics")}
    for worker, found in stats.items():
        told = [said for said in found if said.get("metrics")]
        if told and WorkerId.parse(worker).primary not in tell:
            newest[worker] = told[-1]
            tell.add(WorkerId.parse(worker).primary)
    return newest


def match_failures(injected: Sequence[Injected], recorded: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each failure once: injected faults with the controller's view of them, then those that came by themselves.

    Times in ms count from the injection, or from the detection of a failure that nobody injected; those that began on
    another controller's clock than they ended on are not known. A fault that nobody noticed (a short stop) has no
    detection.
    """
    left = [dict(record) for record in recorded]
    failures = []
    for fault in sorted(injected, key=lambda one: one.at, reverse=True):  # the last one before a death is its cause
        record = _record_of(fault, left)
        if record:
            left.remove(record)
        since = fault.at if record and _comparable(fault, record) else None
        failures.append(_failure(fault.target, fault.incarnation, fault.action, fault.at, since, record or {}))
    failures.reverse()
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
        if same and (not _comparable(fault, record) or (record.get("detected_at") or 0.0) >= fault.at):
            return record
    return None


def _comparable(fault: Injected, record: Mapping[str, Any]) -> bool:
    """True when the fault and what was seen of it were timed by one clock."""
    return record.get("clock", CLOCK_ID) == fault.clock


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
        "ended": record.get("ended") or "",
        "injected_at": injected_at,
        "detected_ms": elapsed_ms("detected_at") if injected_at is not None else None,
        "restored_ms": elapsed_ms("restored_at"),
        "caught_up_ms": elapsed_ms("caught_up_at"),
    }


def _span(facts: Facts, every: list[Stats]) -> tuple[float | None, float]:
    """The time of the first item, and the seconds from then to the last epoch committed.

    On one host the rows of `epochs.csv` are also asked: nobody may have lived to say it.
    """
    rows = facts.epochs if facts.one_host else ()
    first = _first_emit(every, rows, facts.started_at or 0.0, facts.first_item_at)
    last = max([*times(every, "last_commit_at"), *(row.committed_at for row in rows)], default=None)
    if first is None or last is None:
        return first, _span_of_rows(facts.epochs)
    return first, max(0.0, last - first)


def _rate(facts: Facts, own: int, seconds: float) -> float:
    """Items per second of the job's `own` items; of a job that was resumed, and whose oldest epochs have no lines any
    more, that of the epochs which have: nobody knows how long its earlier attempts took for the others."""
    if facts.earlier and facts.before.items > facts.before.items_of_others:
        attempts = (*facts.earlier, facts.epochs)
        own, seconds = sum(row.items for rows in attempts for row in rows), sum(map(_span_of_rows, attempts))
    return own / seconds if seconds else 0.0


def _difference(at: float | None, since: float | None) -> float | None:
    return None if at is None or since is None else at - since


def _span_of_rows(rows: Sequence[EpochRow]) -> float:
    """The seconds from the first item to the last commit of the sink that took longest, each on its own clock."""
    spans: dict[int, float] = {}
    for clock in {row.clock for row in rows}:
        mine = [row for row in rows if row.clock == clock]
        began = min(row.committed_at - row.latency_ms / 1000 for row in mine)
        spans[clock[0]] = spans.get(clock[0], 0.0) + max(row.committed_at for row in mine) - began
    return max(spans.values(), default=0.0)


def _first_emit(
    every: list[Stats], epochs: Sequence[EpochRow], since: float = 0.0, known: float | None = None
) -> float | None:
    """The earliest of what workers say, of what is `known`, and of when the first epoch began: its latency before its
    commit. The incarnations before a change of controllers may be forgotten.

    A sink that goes on where an earlier attempt ended also remembers the beginning of that, and announces epochs that
    were committed then; both lie before `since`.
    """
    said = (moment for moment in times(every, "first_emit_at") if moment >= since)
    began = (row.committed_at - row.latency_ms / 1000 for row in epochs)
    known_moments = [] if known is None else [known]
    return min([*said, *known_moments, *(moment for moment in began if moment >= since)], default=None)


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
    files = _of_sinks(stats, name)
    view = dict(next(iter(files.values()), {}))
    if len(files) > 1:
        view["all"] = files
    return view


def _tentative(stats: Mapping[str, list[Stats]]) -> dict[str, Any]:
    """The tentative windows that the sink reported; with several sinks the sums, and each one's under `all`."""
    shown = _of_sinks(stats, "tentative")
    if len(shown) < 2:
        return next(iter(shown.values()), {})
    return {name: sum(one[name] for one in shown.values()) for name in ("windows", "amended")} | {"all": shown}


def _of_sinks(stats: Mapping[str, list[Stats]], name: str) -> dict[str, Any]:
    return {worker: one[name] for worker, found in sorted(stats.items()) for one in found if one.get(name)}


def times(every: Iterable[Stats], name: str) -> list[float]:
    """The times of a moment as the workers report it; one that has not come yet is absent or 0."""
    return [value for one in every if (value := one.get(name))]


def _numbers(every: Iterable[Stats], name: str) -> list[float]:
    return [value for one in every if (value := one.get(name)) is not None]


def _total(every: list[Stats], name: str) -> int:
    return int(sum(_numbers(every, name)))


def _incarnation(name: str) -> int:
    number = name.rpartition("#")[2]
    return int(number) if number.isdecimal() else 0
