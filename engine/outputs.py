"""What a sink leaves in the run directory: one line an epoch, and at the end the model."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from engine.schemes.scheme import Boundary
from engine.tasks.sink import SinkTask
from engine.tasks.task import Task
from operators.base import Sink

HEADING = "epoch,items,latency_ms,committed_at\n"


class SinkOutputs:
    """The files of one sink. With several sinks each has its number in the names: `epochs.1.csv`, `model.1.npz`."""

    def __init__(self, run_dir: Path, index: int, sinks: int) -> None:
        number = f".{index}" if sinks > 1 else ""
        self._epochs_path = run_dir / f"epochs{number}.csv"
        self._model_path = run_dir / f"model{number}.npz"
        self._epochs: int | None = None
        self._model: dict[str, str] = {}
        self._opened_at = self._committed_at = 0.0
        self._operator: Sink | None = None

    def committed(self, boundary: Boundary, latency_s: float) -> None:
        """Append the line of an epoch; one write, so that a reader never sees half of it."""
        if self._epochs is None:
            self._epochs = os.open(self._epochs_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(self._epochs, HEADING.encode())
        self._committed_at = time.monotonic()
        self._opened_at = self._opened_at or self._committed_at - latency_s
        kept = boundary.items - boundary.lost
        line = f"{boundary.epoch},{kept},{latency_s * 1000:.3f},{self._committed_at:.6f}\n"
        os.write(self._epochs, line.encode())

    def save_model(self, operator: Sink) -> None:
        """Write the model, and remember its digest: sha256 over the raw little-endian arrays in their order."""
        digest = hashlib.sha256()
        model = {name: np.ascontiguousarray(array) for name, array in operator.model().items()}
        for array in model.values():
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        partial = self._model_path.with_suffix(".part.npz")
        np.savez(partial, **model)  # type: ignore[arg-type]
        partial.rename(self._model_path)
        self._model = {"sha256": digest.hexdigest(), "path": str(self._model_path)}

    def stats(self, task: Task) -> dict[str, Any]:
        """What the summary needs of a sink; nothing for other tasks."""
        if not isinstance(task, SinkTask):
            return {}
        metrics = {name: float(value) for name, value in task.operator.metrics().items()}
        stats: dict[str, Any] = {"metrics": metrics, "lost_items": task.lost, "model": self._model}
        return stats | {"first_emit_at": self._opened_at, "last_commit_at": self._committed_at}

    def close(self) -> None:
        """Close what is open."""
        if self._epochs is not None:
            os.close(self._epochs)
            self._epochs = None
