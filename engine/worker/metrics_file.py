"""`metrics.csv`: how well a job does as it goes, noted by a sink a few times a second, with the epoch and the items."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

from riprap.codec.files import append_whole, cut_torn_line, replace

HEADING = ("epoch", "items", "metric", "value")
EVERY_S = 0.1
BYTES_MAX = 1 << 24


class MetricsFile:
    """Appends a line for each metric, at most every 100 ms. An epoch that is computed again is noted again.

    Of more than BYTES_MAX the newest half is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._epoch, self._next = 0, 0.0

    def is_due(self, epoch: int, now: float, last: bool) -> bool:
        """True when an epoch was committed since the last note, long enough ago or `last`; `now` is in monotonic s."""
        return epoch > self._epoch and (last or now >= self._next)

    def append(self, epoch: int, items: int, metrics: Mapping[str, float], now: float) -> None:
        """Note what `metrics` are after the `items` that all epochs up to this one had. OSError names the file."""
        self._epoch, self._next = epoch, now + EVERY_S
        if not metrics:
            return
        fd, text = self._open(), io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        if not os.fstat(fd).st_size:
            lines.writerow(HEADING)
        lines.writerows((epoch, items, name, repr(float(value))) for name, value in metrics.items())
        append_whole(fd, text.getvalue().encode(), self.path)
        if os.fstat(fd).st_size > BYTES_MAX:
            self._leave_out_oldest()

    def _leave_out_oldest(self) -> None:
        heading, *lines = self.path.read_bytes().splitlines(keepends=True)
        self.close()
        replace(self.path, b"".join([heading, *lines[len(lines) // 2 :]]))

    def close(self) -> None:
        """Close what is open."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            cut_torn_line(self.path)
        return self._fd
