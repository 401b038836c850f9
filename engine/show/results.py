"""All that a run has to show, by name, the main result first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import numpy as np

from riprap.codec.errors import DataError
from riprap.codec.importing import own_line
from riprap.engine.show.records import epochs, failures, metrics, recoveries
from riprap.engine.show.run import RunFiles, arrays_of, rows_in
from riprap.operators.base import Operator, Sink
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.tables import Table, joined, length_of

Read = Callable[[], Table]
T = TypeVar("T")
RECORDS: dict[str, Callable[[RunFiles], Table]] = {
    "metrics": metrics,
    "epochs": epochs,
    "failures": failures,
    "recoveries": recoveries,
}


def results(run: RunFiles) -> dict[str, Read]:
    """The results of each destination, and the rows that it put out; the records of any run are in RECORDS."""
    found: dict[str, Read] = {}
    stages = run.topology.sinks
    for stage in stages:
        prefix = f"{stage}." if len(stages) > 1 else ""
        for name, read in _of_stage(run, stage).items():
            found[prefix + name] = read
    return found


def _of_stage(run: RunFiles, stage: str) -> dict[str, Read]:
    operator = run.operator(stage)
    found: dict[str, Read] = {}
    if models := run.numbered(stage, "model.npz"):
        tables = _asked(operator, lambda: operator.tables([arrays_of(path) for path in models], run.schema))
        found |= {name: _ready(table) for name, table in tables.items()}
    if outputs := run.numbered(stage, "output.npy"):
        found["output"] = lambda: _output(operator, outputs)
    if issubclass(operator, DataflowOperator):
        for name, files in groupby(run.window_files(), lambda file: file[0]):
            whole = [(window, task, path) for _, window, task, path in files]
            found.setdefault(name, _whole(operator, name, whole))
    return found


def _ready(table: Table) -> Read:
    return lambda: table


def _output(operator: type[Operator], paths: list[Path]) -> Table:
    """The rows that sinks put out, an item of the input a row."""
    parts = []
    for number, path in enumerate(paths):
        rows = rows_in(path)
        names = operator.output_columns(rows.shape[1]) if issubclass(operator, Sink) else []
        columns = {"item": np.arange(len(rows)), **dict(zip(names, rows.T, strict=True))}
        parts.append({"task": np.full(len(rows), number), **columns} if len(paths) > 1 else columns)
    return Table(joined(parts))


def _whole(operator: type[DataflowOperator], name: str, files: list[tuple[int, int, Path]]) -> Read:
    """The rows written of all windows under a name."""
    several = len({task for _, task, _ in files}) > 1

    def read() -> Table:
        parts = []
        for window, task, path in files:
            columns = operator.window_columns(name, arrays_of(path))
            size = length_of(columns)
            by = {"written_by": np.full(size, task)} if several else {}
            parts.append({"window": np.full(size, window), **by, **columns})
        return operator.whole(name, _alike(parts))

    return lambda: _asked(operator, read)


def _alike(parts: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """All but empty ones, whose columns may be of other types; one of them where all are empty."""
    return [part for part in parts if length_of(part)] or parts[:1]


def _asked(operator: type[Operator], read: Callable[[], T]) -> T:
    """An operator's answer about its results; DataError with the user's own line where that raises."""
    try:
        return read()
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        where = f"{operator.__module__}:{operator.__qualname__}"
        raise DataError(
            f"{where} cannot say how its results read: {own_line(error, __file__)}",
            "Correct its tables or window_columns (docs/results.md).",
        ) from error
