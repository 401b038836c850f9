"""`epochs.csv`: a line for each epoch of a sink that is committed and durable."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from riprap.codec.files import append_whole, cut_torn_line, replace

HEADING = "epoch,items,latency_ms,committed_at\n"
OTHER_CLOCK = "# another clock\n"
EPOCHS_MAX = 100_000
"""Lines of `epochs.csv`; of more only the newest half is kept."""
BEFORE = "# before"
TAIL_BYTES = 1024
"""At the file's end, in which its last line is whole."""


class Before(NamedTuple):
    """Totals of the epochs whose lines a file does not hold: the last of them, the items of all, and of these the items
    that another job has committed, from whose savepoint this one began."""

    epoch: int = 0
    items: int = 0
    items_of_others: int = 0

    @property
    def line(self) -> str:
        """As it stands in the file, behind the heading."""
        of_others = f" {self.items_of_others}" if self.items_of_others else ""
        return f"{BEFORE} {self.epoch} {self.items}{of_others}\n"

    @classmethod
    def parse(cls, line: str) -> Before | None:
        """Totals that a line tells; None for any other line."""
        fields = line.removeprefix(BEFORE).split()
        if not line.startswith(BEFORE) or len(fields) not in (2, 3) or not all(field.isdecimal() for field in fields):
            return None
        return cls(*map(int, fields))


NOTHING_BEFORE = Before()


class EpochsFile:
    """`epochs.csv`. Only whole lines count: a torn last one is cut off when the file is opened again.

    A former incarnation that was cut off, and does not know yet, may still announce what is durable: the next
    incarnation has the same lines from its state, and leaves out those that it finds there.

    Of a long stream the file holds the newest epochs; a line tells what those before them came to
    (Before).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = 0
        self.items = self._items_of_others = 0
        """Of all epochs in the file, and of these those of another job."""
        self._fd: int | None = None
        self._size = self._lines = 0
        if path.exists():
            with self._locked():
                pass

    def begin(self, before: Before) -> None:
        """Begin behind epochs that are in no file of this job, unless it has begun already."""
        with self._locked() as fd:
            if before.epoch and not self.last:
                append_whole(fd, before.line.encode(), self.path)
                self._read()

    def append(self, entries: list[tuple[int, str]]) -> None:
        """Append the lines of epochs that are not there yet; one write, so that a reader never sees half of it."""
        with self._locked() as fd:
            self._append(fd, entries)
            if self._lines > EPOCHS_MAX:
                self._leave_out_oldest()

    def _append(self, fd: int, entries: list[tuple[int, str]]) -> None:
        if os.fstat(fd).st_size != self._size:
            self._read()
        lines = [line for epoch, line in entries if epoch > self.last]
        append_whole(fd, "".join(lines).encode(), self.path)
        self.last = max(self.last, entries[-1][0])
        self.items += sum(int(line.split(",", 2)[1]) for line in lines)
        self._size = os.fstat(fd).st_size
        self._lines += len(lines)

    def change_clock(self) -> None:
        """Say that `committed_at` is on another host's clock from here on."""
        with self._locked() as fd:
            append_whole(fd, OTHER_CLOCK.encode(), self.path)
            self._read()

    def close(self) -> None:
        """Close what is open."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The open file, locked: who wrote before may not know yet that another does."""
        try:
            yield self._lock()
        finally:
            if self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _lock(self) -> int:
        while True:
            is_new = self._fd is None
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if _is_of(self._fd, self.path):
                if is_new:
                    self._begin_to_read(self._fd)
                return self._fd
            self.close()  # another incarnation has left out the oldest

    def _begin_to_read(self, fd: int) -> None:
        cut_torn_line(self.path)
        if not os.fstat(fd).st_size:
            append_whole(fd, HEADING.encode(), self.path)
        self._read()

    def _read(self) -> None:
        whole = self.path.read_bytes()
        before, rows = NOTHING_BEFORE, []
        for line in whole.decode().splitlines()[1:]:
            before = Before.parse(line) or before
            if not line.startswith("#"):
                rows.append(line.split(",", 2))
        self.last = int(rows[-1][0]) if rows else before.epoch
        self.items, self._items_of_others = before.items + sum(int(row[1]) for row in rows), before.items_of_others
        self._size, self._lines = len(whole), len(rows)

    def _leave_out_oldest(self) -> None:
        """Begin the file anew with the newest half of its epochs, in one step."""
        heading, *lines = self.path.read_text().splitlines(keepends=True)
        rows = [number for number, line in enumerate(lines) if not line.startswith("#")]
        kept = lines[rows[len(rows) // 2] :]
        items = sum(int(line.split(",", 2)[1]) for line in kept if not line.startswith("#"))
        before = Before(int(kept[0].split(",", 1)[0]) - 1, self.items - items, self._items_of_others)
        replace(self.path, "".join([heading, before.line, *kept]))
        self.close()
        self._lock()


def file_name(name: str, index: int, sinks: int) -> str:
    """The name of a sink's file: `epochs.csv` of the only one, `epochs.1.csv` of the second of several."""
    stem, dot, suffix = name.partition(".")
    return f"{stem}.{index}{dot}{suffix}" if sinks > 1 else name


def last_announced(path: Path) -> int:
    """The last epoch that a file says is committed, for who does not write it; 0 while it says nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            *whole, _torn = file.read().decode().split("\n")
    except FileNotFoundError:
        return 0
    for line in reversed(whole):
        epoch = line.split(",", 1)[0]
        if epoch.isdecimal():
            return int(epoch)
        if before := Before.parse(line):
            return before.epoch
    return 0


def _is_of(fd: int, path: Path) -> bool:
    """True when an open file is the one that is there under this name."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
