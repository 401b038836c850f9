"""Vector and matrix of float64 with built-in fault tolerance (AF Table 8)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.states._kernels import Cells
from riprap.operators.states.checks import column, saved_arrays
from riprap.operators.states.tracked import Arrays, CellsState, one_of

SPARSE = 4
"""An index and a value take twice the room of a value."""


class ArrayState(CellsState):
    """An array of float64, zeros at first, with entries that are addressed by their flat index.

    A full backup is (values,), or (indexes int64, values) of what is not 0 where that is half as large; so is a partial
    one. Values should be finite: an entry that is not has an infinite divergence.
    """

    DIVERGENCES: tuple[str, ...] = ("manhattan", "euclidean", "maximum")

    def __init__(self, shape: tuple[int, ...], divergence: str) -> None:
        if any(size < 0 for size in shape):
            raise ValueError(f"no array has the shape {shape}")
        self._shape = shape
        self.divergence = one_of("divergence", divergence, self.DIVERGENCES)
        self._cells = Cells(math.prod(shape), "manhattan" if divergence == "difference" else divergence)

    @property
    def values(self) -> np.ndarray:
        """The array itself, read-only; it changes with the state."""
        view = self._cells.values.reshape(self._shape)
        view.flags.writeable = False
        return view

    def add(self, indexes: Any, amounts: Any) -> int:
        """Add amounts (float64) to the entries of these indexes (int64), one item each, in their order.

        Returns the number applied: all, or up to and with the one that makes the divergence exceed theta. ValueError
        when the lengths differ, or at an index out of range; then the items before it are applied.
        """
        return self._update(indexes, amounts, assign=False)

    def assign(self, indexes: Any, values: Any) -> int:
        """Set the entries of these indexes; else as `add`."""
        return self._update(indexes, values, assign=True)

    def overwrite(self, array: Any) -> None:
        """Replace the whole array, as one item. ValueError when it has another shape."""
        values = np.asarray(array, np.float64)
        if values.shape != self._shape:
            raise ValueError(f"an array of shape {values.shape} cannot replace one of shape {self._shape}")
        self._lined().replace(np.require(values.reshape(-1), np.float64, ["C", "A"]))

    def entries(self) -> tuple[np.ndarray, ...]:
        """The arguments of which `add` makes the same array; copies."""
        return np.arange(len(self._cells)), self._cells.values.copy()

    def _update(self, indexes: Any, amounts: Any, assign: bool) -> int:
        where, values = column(indexes, np.int64, "indexes"), column(amounts, np.float64, "values")
        return self._lined().update(where, values, self.theta, assign)

    def _mostly_changed(self) -> bool:
        return 2 * self._lined().changed >= len(self._cells)

    def _changed_arrays(self) -> Arrays:
        indexes = self._cells.changes
        return indexes, self._cells.values[indexes]

    def _all_arrays(self) -> Arrays:
        values = self._cells.values
        indexes = np.flatnonzero(values)
        return (indexes, values[indexes]) if SPARSE * len(indexes) < len(values) else (values.copy(),)

    def _slice_arrays(self, start: int, stop: int) -> Arrays:
        return (self._cells.saved[start:stop].copy(),)

    def _load(self, parts: Sequence[Arrays]) -> None:
        if len(parts[0]) == 2:
            indexes, found = self._entries(parts[0])
            values = np.zeros(len(self._cells))
            values[indexes] = found
        else:
            slices = [saved_arrays(arrays, [np.float64])[0] for arrays in parts]
            values = np.concatenate(slices) if len(slices) > 1 else slices[0]
        self._cells.replace(values)
        self._settle()

    def _merge(self, arrays: Arrays) -> None:
        self._cells.take(*self._entries(arrays))

    def _entries(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Indexes and values of a backup; ValueError when they are none."""
        indexes, values = saved_arrays(arrays, [np.int64, np.float64])
        if len(indexes) != len(values):
            raise ValueError(f"the backup has {len(indexes)} indexes for {len(values)} values")
        if len(indexes) and not 0 <= indexes.min() <= indexes.max() < len(self._cells):
            raise ValueError(f"the backup has an index out of range of {len(self._cells)} entries")
        return indexes, values

    def _empty(self) -> None:
        self._cells.clear(len(self._cells))


class Vector(ArrayState):
    """A vector of n values."""

    def __init__(self, n: int, divergence: str = "manhattan") -> None:
        super().__init__((n,), divergence)

    def __len__(self) -> int:
        return self._shape[0]


class Matrix(ArrayState):
    """A matrix; `values` has its shape, indexes are flat: row * columns + column."""

    def __init__(self, shape: tuple[int, int], divergence: str = "manhattan") -> None:
        rows, columns = shape
        super().__init__((rows, columns), divergence)

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns)."""
        return self._shape
