"""`tentative.csv`: a line for each window that a destination has shown without the items of absent tasks (PPA V-B)."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.files import append_whole, cut_torn_line, replacing, write_all

HEADING = "window,items,expected,completeness,absent,latency_ms,shown_at,amended_at\n"
SHOWN_MAX = 100_000
"""Windows that are noted; later ones are not."""
MOMENT = 20
"""Characters of the last field: blank until the window is amended, then filled in its place."""


class Shown(NamedTuple):
    """A line of the file."""

    items: int
    expected: int
    shown_at: float
    place: int
    """Of its last field, in bytes."""
    amended_at: float = 0.0
    """0 while it is not."""

    @property
    def wait_ms(self) -> float:
        """Of an amended window; nan where it was shown by another clock."""
        return (self.amended_at - self.shown_at) * 1000


class TentativeFile:
    """The tentative windows of one destination, in all its incarnations. A window is shown once, and amended once.

    Nothing is synced: what it says is provisional, and `epochs.csv` says what is not.
    """

    def __init__(self, path: Path, rows: Path) -> None:
        self.path, self._rows = path, rows
        self._shown: dict[int, Shown] = {}
        self._fd: int | None = None
        if path.exists():
            self._read(self._open())

    def show(self, window: int, items: int, expected: int, absent: Sequence[str], latency_s: float, at: float) -> None:
        """Note a window; `expected` are the items of one from which nobody is missing, 0 where that is not known."""
        if window in self._shown or len(self._shown) >= SHOWN_MAX:
            return
        fd = self._open()
        share = f"{min(1.0, items / expected):.4f}" if expected else ""
        line = f"{window},{items},{expected or ''},{share},{' '.join(absent)},{latency_s * 1000:.3f},{at:.6f},"
        place = os.lseek(fd, 0, os.SEEK_END) + len(line.encode())  # not O_APPEND: what is amended is written in place
        append_whole(fd, f"{line}{' ' * MOMENT}\n".encode(), self.path)
        self._shown[window] = Shown(items, expected, at, place)

    def write(self, window: int, rows: np.ndarray) -> None:
        """Write the rows of a window that was noted to a file of their own."""
        if window not in self._shown:
            return
        path = self._rows.with_name(f"{self._rows.name}.{window}.npy")
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as file:
            np.save(file, rows)

    def amend(self, window: int, at: float) -> None:
        """The window is closed, exact; nothing where it was not shown."""
        shown = self._shown.get(window)
        if shown is None or shown.amended_at:
            return
        write_all(self._open(), f"{at:.6f}".ljust(MOMENT).encode(), self.path, shown.place)
        self._shown[window] = shown._replace(amended_at=at)

    def change_clock(self) -> None:
        """Moments are on another host's clock from here on: windows not amended yet were shown at none of those."""
        for window, shown in self._shown.items():
            if not shown.amended_at and not math.isnan(shown.shown_at):
                width = len(f"{shown.shown_at:.6f}")
                write_all(self._open(), b"nan".ljust(width), self.path, shown.place - width - 1)
                self._shown[window] = shown._replace(shown_at=math.nan)

    def stats(self) -> dict[str, Any]:
        """The sums of it, for the summary; empty where no window was shown."""
        if not self._shown:
            return {}
        every = self._shown.values()
        shares = [min(1.0, one.items / one.expected) for one in every if one.expected]
        amended = [one for one in every if one.amended_at]
        waits = [one.wait_ms for one in amended if not math.isnan(one.wait_ms)]
        return {
            "windows": len(every),
            "amended": len(amended),
            "completeness": statistics.fmean(shares) if shares else None,
            "amended_after_ms": {"median": statistics.median(waits), "max": max(waits)} if waits else None,
        }

    def close(self) -> None:
        """Close what is open."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            cut_torn_line(self.path)
            if not os.fstat(self._fd).st_size:
                append_whole(self._fd, HEADING.encode(), self.path)
        return self._fd

    def _read(self, fd: int) -> None:
        """Take over what former incarnations have noted."""
        place = 0
        for line in os.pread(fd, os.fstat(fd).st_size, 0).decode().splitlines(keepends=True):
            place += len(line.encode())
            fields = line.split(",")
            if len(fields) == HEADING.count(",") + 1 and fields[0].isdecimal():
                window, items, expected, *_, shown_at, amended_at = fields
                at = place - len(amended_at.encode())
                found = Shown(int(items), int(expected or 0), float(shown_at), at, float(amended_at.strip() or 0))
                self._shown[int(window)] = found
