"""Joins the commits of several sinks to the epochs of their job, in order and each once."""

from __future__ import annotations

from pathlib import Path

from riprap.engine.run_directory.epochs import Committed, EpochRow


class CommittedEpochs:
    """The epochs of a run directory that `sinks` sinks write; `take` returns those since the last call."""

    def __init__(self, run_dir: Path, sinks: int) -> None:
        self._committed, self._sinks = Committed(run_dir, sinks), sinks
        self._parts: dict[int, list[EpochRow]] = {}

    def take(self, whole: bool = True) -> list[EpochRow]:
        """Epochs that every sink has committed; at the job's end (not `whole`), an epoch of some sinks is one too."""
        for row in self._committed.refresh():
            self._parts.setdefault(row.epoch, []).append(row)
        ready = [epoch for epoch, rows in sorted(self._parts.items()) if len(rows) == self._sinks or not whole]
        return [_joined(self._parts.pop(epoch)) for epoch in ready]


def _joined(rows: list[EpochRow]) -> EpochRow:
    """One epoch of its parts: their items together, and the last to be committed."""
    last = max(rows, key=lambda row: row.committed_at)
    return EpochRow(last.epoch, sum(row.items for row in rows), max(row.latency_ms for row in rows), last.committed_at)
