"""What is shown of a running job at one moment: composed from the controller's answer and the committed epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.cli.summary import stats_by_worker

RATE_WINDOW_S = 2.0


@dataclass(frozen=True)
class Snapshot:
    """One look at a job; `workers` are (id, incarnation, state), `total_items` None when it is not known."""

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

    @property
    def alive(self) -> int:
        """How many workers are up."""
        return sum(state == "up" for _, _, state in self.workers)


class Rate:
    """Items per second over the last two seconds; `last` is what `add` returned last."""

    def __init__(self) -> None:
        self.last = 0.0
        self._points: deque[tuple[float, int]] = deque()

    def add(self, now: float, items: int) -> float:
        """Note how many items are committed now; returns the rate."""
        self._points.append((now, items))
        while now - self._points[0][0] > RATE_WINDOW_S:
            self._points.popleft()
        first_at, first_items = self._points[0]
        self.last = (items - first_items) / (now - first_at) if now > first_at else 0.0
        return self.last


def look(
    status: Mapping[str, Any], epochs: int, items: int, total_items: int | None, rate: float, faults: tuple[str, ...]
) -> Snapshot:
    """Compose a snapshot; what the controller does not say yet is left empty."""
    lives = stats_by_worker(status)
    every = [one for stats in lives.values() for one in stats]
    metrics: Mapping[str, float] = next((one["metrics"] for one in reversed(every) if one.get("metrics")), {})
    workers = status.get("workers") or {}
    return Snapshot(
        job=str(status.get("job", "")),
        phase=str(status.get("phase", "STARTING")),
        epochs=epochs,
        items=items,
        total_items=total_items,
        items_per_second=rate,
        metrics=metrics,
        workers=tuple((name, one.get("incarnation", 0), one.get("state", "")) for name, one in workers.items()),
        decoded_items=sum(one.get("decoded_items", 0) for one in every),
        recomputed_items=sum(one.get("recomputed_items", 0) for one in every),
        lost_items=sum(one.get("lost_items", 0) for one in every),
        faults=faults,
    )
