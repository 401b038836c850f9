"""Reads lines of numbers as rows."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.text.columns import numbers, words

LINE_END = 10
LINE_ENDS = np.frombuffer(b"\n\r", np.uint8)


class ReadRows(DataflowOperator):
    """Source stage: lines of numbers with spaces or tabs between. Sends their rows, not by key."""

    def __init__(self, columns: Annotated[int, Option("The numbers in a line", unit="columns", low=1)] = 2) -> None:
        check(self, columns=columns)
        self._columns = columns

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); a whole block, there is no state."""
        form = f"Write {self._columns} numbers in each line, or set the option columns."
        data, offsets = items.arrays
        rows = table_of(data, offsets, "rows", form)
        if rows.size and rows.shape[1] != self._columns:
            raise DataError(f"the input is no list of rows: a line has {rows.shape[1]} columns", form)
        if rows.size:
            out.send([rows], len(rows))
        return items.count


def table_of(data: np.ndarray, offsets: np.ndarray, called: str, form: str) -> np.ndarray:
    """The numbers of these lines, row by row (float64, 2-D); of size 0 where all are blank.

    DataError, saying that the input is no list of what it is `called`, and what to write (`form`), where a line has
    something else, or more or fewer than another.
    """
    split = None if np.isin(data, LINE_ENDS).any() else words(data, offsets)
    if split is not None:
        bytes_, ends, counts = split
        width = counts.max(initial=0)
        table = numbers(bytes_, ends) if width and np.isin(counts, (0, width)).all() else None
        if table is not None:
            return table.reshape(-1, width)
    return _line_by_line(data, offsets, called, form)


def _line_by_line(data: np.ndarray, offsets: np.ndarray, called: str, form: str) -> np.ndarray:
    """Whatever Python takes for numbers, or why it is none."""
    lines = np.insert(data, offsets[1:-1], LINE_END).tobytes().splitlines()
    try:
        return np.array([line.split() for line in lines if line.strip()], np.float64, ndmin=2)
    except ValueError as error:
        raise DataError(f"the input is no list of {called}: {error}", form) from error
