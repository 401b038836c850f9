"""The checkpoints of a job, as its controllers logged them in `checkpoints.jsonl` of its run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from riprap.codec.events import events_in
from riprap.controller.checkpointing import CHECKPOINTS


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint; `state` is completed or aborted. Fields that a dead leader had not logged are None."""

    number: int
    state: str
    duration_ms: float | None = None
    """From its trigger until all parts were safe."""
    nbytes: int | None = None
    aligned_ms: float | None = None
    """The longest wait of a worker for barriers."""
    copy_ms: float | None = None
    """The longest pause of a worker for the copy of its state."""
    slowest: str = ""
    reason: str = ""
    """The reason why it was aborted."""

    def fields(self) -> dict[str, Any]:
        """The fields, for scripts."""
        return {"checkpoint": self.number, **{k: v for k, v in vars(self).items() if k != "number"}}


def read_checkpoints(run_dir: Path) -> list[Checkpoint]:
    """The checkpoints that ended, in the order of their numbers, as far as kept; empty for a job that makes none."""
    found: dict[int, Checkpoint] = {}
    for event in events_in(run_dir / CHECKPOINTS):
        number = event.get("checkpoint")
        if event.get("event") not in ("completed", "aborted") or not isinstance(number, int):
            continue
        if number in found and "duration_ms" not in event:
            continue  # said once more by a later leader
        found[number] = Checkpoint(
            number, str(event["event"]), event.get("duration_ms"), event.get("bytes"), event.get("aligned_ms"),
            event.get("copy_ms"), str(event.get("slowest", "")), str(event.get("reason", "")),
        )  # fmt: skip
    return [found[number] for number in sorted(found)]


def last_checkpoint(run_dir: Path) -> int:
    """The newest that is whole, from which a resumed job goes on; 0 for none."""
    return max((one.number for one in read_checkpoints(run_dir) if one.state == "completed"), default=0)


def summed_up(checkpoints: Sequence[Checkpoint]) -> dict[str, Any]:
    """A summary for `summary.json`: the number of checkpoints, their durations and sizes."""
    whole = [one for one in checkpoints if one.state == "completed"]
    durations = sorted(one.duration_ms for one in whole if one.duration_ms is not None)
    at = quantiles(durations, n=100, method="inclusive") if len(durations) > 1 else [*durations, 0.0][:1] * 99
    return {
        "completed": len(whole),
        "aborted": len(checkpoints) - len(whole),
        "last": whole[-1].number if whole else 0,
        "duration_ms": {"median": at[49], "p99": at[98], "max": durations[-1] if durations else 0.0},
        "bytes": sum(one.nbytes or 0 for one in whole),
    }
