"""Tables as files: what is written can be read back, by others' readers too, and is the same each time."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from riprap.engine.flow.table_files import WRITERS, write_table
from riprap.operators.tables import texts

COLUMNS = {
    "word": texts(["café", 'say "no", please', "two\nlines", ""]),
    "count": np.array([3, -1, 2**62, 0], np.int64),
    "share": np.array([0.1, 1 / 3, np.nan, -0.0]),
    "port": np.array([80, 0, 65535, 1], np.uint16),
}


def test_csv_is_read_back(tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", COLUMNS, "csv")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        heading, *rows = csv.reader(file)
    assert heading == list(COLUMNS) and [row[0] for row in rows] == COLUMNS["word"].tolist()
    assert [int(row[1]) for row in rows] == COLUMNS["count"].tolist()
    np.testing.assert_array_equal([float(row[2]) for row in rows], COLUMNS["share"])


def test_json_lines_are_read_back(tmp_path: Path) -> None:
    write_table(tmp_path / "a.jsonl", COLUMNS, "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["word"] for row in rows] == COLUMNS["word"].tolist()
    assert [row["share"] for row in rows] == [0.1, 1 / 3, None, 0.0]


def test_parquet_is_read_back(tmp_path: Path) -> None:
    write_table(tmp_path / "a.parquet", COLUMNS, "parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == list(COLUMNS) and str(table.schema.field("port").type) == "uint16"
    assert table["word"].to_pylist() == COLUMNS["word"].tolist() and table["count"].to_pylist()[2] == 2**62
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    write_table(tmp_path / "empty.parquet", empty, "parquet")
    assert parquet.read_table(tmp_path / "empty.parquet").schema.equals(table.schema), "windows without rows fit too"


@pytest.mark.parametrize("format", WRITERS)
def test_the_same_rows_are_the_same_bytes(tmp_path: Path, format: str) -> None:
    for name in ("a", "b"):
        write_table(tmp_path / name, COLUMNS, format)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">M8[s]"])
def test_parquet_takes_numbers_of_either_order_of_bytes(tmp_path: Path, dtype: str) -> None:
    write_table(tmp_path / "a.parquet", {"a": np.arange(3).astype(dtype)}, "parquet")
    assert parquet.read_table(tmp_path / "a.parquet")["a"].to_numpy().tolist() == np.arange(3).astype(dtype).tolist()


@pytest.mark.parametrize("dtype", ["c16", "M8[h]", "m8[D]", "g"])
def test_what_parquet_has_no_type_for_is_text_there_as_in_csv(tmp_path: Path, dtype: str) -> None:
    columns = {"a": np.arange(3).astype(dtype)}
    write_table(tmp_path / "a.parquet", columns, "parquet")
    write_table(tmp_path / "a.csv", columns, "csv")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    assert [[text] for text in parquet.read_table(tmp_path / "a.parquet")["a"].to_pylist()] == rows
