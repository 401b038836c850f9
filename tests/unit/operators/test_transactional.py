"""Outputs in transactions: prepared is invisible and durable, committed is there once, the rest goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import ConfigError, DataError, JobFailed
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.outputs.row_files import RowFiles
from riprap.operators.outputs.sqlite_rows import SqliteRows
from riprap.operators.outputs.transactional import TransactionalSink

Read = Callable[[], list[tuple[float, ...]]]


def put(sink: TransactionalSink, *rows: tuple[float, float]) -> None:
    items = Items(1, "a", 0, len(rows), (np.array(rows, dtype=float),))
    assert sink.process_data(items, 0, None) == len(rows)  # type: ignore[arg-type]


def csv_rows(folder: Path) -> list[tuple[float, ...]]:
    lines = [line for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines()[1:]]
    return sorted(tuple(map(float, line.split(","))) for line in lines)


def parquet_rows(folder: Path) -> list[tuple[float, ...]]:
    from pyarrow import parquet

    tables = [parquet.read_table(path).to_pydict() for path in sorted(folder.glob("part-*"))]
    return sorted(row for table in tables for row in zip(*table.values(), strict=True))


def table_rows(database: Path) -> list[tuple[float, ...]]:
    with sqlite3.connect(database) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            return []
        return sorted(connection.execute("SELECT * FROM rows"))


@pytest.fixture(params=["csv", "parquet", "sqlite"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[int], TransactionalSink], Read]:
    """What makes an incarnation of a task of such an output, and what an outside reader sees."""

    def make(task: int) -> TransactionalSink:
        if request.param == "sqlite":
            sink: TransactionalSink = SqliteRows(str(tmp_path / "rows.db"), columns="x, y")
        else:
            sink = RowFiles(str(tmp_path / "rows"), format=request.param, columns="x,y")
        sink.open(Context(index=task))
        return sink

    reads = {"csv": csv_rows, "parquet": parquet_rows, "sqlite": table_rows}
    place = tmp_path / ("rows.db" if request.param == "sqlite" else "rows")
    return make, lambda: reads[request.param](place)


def test_rows_are_seen_once_their_checkpoint_is_whole_and_twice_committed_is_once(
    made: tuple[Callable[[int], TransactionalSink], Read],
) -> None:
    make, read = made
    sink = make(0)
    put(sink, (1, 2), (3, 4))
    assert read() == []
    first = sink.pre_commit(7)
    assert first and read() == []
    put(sink, (5, 6))
    sink.commit(first)
    sink.commit(first)
    assert read() == [(1, 2), (3, 4)]
    assert sink.pre_commit(8) and read() == [(1, 2), (3, 4)]
    assert sink.pre_commit(9) is None, "nothing came"


def test_a_former_life_that_goes_on_takes_nothing_from_the_next(
    made: tuple[Callable[[int], TransactionalSink], Read],
) -> None:
    """Its host was suspended, with a barrier before it, until another had taken its place."""
    make, read = made
    former = make(0)
    put(former, (1, 1))
    sink = make(0)
    sink.abort([])
    put(sink, (2, 2))
    with suppress(OSError):  # what it had put out is gone
        former.pre_commit(7)
    name = sink.pre_commit(8)
    assert name
    sink.commit(name)
    assert read() == [(2, 2)]


def test_a_new_life_commits_what_its_checkpoint_names_and_drops_the_rest(
    made: tuple[Callable[[int], TransactionalSink], Read],
) -> None:
    make, read = made
    former, other = make(0), make(1)
    put(former, (1, 1))
    whole = former.pre_commit(1)
    put(former, (2, 2))
    assert former.pre_commit(2)
    put(former, (3, 3))
    put(other, (9, 9))
    others = other.pre_commit(1)
    assert whole and others
    sink = make(0)
    sink.abort([whole])
    sink.commit(whole)
    assert read() == [(1, 1)]
    other.commit(others)
    assert read() == [(1, 1), (9, 9)], "another task's is not touched"
    put(sink, (2, 2))
    again = sink.pre_commit(2)
    assert again
    sink.commit(again)
    assert read() == [(1, 1), (2, 2), (9, 9)]


def test_a_file_that_is_anothers_is_not_replaced(tmp_path: Path) -> None:
    sink = RowFiles(str(tmp_path))
    sink.open(Context(index=0))
    put(sink, (1, 1))
    name = sink.pre_commit(1)
    assert name
    (tmp_path / name).write_text("mine")
    with pytest.raises(JobFailed, match="is there already"):
        sink.commit(name)
    assert (tmp_path / name).read_text() == "mine"
    with pytest.raises(JobFailed, match="is gone"):
        sink.commit("part-00000-000000000099.csv")


@pytest.mark.parametrize("columns", ["x,X", "a,prepared_as", "Rowid"])
def test_columns_that_sqlite_takes_for_one_are_refused(tmp_path: Path, columns: str) -> None:
    with pytest.raises(ConfigError, match="SQLite has"):
        SqliteRows("rows.db", columns=columns)
    sink = SqliteRows(str(tmp_path / "rows.db"))
    records = np.zeros(1, [(name, "f8") for name in columns.split(",")])
    with pytest.raises(DataError, match="is one that SQLite has already"):
        sink.process_data(Items(1, "a", 0, 1, (records,)), 0, None)  # type: ignore[arg-type]


def test_whole_numbers_beyond_those_of_sqlite_are_refused(tmp_path: Path) -> None:
    sink = SqliteRows(str(tmp_path / "rows.db"))
    sink.open(Context(index=0))
    numbers = np.array([2**63 - 1], np.uint64)
    sink.process_data(Items(1, "a", 0, 1, (numbers,)), 0, None)  # type: ignore[arg-type]
    assert sink.pre_commit(1)
    with pytest.raises(DataError, match="the column c0 has 9223372036854775808, and SQLite no whole number above"):
        sink.process_data(Items(1, "a", 0, 1, (numbers + np.uint64(1),)), 0, None)  # type: ignore[arg-type]


def test_the_table_may_be_called_like_a_word_of_sql_but_not_like_one_of_sqlite(tmp_path: Path) -> None:
    sink = SqliteRows(str(tmp_path / "rows.db"), table="group")
    sink.open(Context(index=0))
    put(sink, (1, 2))
    name = sink.pre_commit(1)
    assert name
    sink.commit(name)
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        assert list(connection.execute('SELECT * FROM "group"')) == [(1, 2)]
    with pytest.raises(ConfigError, match="table is 'sqlite_rows'"):
        SqliteRows("rows.db", table="sqlite_rows")


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_file_has_columns_of_one_type(tmp_path: Path, format: str) -> None:
    sink = RowFiles(str(tmp_path), format=format)
    sink.open(Context(index=0))
    put(sink, (1, 2))
    with pytest.raises(DataError, match="rows of c0 int64 come behind rows of c0 double, c1 double"):
        sink.process_data(Items(1, "a", 0, 1, (np.zeros(1, np.int64),)), 0, None)  # type: ignore[arg-type]


def test_what_cannot_be_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="columns is 'x,x'"):
        RowFiles(str(tmp_path), columns="x,x")
    with pytest.raises(ConfigError, match="table is 'a b'"):
        SqliteRows("rows.db", table="a b")
    sink = RowFiles(str(tmp_path), columns="x")
    sink.open(Context(index=0))
    with pytest.raises(DataError, match="2 columns, and 1 are named"):
        put(sink, (1, 1))
    with pytest.raises(DataError, match="not a row for each item"):
        sink.process_data(Items(1, "a", 0, 3, (np.zeros(2),)), 0, None)  # type: ignore[arg-type]
    pairs = np.zeros(3, dtype=[("id", "i8"), ("pair", "u1", 2)])
    with pytest.raises(DataError, match=r"field pair of records holds arrays of shape \(2,\)"):
        sink.process_data(Items(1, "a", 0, 3, (pairs,)), 0, None)  # type: ignore[arg-type]
    records = np.array([(1, 2.5)], dtype=[("id", "i8"), ("value", "f8")])
    named = RowFiles(str(tmp_path / "named"))
    named.open(Context(index=0))
    named.process_data(Items(1, "a", 0, 1, (records,)), 0, None)  # type: ignore[arg-type]
    name = named.pre_commit(1)
    assert name
    named.commit(name)
    assert (tmp_path / "named" / name).read_text().splitlines() == ['"id","value"', "1,2.5"]
