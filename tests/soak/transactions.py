"""A job that writes transactions, as CSV, Parquet or into SQLite, and an outside reader of what it writes."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet

sys.path.append(str(Path(__file__).parents[1] / "scenarios"))
import fault_points

Row = tuple[int, int, int]
OUTPUTS = {
    "csv": '{operator: "row_files:RowFiles", options: {directory: rows, columns: "window, key, total"}}',
    "parquet": '{operator: "row_files:RowFiles", options: {directory: rows, format: parquet, '
    'columns: "window, key, total"}}',
    "sqlite": '{operator: "sqlite_rows:SqliteRows", options: {database: rows.db, columns: "window, key, total"}}',
}
SCHEMES = (
    "{scheme: barrier, interval_ms: 30}",
    "{scheme: barrier, interval_ms: 30, alignment: unaligned}",
    "{scheme: stop_the_world, interval_ms: 30}",
    "{scheme: barrier, interval_ms: 30, recovery: local}",
)
CHANGES = {
    f"out.send_by_key(numbers % {fault_points.KEYS}, (numbers,))": "out.send_by_key("
    f"items.epoch * {fault_points.KEYS} + numbers % {fault_points.KEYS}, (numbers,))",
    f"self.state.add(items.epoch * {fault_points.KEYS} + keys[first:], ": "self.state.add(keys[first:], ",
    "out.send((rows,), len(rows))": f"out.send_by_key(keys[mine] // {fault_points.KEYS}, ("
    f"keys[mine] % {fault_points.KEYS}, totals[mine]))",
}
TALLIES = reduce(lambda text, old: text.replace(old, CHANGES[old]), CHANGES, fault_points.TALLIES)
"""The operators of `fault_points`; the stream has the keys of the state, by which other tasks take that over."""


def files(folder: Path, seen: dict[str, list[Row]]) -> list[Row]:
    """The rows of all files that a reader may look at; those that it has seen it believes to stay as they are."""
    paths_ = sorted((folder / "rows").glob("part-*"))
    for path in paths_:
        if path.name not in seen:
            seen[path.name] = fault_points.rows_of(path) if path.suffix == ".csv" else _of_parquet(path)
    return [row for path in paths_ for row in seen[path.name]]


def _of_parquet(path: Path) -> list[Row]:
    columns = pyarrow.parquet.read_table(path).to_pydict()
    return list(zip(columns["window"], columns["key"], columns["total"], strict=True))


def table(folder: Path, name: str = "rows") -> list[Any]:
    """The rows of a table of the database."""
    if not (folder / "rows.db").exists():
        return []
    connection = sqlite3.connect(folder / "rows.db", timeout=30)
    try:
        there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        return connection.execute(f"SELECT * FROM {name}").fetchall() if there else []
    finally:
        connection.close()


class Reader(threading.Thread):
    """An outside reader; `wrong` says which rows it has seen twice, or has seen go."""

    def __init__(self, look: Callable[[], list[Row]]) -> None:
        super().__init__(name="reader", daemon=True)
        self._look, self._over = look, threading.Event()
        self._seen: set[Row] = set()
        self.rows: list[Row] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.03):
            self._read()
        self._read()

    def _read(self) -> None:
        self.rows = self._look()
        there = set(self.rows)
        if len(there) < len(self.rows):
            self.wrong.append(f"twice: {[row for row, n in Counter(self.rows).items() if n > 1][:3]}")
        if not self._seen <= there:
            self.wrong.append(f"gone: {sorted(self._seen - there)[:3]}")
        self._seen = there

    def finish(self) -> None:
        """Look once more, and stop."""
        self._over.set()
        self.join()
