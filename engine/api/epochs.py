"""Joins the commits of several sinks to the epochs of their job, in order and each once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from riprap.engine.run_directory.epochs import Committed, EpochRow


class CommittedEpochs:
    """The epochs of a run directory that `sinks` sinks write; `take` returns those since the last call."""

    def __init__(self, run_dir: Path, sinks: int) -> None:
        self._committed = Committed(run_dir, sinks)
        self._parts: dict[int, dict[int, EpochRow]] = {}
        """Rows that were not returned yet, by epoch and sink."""

    def take(self, whole: bool = True) -> list[EpochRow]:
        """Epochs that every sink has committed; at the job's end (not `whole`), an epoch of some sinks is one too.

        One that a sink's file does not hold any more is none: its items are not known.
        """
        for row in self._committed.refresh():
            self._parts.setdefault(row.epoch, {})[row.clock[0]] = row
        reached = min(self._committed.epochs) if whole else max(self._committed.epochs)
        ready = {epoch: self._parts.pop(epoch) for epoch in sorted(self._parts) if epoch <= reached}
        return [_joined(list(rows.values())) for epoch, rows in ready.items() if not self._is_left_out(epoch, rows)]

    def _is_left_out(self, epoch: int, rows: Mapping[int, EpochRow]) -> bool:
        return any(last >= epoch and sink not in rows for sink, last in enumerate(self._committed.left_out))


def _joined(rows: list[EpochRow]) -> EpochRow:
    """One epoch of its parts: their items together, and the last to be committed."""
    last = max(rows, key=lambda row: row.committed_at)
    return EpochRow(last.epoch, sum(row.items for row in rows), max(row.latency_ms for row in rows), last.committed_at)
