"""Rows into a table of an SQLite database, each once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.outputs.columns import columns_of, names_of
from riprap.operators.outputs.transactional import TransactionalSink

TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
BUSY_S = 30.0
"""Other tasks, and readers, may hold the database for so long."""
OWN = ("prepared_as", "rowid")
"""Columns of the table of prepared rows that are not the rows'."""
INTEGER_MAX = 2**63 - 1
"""SQLite has no larger whole number."""


class SqliteRows(TransactionalSink):
    """Destination: adds the rows that it gets to a table of an SQLite database.

    Rows that came before a checkpoint are added in one transaction, once it is whole; until then they lie in the table
    TABLE__prepared. Readers of the table see each row exactly once, whoever dies. Columns are called c0, c1, ... unless
    `columns` names them.
    """

    def __init__(
        self,
        database: Annotated[str, Option("The database's file; made if it is not there", example="rows.db")],
        table: Annotated[str, Option("The table that gets the rows")] = "rows",
        columns: Annotated[str | None, Option("Names of the columns, with commas between them")] = None,
    ) -> None:
        check(self, database=database, table=table, columns=columns)
        if not TABLE.fullmatch(table) or table.lower().startswith("sqlite_"):
            raise ConfigError(f"the option table is {table!r}", "use letters, digits and _, and no sqlite_ before them")
        self._database, self._table, self._names = database, table, names_of(columns)
        if (twice := _twice(self._names or ())) is not None:
            raise ConfigError(
                f"the option columns is {columns!r}: SQLite has {twice} already",
                f"name columns that differ not only in case, and none {' or '.join(OWN)}",
            )
        self._prepared = f"{table}__prepared"
        self._blocks: list[Mapping[str, np.ndarray]] = []
        self._task = ""

    def open(self, context: Context) -> None:
        """ConfigError where the database cannot be opened."""
        self._task = f"{context.index:05d}-"
        try:
            with self._connected() as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.Error as error:
            raise ConfigError(f"the database {self._database}: {error}", "name a file that you may write to") from error

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Arrays of one row an item."""
        columns = columns_of(items.arrays, first, items.count, self._names)
        self._check(columns)
        self._blocks.append(columns)
        return items.count

    def _check(self, columns: Mapping[str, np.ndarray]) -> None:
        """DataError for rows that the table cannot hold."""
        if (twice := _twice(columns)) is not None:
            raise DataError(f"the column {twice} is one that SQLite has already", "name the columns by option columns")
        for name, column in columns.items():
            if column.dtype.kind == "u" and column.max(initial=0) > INTEGER_MAX:
                raise DataError(
                    f"the column {name} has {column.max()}, and SQLite no whole number above {INTEGER_MAX}",
                    "send it as int64 or as float64",
                )

    def pre_commit(self, checkpoint: int) -> str | None:
        if not self._blocks:
            return None
        name, blocks = f"{self._task}{checkpoint:012d}", self._blocks
        names = ", ".join(map(_quoted, blocks[0]))
        marks = ", ".join("?" * len(blocks[0]))
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(self._table)} ({names})")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._prepared} (prepared_as, {names})")
            for block in blocks:
                rows = zip(*(column.tolist() for column in block.values()), strict=True)
                many = ((name, *row) for row in rows)
                connection.executemany(f"INSERT INTO {self._prepared} VALUES (?, {marks})", many)  # noqa: S608 - checked
        self._blocks = []
        return name

    def commit(self, name: str) -> None:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            columns = connection.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (self._table,))
            names = ", ".join(_quoted(column) for (column,) in columns)
            prepared = f"FROM {self._prepared} WHERE prepared_as = ?"
            connection.execute(f"INSERT INTO {_quoted(self._table)} SELECT {names} {prepared} ORDER BY rowid", (name,))
            connection.execute(f"DELETE {prepared}", (name,))

    def abort(self, kept: Collection[str]) -> None:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            tables = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if connection.execute(tables, (self._prepared,)).fetchone():
                marks = ", ".join("?" * len(kept))
                others = f"DELETE FROM {self._prepared} WHERE prepared_as LIKE ? AND prepared_as NOT IN ({marks})"  # noqa: S608 - checked
                connection.execute(others, (f"{self._task}%", *kept))

    def _connected(self) -> _Connection:
        return _Connection(self._database)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _twice(names: Iterable[str]) -> str | None:
    """The first name that SQLite takes for one before it, or for one of its own: case counts beyond ASCII only."""
    taken = {name.encode() for name in OWN}
    for name in names:
        if (folded := name.encode().lower()) in taken:
            return name
        taken.add(folded)
    return None


class _Connection:
    """One transaction; the connection is closed behind it, which `sqlite3`'s own context leaves open."""

    def __init__(self, database: str) -> None:
        self._connection = sqlite3.connect(database, timeout=BUSY_S, isolation_level=None)
        self._connection.execute("PRAGMA synchronous=FULL")

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK" if kind else "COMMIT")
        finally:
            self._connection.close()
