"""The records of any run as tables: metrics, epochs, failures, and the possible losses of recoveries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from riprap.engine.run_directory.directory import read_summary
from riprap.engine.run_directory.epochs import Committed
from riprap.engine.show.run import RunFiles
from riprap.operators.tables import Table, texts

FAILURE = ("worker", "incarnation", "action", "ended", "detected_ms", "restored_ms", "caught_up_ms")
RECOVERY = (
    "worker", "failure", "window", "state", "divergence_max", "each_max", "entries_max", "items_max", "output_max",
    "items_lost",
)  # fmt: skip
OF_TEXT = {"worker", "action", "ended", "state"}
UNFINISHED = "the run has written no summary.json (yet): its job has not ended"


def epochs(run: RunFiles) -> Table:
    """A row for each committed epoch of each sink."""
    sinks = sum(run.topology.stages[stage].parallelism for stage in run.topology.sinks)
    rows = Committed(run.path, sinks).refresh()
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in ("epoch", "items", "latency_ms")}
    if sinks > 1:
        columns = {"sink": np.array([row.clock[0] for row in rows], np.int64), **columns}
    return Table(columns)


def metrics(run: RunFiles) -> Table:
    """Metrics of the job, by name."""
    values = read_summary(run.path).get("metrics") or {}
    return Table({"metric": texts(values), "value": _numbers(values.values())}, _note(run))


def failures(run: RunFiles) -> Table:
    """Each failure: the worker, how it ended, and when it was noticed and repaired."""
    return Table(_columns(read_summary(run.path).get("failures") or (), FAILURE), _note(run))


def recoveries(run: RunFiles) -> Table:
    """The possible losses of each recovery (docs/dataflow.md explains the columns)."""
    lost = read_summary(run.path).get("lost") or {}
    return Table(_columns(lost.get("recoveries") or (), RECOVERY), _note(run))


def _note(run: RunFiles) -> str:
    return "" if read_summary(run.path) else UNFINISHED


def _columns(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, np.ndarray]:
    return {
        name: texts(str(row.get(name) or "") for row in rows)
        if name in OF_TEXT
        else _numbers(r.get(name) for r in rows)
        for name in names
    }


def _numbers(values: Iterable[Any]) -> np.ndarray:
    """Whole numbers where all are; unknown ones are NaN."""
    listed = list(values)
    if all(isinstance(value, int) for value in listed):
        return np.array(listed, np.int64)
    return np.array([math.nan if value is None else float(value) for value in listed])
