"""Progress of a job, as a program is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """A job at one moment; `total_items` is None while it is not known. `workers` has the state of each."""

    phase: str = "SUBMITTED"
    epoch: int = 0
    items: int = 0
    total_items: int | None = None
    items_per_second: float = 0.0
    workers: Mapping[str, str] = field(default_factory=dict)

    @property
    def workers_up(self) -> int:
        """Number of workers that are up."""
        return sum(state == "up" for state in self.workers.values())
