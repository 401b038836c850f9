"""Writes a table as CSV, JSON lines or Parquet: the same bytes for the same rows (Parquet: with the same PyArrow)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from riprap.codec.files import replacing
from riprap.codec.json_text import to_json
from riprap.operators.tables import Columns, length_of

ROWS_AT_ONCE = 8192


def write_table(path: Path, columns: Columns, format: str) -> None:
    """Write a file as a whole or not at all; `format` is csv, jsonl or parquet."""
    write = WRITERS[format]
    with replacing(path) as file:
        write(file, columns)


def rows_of(columns: Columns) -> Iterator[list[Any]]:
    """The rows as Python's own values."""
    for first in range(0, length_of(columns), ROWS_AT_ONCE):
        parts = [column[first : first + ROWS_AT_ONCE].tolist() for column in columns.values()]
        yield from map(list, zip(*parts, strict=True))


def _write_csv(file: IO[bytes], columns: Columns) -> None:
    """RFC 4180, in UTF-8, with a heading; numbers as Python writes them, so that they can be read back exactly."""
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows_of(columns))
    text.detach()


def _write_jsonl(file: IO[bytes], columns: Columns) -> None:
    """A JSON object a line; numbers that are not finite are null."""
    for row in rows_of(columns):
        file.write(to_json(dict(zip(columns, row, strict=True))).encode() + b"\n")


def _write_parquet(file: IO[bytes], columns: Columns) -> None:
    import pyarrow as arrow  # a start that other formats need not pay
    from pyarrow import parquet

    def typed(column: np.ndarray) -> Any:
        """An array of Arrow; of text where it has no type for these values (complex numbers, hours)."""
        if column.dtype == object:
            return arrow.array(column, arrow.string())
        try:
            return arrow.array(np.ascontiguousarray(column, column.dtype.newbyteorder("=")))
        except arrow.ArrowNotImplementedError:
            return arrow.array(map(str, column.tolist()), arrow.string())

    arrays = [typed(column) for column in columns.values()]
    parquet.write_table(arrow.Table.from_arrays(arrays, names=list(columns)), file)


WRITERS: dict[str, Callable[[IO[bytes], Columns], None]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
"""By the names of formats (configs/sections.py)."""
