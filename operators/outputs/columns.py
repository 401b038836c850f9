"""Blocks of items as columns with names, for outputs."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import ConfigError, DataError


def names_of(columns: str | None) -> tuple[str, ...] | None:
    """The names in an option, with commas between them; ConfigError for an empty or a repeated one."""
    if columns is None:
        return None
    names = tuple(name.strip() for name in columns.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"the option columns is {columns!r}", "name each column once, with commas between them")
    return names


def columns_of(
    arrays: tuple[np.ndarray, ...], first: int, count: int, names: tuple[str, ...] | None
) -> dict[str, np.ndarray]:
    """Items first <= item < count as 1-D columns, in memory of their own. Arrays are (count,) or (count, width), or
    records of named fields, a value each. DataError for others, and where `names` are not as many as the columns.
    """
    found: list[tuple[str, np.ndarray]] = []
    for array in arrays:
        if array.ndim not in (1, 2) or len(array) != count:
            raise DataError(
                f"a block of {count} items has an array of shape {array.shape}, which is not a row for each item",
                "send arrays of one row an item to this stage",
            )
        if array.dtype.names:
            found += [(name, _field(array, name)) for name in array.dtype.names]
        else:
            parts = [array] if array.ndim == 1 else list(array.T)
            found += [(f"c{len(found) + i}", part) for i, part in enumerate(parts)]
    if names is not None and len(names) != len(found):
        raise DataError(f"items have {len(found)} columns, and {len(names)} are named", "correct the option columns")
    called = names or tuple(name for name, _ in found)
    return {name: np.array(column[first:count]) for name, (_, column) in zip(called, found, strict=True)}


def _field(records: np.ndarray, name: str) -> np.ndarray:
    column = np.asarray(records[name])
    if column.ndim != 1:
        raise DataError(
            f"the field {name} of records holds arrays of shape {column.shape[1:]}, which are no column",
            "send fields of one value each to this stage",
        )
    return column
