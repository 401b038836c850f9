"""A running job as shown at one moment: composed from the controller's answer and the committed epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.controller.view import OFF
from riprap.engine.run.losses import losses
from riprap.engine.run.metrics import combine
from riprap.engine.run.replicas import roles
from riprap.engine.run.summary import newest_of, stats_by_worker

RATE_WINDOW_S = 2.0


@dataclass(frozen=True)
class SlowCall:
    """A call of a worker's operator that has not returned for long, and the line that it is at."""

    worker: str
    name: str
    line: str
    seconds: float

    @property
    def where(self) -> str:
        """The call, whichever task of the stage is in it."""
        return f"{self.name} of {self.worker.rpartition('.')[0]}"

    def __str__(self) -> str:
        return f"{self.name} of {self.worker} has not returned for {self.seconds:.0f} s ({self.line})"


@dataclass(frozen=True)
class Snapshot:
    """One look at a job; `workers` are (id, incarnation, state) of those that are to run, `total_items` None when it is
    not known."""

    job: str
    phase: str
    epochs: int
    items: int
    total_items: int | None
    items_per_second: float
    metrics: Mapping[str, float]
    workers: tuple[tuple[str, int, str], ...]
    decoded_items: int
    recomputed_items: int
    lost_items: int
    faults: tuple[str, ...] = field(default=())
    calls: tuple[SlowCall, ...] = field(default=())
    crashes: tuple[tuple[str, int, str], ...] = field(default=())
    """Worker, incarnation and manner of the end, of those that ended themselves."""
    failures: tuple[Mapping[str, Any], ...] = field(default=())
    """As in summary.json."""
    checkpoint: int | None = None
    """The newest that is whole; None where the scheme makes none."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """`active` or `standby`, of the workers of tasks with replicas."""

    @property
    def alive(self) -> int:
        """Number of workers that are up."""
        return sum(state == "up" for _, _, state in self.workers)


class Rate:
    """Items per second over the last two seconds, or since the last look where that is longer ago; `last` is the last
    result of `add`."""

    def __init__(self) -> None:
        self.last = 0.0
        self._points: deque[tuple[float, int]] = deque()

    def add(self, now: float, items: int) -> float:
        """Note the items committed now; returns the rate."""
        self._points.append((now, items))
        while len(self._points) > 2 and now - self._points[1][0] >= RATE_WINDOW_S:
            self._points.popleft()
        first_at, first_items = self._points[0]
        self.last = (items - first_items) / (now - first_at) if now > first_at else 0.0
        return self.last


def look(
    status: Mapping[str, Any], epochs: int, items: int, total_items: int | None, rate: float, faults: tuple[str, ...],
    failures: tuple[Mapping[str, Any], ...] = (),
) -> Snapshot:  # fmt: skip
    """Compose a snapshot; unknown fields are left empty."""
    stats = stats_by_worker(status)
    every = [one for found in stats.values() for one in found]
    workers = status.get("workers") or {}
    return Snapshot(
        job=str(status.get("job", "")),
        phase=str(status.get("phase", "STARTING")),
        epochs=epochs,
        items=items,
        total_items=total_items,
        items_per_second=rate,
        metrics={name: value for name, value in combine(newest_of(stats)).items() if value is not None},
        workers=tuple(
            (name, one.get("incarnation", 0), one.get("state", ""))
            for name, one in workers.items()
            if one.get("state") != OFF
        ),
        decoded_items=sum(one.get("decoded_items", 0) for one in every),
        recomputed_items=sum(one.get("recomputed_items", 0) for one in every),
        lost_items=losses(stats)["items"],
        faults=faults,
        failures=failures,
        checkpoint=status.get("checkpoint"),
        roles=roles(workers),
        calls=tuple(_slow_calls(workers)),
        crashes=tuple(
            (one["worker"], one["incarnation"], one["ended"])
            for one in status.get("failures") or ()
            if one.get("ended")
        ),
    )


def _slow_calls(workers: Mapping[str, Any]) -> Iterator[SlowCall]:
    for name, one in workers.items():
        if one.get("call"):
            yield SlowCall(name, one["call"], one["call_line"], one["call_ms"] / 1000)
