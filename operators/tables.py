"""Results as people read them: tables with named columns, made from arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Arrays = Mapping[str, np.ndarray]
"""The arrays that a task computed or wrote, by name."""
Columns = Mapping[str, np.ndarray]
"""1-D arrays of equal length, by name."""


@dataclass(frozen=True)
class Table:
    """Columns of equal length by name, each a 1-D array of numbers, of booleans or of text (dtype object).

    Rows stand in the order in which a reader wants them; `note` is a sentence about them, or empty.
    """

    columns: Columns
    note: str = ""

    def __post_init__(self) -> None:
        shapes = {name: np.shape(column) for name, column in self.columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise ValueError(f"the columns of a table have one length, not {shapes}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


@dataclass(frozen=True)
class Schema:
    """The columns of the job's input, as far as they are known (else none), and the label among them."""

    columns: tuple[str, ...] = ()
    label: str | None = None

    def features(self, count: int) -> list[str]:
        """Names for `count` features: those of the input where it has as many, else x0, x1, ..."""
        names = [name for name in self.columns if name != self.label]
        return names if len(names) == count else [f"x{number}" for number in range(count)]


def texts(values: Iterable[str]) -> np.ndarray:
    """A column of text."""
    listed = list(values)
    column = np.empty(len(listed), object)
    column[:] = listed
    return column


def lines_of(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Lines or words, bytes and the offsets of their bounds, as text; bytes that are no UTF-8 as \\xNN."""
    text, ends = np.asarray(data, np.uint8).tobytes(), np.asarray(offsets).tolist()
    return texts(text[begin:end].decode(errors="backslashreplace") for begin, end in pairwise(ends))


def joined(tables: Sequence[Columns]) -> dict[str, np.ndarray]:
    """The rows of tables of the same columns, one table after the other; one without rows may have other columns."""
    there = [table for table in tables if length_of(table)] or [max(tables, key=len, default={})]
    return {name: np.concatenate([table[name] for table in there]) for name in there[0]}


def of_tasks(tables: Sequence[Columns]) -> dict[str, np.ndarray]:
    """The same, with a column `task` that names the task that each row is from."""
    if len(tables) == 1:
        return dict(tables[0])
    return joined([{"task": np.full(length_of(table), task), **table} for task, table in enumerate(tables)])


def length_of(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values()), ()))


def ordered(columns: Columns, order: np.ndarray) -> dict[str, np.ndarray]:
    """The rows in another order, given as their numbers."""
    return {name: column[order] for name, column in columns.items()}


def plain_columns(arrays: Arrays) -> dict[str, np.ndarray]:
    """Arrays of equal length as columns: one of two dimensions as several, of numbers behind its name, a structured one
    as its fields. Underscores behind its name keep them apart from other arrays' columns.

    ValueError when their lengths differ.
    """
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        parts = _parts(array)
        while "" not in parts and any(name + part in columns or name + part in arrays for part in parts):
            name += "_"
        columns |= {name + part: column for part, column in parts.items()}
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"arrays of several lengths: { ({name: len(one) for name, one in columns.items()}) }")
    return columns


def _parts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of an array, by what stands behind its name; bytes as text."""
    if array.dtype.names:
        return {f".{name}{part}": one for name in array.dtype.names for part, one in _parts(array[name]).items()}
    if array.dtype.kind == "S":
        return _parts(np.char.decode(array, "utf-8", "backslashreplace"))
    if array.ndim <= 1:
        return {"": np.atleast_1d(array)}
    flat = array.reshape(len(array), math.prod(array.shape[1:]))  # -1 would not do where there is no row
    return {str(number): flat[:, number] for number in range(flat.shape[1])}


def plain_tables(results: Sequence[Arrays]) -> dict[str, Table]:
    """The results of all tasks, of an operator that does not describe them.

    Arrays of one length are the columns of one table, `result`; others are a table each, by their names.
    """
    there = [task for task in results if task]
    names = dict.fromkeys(name for task in there for name in task)
    if not names:
        return {}
    if all(task.keys() == names.keys() and len(_lengths(task)) == 1 for task in there):
        return {"result": Table(of_tasks([plain_columns(task) for task in results]))}
    return {name: Table(of_tasks([plain_columns(_only(name, task)) for task in results])) for name in names}


def _lengths(arrays: Arrays) -> set[int]:
    return {len(np.atleast_1d(array)) for array in arrays.values()}


def _only(name: str, arrays: Arrays) -> Arrays:
    return {name: arrays[name]} if name in arrays else {}
