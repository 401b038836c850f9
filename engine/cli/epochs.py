"""Reads `epochs.csv` while the sink is still appending to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class EpochRow:
    """One committed micro-batch; `committed_at` is monotonic seconds."""

    epoch: int
    items: int
    latency_ms: float
    committed_at: float


def parse_row(line: str) -> EpochRow | None:
    """One line of the file; None for the heading, and for anything else that is not four numbers."""
    fields = line.split(",")
    try:
        return (
            EpochRow(int(fields[0]), int(fields[1]), float(fields[2]), float(fields[3])) if len(fields) == 4 else None
        )
    except ValueError:
        return None


class EpochTail:
    """What was appended since the last look; a line counts once its end is there. Not yet there is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.epochs = 0
        self.items = 0

    def new_rows(self) -> list[EpochRow]:
        """Rows that were completed since the last call; adds them to `epochs` (the highest) and `items`."""
        try:
            if os.stat(self._path).st_size <= self._offset:
                return []
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                chunk = stream.read()
        except FileNotFoundError:
            return []
        whole = chunk[: chunk.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = [row for line in whole.decode(errors="replace").splitlines() if (row := parse_row(line))]
        self.epochs = max([self.epochs, *(row.epoch for row in rows)])
        self.items += sum(row.items for row in rows)
        return rows
