"""Reads `epochs.csv` while the sink is still appending to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from riprap.controller.completeness import Account
from riprap.engine.worker.epochs_file import NOTHING_BEFORE, Before, file_name


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One committed micro-batch; `committed_at` is monotonic seconds, on the same clock where `clock` is the same."""

    epoch: int
    items: int
    latency_ms: float
    committed_at: float
    clock: tuple[int, int] = (0, 0)
    """The number of the sink whose file it is, and the number of times that sink had moved to another host."""


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
    """The rows of one growing file; a line counts once its end is there. A file not there yet has none.

    Of a long stream the file holds the newest rows; `before` has the others' totals. The rows themselves stay in
    the file: who follows a stream without end keeps totals alone.
    """

    def __init__(self, path: Path, index: int = 0) -> None:
        self._path, self._index = path, index
        self._offset = self._inode = 0
        self._clock = (index, 0)
        self.before = NOTHING_BEFORE
        self.epoch = 0
        """The latest committed epoch, 0 before the first."""
        self.items = 0
        """Items of all epochs, of those before the first row too."""

    def rows(self) -> list[EpochRow]:
        """The rows that the file holds now, of those that were taken in."""
        return [row for row in EpochTail(self._path, self._index).refresh() if row.epoch <= self.epoch]

    def refresh(self) -> list[EpochRow]:
        """Take in the appended rows, and return them.

        A file that was begun anew is read anew; where it tells of what was before, only news are returned.
        """
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return []
        with stream:
            known, stat = 0, os.fstat(stream.fileno())
            if stat.st_size < self._offset or stat.st_ino != self._inode:
                known = self.epoch
                self._begin_anew(stat.st_ino)
            if stat.st_size == self._offset:
                return []
            stream.seek(self._offset)
            chunk = stream.read()
        whole = chunk[: chunk.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = list(self._rows(whole.decode(errors="replace")))
        self.epoch = rows[-1].epoch if rows else self.epoch
        self.items += sum(row.items for row in rows)
        return [row for row in rows if row.epoch > known] if self.before.epoch else rows

    def _begin_anew(self, inode: int) -> None:
        self._offset, self._inode, self._clock = 0, inode, (self._index, 0)
        self.before, self.epoch, self.items = NOTHING_BEFORE, 0, 0

    def _rows(self, text: str) -> Iterator[EpochRow]:
        for line in text.splitlines():
            if before := Before.parse(line):
                self.before, self.epoch, self.items = before, before.epoch, before.items
            elif line.startswith("#"):
                self._clock = (self._index, self._clock[1] + 1)
            elif row := parse_row(line):
                yield replace(row, clock=self._clock)


class Committed:
    """The epochs that all sinks of a job have committed: `epochs.csv`, or `epochs.N.csv` for each of several sinks."""

    def __init__(self, run_dir: Path, sinks: int) -> None:
        names = (file_name("epochs.csv", index, sinks) for index in range(sinks))
        self._tails = [EpochTail(run_dir / name, index) for index, name in enumerate(names)]

    def refresh(self) -> list[EpochRow]:
        """Take in the appended rows, and return them, sink by sink."""
        return [row for tail in self._tails for row in tail.refresh()]

    @property
    def epoch(self) -> int:
        """The latest epoch that every sink has committed."""
        return min(tail.epoch for tail in self._tails)

    @property
    def epochs(self) -> list[int]:
        """The latest epoch that each sink has committed."""
        return [tail.epoch for tail in self._tails]

    @property
    def left_out(self) -> list[int]:
        """The latest epoch of each sink whose line is not in its file, which has the newest; 0 where it has all."""
        return [tail.before.epoch for tail in self._tails]

    def between(self, after: Sequence[int], until: Sequence[int] | None = None) -> list[EpochRow]:
        """The rows of the epochs past `after` (of each sink; none given: all) and not past `until`, sink by sink.

        They are read from the files, which hold them.
        """
        return self._select([tail.rows() for tail in self._tails], after, until)

    def by_attempt(self, before: Sequence[Sequence[int]]) -> list[list[EpochRow]]:
        """The rows of each attempt, as `between`; `before` are the epochs that each of them began behind.

        Of one whose line a crash cut short they are not known: it counts as begun where the one before it began.
        """
        rows = [tail.rows() for tail in self._tails]
        ends = [*(epochs or [0] * len(rows) for epochs in before), self.epochs]
        known = [[max(column) for column in zip(*ends[:number])] for number in range(1, len(ends) + 1)]
        return [self._select(rows, after, until) for after, until in pairwise(known)]

    def _select(
        self, rows: Sequence[list[EpochRow]], after: Sequence[int], until: Sequence[int] | None
    ) -> list[EpochRow]:
        bounds = zip(rows, after or [0] * len(rows), until or self.epochs)
        return [row for one, begin, end in bounds for row in one if begin < row.epoch <= end]

    def accounts(self, left_out: Sequence[int]) -> list[Account]:
        """Account of each sink; `left_out` are the items that stay lost, sink by sink."""
        return [Account(tail.epoch, tail.items + lost) for tail, lost in zip(self._tails, left_out, strict=True)]

    @property
    def before(self) -> Before:
        """Totals of the epochs that `between` does not know: the last of them, and the items of all sinks."""
        epochs, items, of_others = zip(*(tail.before for tail in self._tails))
        return Before(max(epochs), sum(items), sum(of_others))

    @property
    def items(self) -> int:
        """Items committed by all sinks together."""
        return sum(tail.items for tail in self._tails)
