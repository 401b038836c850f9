"""The files of a sink in the run directory: a line an epoch, the rows that it puts out, and at the end the model."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from riprap.codec.array_files import write_arrays
from riprap.codec.clock import CLOCK
from riprap.codec.errors import DataError
from riprap.codec.files import replacing, sync, write_all
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.runs import Runs
from riprap.engine.worker.epochs_file import Before, EpochsFile, file_name
from riprap.engine.worker.metrics_file import MetricsFile
from riprap.engine.worker.tentative_file import TentativeFile
from riprap.operators.finite import are_finite

CHUNK_BYTES = 1 << 20


class SinkOutputs:
    """The files of one sink. With several sinks each has its number in the names: `epochs.1.csv`, `model.1.npz`.

    A line of `epochs.csv` announces that an epoch is committed and durable; it is never withdrawn. The rows of
    `output.npy` behind the last announced epoch are provisional: a sink that starts again cuts them off and writes them
    once more. `attempt` counts the starts of the job; its first item here was emitted at `opened_at`, in monotonic
    seconds, 0 before.
    """

    writes, holds, others = True, False, 0

    def __init__(self, run_dir: Path, index: int, sinks: int, attempt: int = 1, opened_at: float = 0.0) -> None:
        def path(name: str) -> Path:
            return run_dir / file_name(name, index, sinks)

        self._epochs = EpochsFile(path("epochs.csv"))
        self._rows = RowsFile(path("output.npy"))
        self._metrics = MetricsFile(path("metrics.csv"))
        self._tentative = TentativeFile(path("tentative.csv"), run_dir / "tentative" / file_name("rows", index, sinks))
        self._usual = 0
        """The items of the last epoch."""
        self._model_path = path("model.npz")
        self._pending: list[tuple[int, str]] = []
        self._model: dict[str, Any] = {}
        self._attempt, self.opened_at, self._committed_at = attempt, opened_at, 0.0
        self._left_out = 0

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        """Note an epoch, and append its rows."""
        self.add(boundary, latency_s, rows, time.monotonic())

    def add(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None, at: float) -> None:
        """The same at that moment, in monotonic seconds."""
        self._committed_at = at
        self.opened_at = self.opened_at or self._committed_at - latency_s
        self._left_out += boundary.lost
        kept = boundary.items - boundary.lost
        if boundary.absent:  # never to be amended
            self._tentative.show(boundary.epoch, kept, self._usual, boundary.absent, latency_s, at)
        else:
            self._usual = kept
            self._tentative.amend(boundary.epoch, at)
        line = f"{boundary.epoch},{kept},{latency_s * 1000:.3f},{at:.6f}\n"
        self._pending.append((boundary.epoch, line))
        if rows is not None:
            self._rows.append(rows)

    def tentative(self, boundary: Boundary, latency_s: float, absent: Sequence[str], rows: np.ndarray | None) -> None:
        """Note an epoch that some tasks' items are missing from; it is committed later, whole."""
        self._tentative.show(boundary.epoch, boundary.items, self._usual, absent, latency_s, time.monotonic())
        if rows is not None:
            self._tentative.write(boundary.epoch, rows)

    def durable(self, epoch: int) -> None:
        """Announce everything up to this epoch."""
        ready = [entry for entry in self._pending if self._epochs.last < entry[0] <= epoch]
        self._pending = [entry for entry in self._pending if entry[0] > epoch]
        if ready:
            self._epochs.append(ready)

    def note_metrics(self, task: Runs) -> None:
        """Note the task's metrics now and then, and at its end. Called often, by the thread that owns the task."""
        now = time.monotonic()
        if self._metrics.is_due(task.epoch, now, task.done):
            self._metrics.append(task.epoch, self._items(), task.metrics(), now)

    def change_clock(self) -> None:
        """Say that the moments noted from here on are on another host's clock."""
        self._epochs.change_clock()
        self._tentative.change_clock()

    def _items(self) -> int:
        """The items of all epochs that are committed, announced or not."""
        waiting = (line for number, line in self._pending if number > self._epochs.last)
        return self._epochs.items + sum(int(line.split(",", 2)[1]) for line in waiting)

    def notes(self) -> dict[str, Any]:
        """Notes of what is not in the files yet, or may have to be cut off them."""
        notes = {"pending": list(self._pending), "rows": self._rows.count, "opened_at": self.opened_at}
        notes["attempt"] = self._attempt
        return notes | {"left_out": self._left_out, "clock": CLOCK, "items": self._items() + self._left_out}

    def begin(self, epoch: int, items: int) -> None:
        """All up to this epoch was told by the job whose savepoint this one begins from."""
        self._epochs.begin(Before(epoch, items, items))

    def cut(self, rows: int) -> None:
        """Only the first so many rows count; what a former incarnation put out behind them comes once more."""
        self._rows.cut(rows)

    def resume(self, notes: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
        self._pending = [(int(epoch), str(line)) for epoch, line in notes["pending"]]
        self.cut(notes["rows"])
        self._left_out = notes["left_out"]
        if notes["clock"] != CLOCK:
            now = time.monotonic()  # nobody could read any of it before
            self._pending = [(epoch, f"{line.rpartition(',')[0]},{now:.6f}\n") for epoch, line in self._pending]
        elif notes.get("attempt") == self._attempt:  # one that is resumed begins with its own first item
            self.opened_at = notes["opened_at"] or self.opened_at

    def save_model(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the model, and remember its digest: sha256 over the raw little-endian arrays in their order.

        A job that computes none has no file either.
        """
        if not arrays:
            return
        digest = hashlib.sha256()
        model = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        for array in model.values():
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        self._rows.sync()
        with replacing(self._model_path) as file:
            write_arrays(file, model)
        finite = are_finite(model.values())
        self._model = {"sha256": digest.hexdigest(), "path": str(self._model_path), "finite": finite}

    @property
    def accounted(self) -> int:
        """The items of all epochs, once all are announced, with those that stay lost, which the file leaves out."""
        return self._epochs.items + self._left_out

    def stats(self, task: Runs) -> dict[str, Any]:
        """Statistics of a sink for the summary."""
        metrics = {name: float(value) for name, value in task.metrics().items()}
        stats: dict[str, Any] = {"metrics": metrics, "model": self._model}
        stats |= {"lost_items": task.lost, "missed_items": task.missed}
        if tentative := self._tentative.stats():
            stats["tentative"] = tentative
        if task.done and self._rows.count:
            stats["output"] = {"sha256": self._rows.digest(), "path": str(self._rows.path), "rows": self._rows.count}
        return stats | {
            "combines": dict(task.combines),
            "first_emit_at": self.opened_at,
            "last_commit_at": self._committed_at,
            "durable_epoch": self._epochs.last,
            "left_out_items": self._left_out,
        }

    def close(self) -> None:
        """Close what is open."""
        self._metrics.close()
        self._epochs.close()
        self._tentative.close()
        self._rows.close()


class RowsFile:
    """`output.npy`: rows of float64, appended; its header always says how many there are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._columns = 0
        self._fd: int | None = None
        self._digest: tuple[int, str] = (-1, "")

    def append(self, rows: np.ndarray) -> None:
        """Append rows (n, columns), the same columns each time."""
        rows = np.ascontiguousarray(rows, dtype="<f8")
        if self._fd is None:
            # rows of a former incarnation that were never durable are written anew
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            self._columns = rows.shape[1]
        write_all(self._fd, rows.tobytes(), self.path, self._offset())
        self.count += len(rows)
        write_all(self._fd, self._header(), self.path, 0)

    def cut(self, count: int) -> None:
        """Only the first `count` rows are valid; the header may speak of more, or of fewer. DataError when they are not
        all there."""
        self.close()
        self.count = count
        if not count:
            return
        self._fd = os.open(self.path, os.O_RDWR)
        self._columns = _columns_of(self.path)
        if os.fstat(self._fd).st_size < self._offset():
            raise DataError(f"{self.path} does not hold the {count} rows that were committed", "run the job anew")
        os.truncate(self._fd, self._offset())
        write_all(self._fd, self._header(), self.path, 0)

    def read(self, first: int, count: int) -> np.ndarray:
        """So many rows from one on, counted from 0, for who does not write them. What the header says of their number
        may be half written."""
        self._columns = _columns_of(self.path)
        at = len(self._header()) + first * self._columns * 8
        return np.fromfile(self.path, "<f8", count * self._columns, offset=at).reshape(-1, self._columns)

    def sync(self) -> None:
        """Have what was appended on disk."""
        if self._fd is not None:
            sync(self._fd, self.path)

    def digest(self) -> str:
        """sha256 of the rows' bytes; read once for each length."""
        if self._digest[0] != self.count:
            digest = hashlib.sha256()
            with self.path.open("rb") as file:
                file.seek(len(self._header()))
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
            self._digest = (self.count, digest.hexdigest())
        return self._digest[1]

    def close(self) -> None:
        """Close what is open."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _offset(self) -> int:
        return len(self._header()) + self.count * self._columns * 8

    def _header(self) -> bytes:
        """The header of a .npy file; NumPy pads it so that its length does not change while the rows grow."""
        buffer = io.BytesIO()
        fields = {"descr": "<f8", "fortran_order": False, "shape": (self.count, self._columns)}
        np.lib.format.write_array_header_1_0(buffer, fields)
        return buffer.getvalue()


def _columns_of(path: Path) -> int:
    """As the header of a .npy file says, whatever follows it. DataError when there is none."""
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            return int(np.lib.format.read_array_header_1_0(file)[0][1])
    except (ValueError, IndexError) as error:
        raise DataError(f"{path} has no readable header: {error}", "run the job anew") from error
