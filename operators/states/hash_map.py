"""A hash map with built-in fault tolerance (AF Table 8)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.states._kernels import DIVERGENCES, Cells, KeyTable
from riprap.operators.states.base import Backup
from riprap.operators.states.checks import (
    Keys,
    column,
    count_of,
    key_column,
    keys_at,
    places_in,
    saved_arrays,
    saved_keys,
)
from riprap.operators.states.tracked import Arrays, CellsState, one_of

KINDS = ("int64", "bytes")
VALUES: dict[str, type[np.float64] | type[np.int64]] = {"float64": np.float64, "int64": np.int64}


class HashMap(CellsState):
    """Keys (int64, or byte strings) with values (float64, or int64, which wraps around); an absent key counts as 0.

    Keys are handed in and out as arrays: int64, or a pair of bytes (uint8) and n + 1 offsets (int64), where the first
    offset need not be 0. Backups are (keys, values) or (bytes, offsets, values).

    `relative`, with divergence `maximum`, promises of each key that it never lacks more than this part of its value; a
    new key is never lost. The divergence is infinite while that depends on a backup.
    """

    def __init__(
        self, key: str = "int64", divergence: str = "manhattan", values: str = "float64", relative: float = math.inf
    ) -> None:
        self.key = one_of("key", key, KINDS)
        self.divergence = one_of("divergence", divergence, DIVERGENCES)
        self._dtype = VALUES[one_of("values", values, tuple(VALUES))]
        self.relative = _promise(relative, divergence)
        self._packed = key == "bytes"
        self._table, self._cells = filled(self._packed), Cells(0, self.divergence, self._dtype)

    def __len__(self) -> int:
        return len(self._table)

    def add(self, keys: Keys, amounts: Any) -> int:
        """Add amounts to the values of these keys, one item each, in their order.

        Returns the number applied: all, or up to and with the one that makes the divergence exceed theta. ValueError
        when lengths differ, or at a malformed packed key; then the items before it are applied.
        """
        return self._update(keys, amounts, assign=False)

    def assign(self, keys: Keys, values: Any) -> int:
        """Set the values of these keys; else as `add`."""
        return self._update(keys, values, assign=True)

    def get(self, keys: Keys, default: float = 0) -> np.ndarray:
        """The value of each key, `default` where it is not there. ValueError when packed keys are malformed."""
        indexes = self._table.find(key_column(keys, self._packed))
        found = np.full(len(indexes), default, self._dtype)
        there = indexes >= 0
        found[there] = self._cells.values[indexes[there]]
        return found

    def items(self) -> tuple[Keys, np.ndarray]:
        """All keys in the order in which they came, and their values; copies."""
        return self._table.contents, self._cells.values.copy()

    def entries(self) -> tuple[Keys, np.ndarray]:
        """The arguments of which `add` makes the same map; copies."""
        return self.items()

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        parts = [self._checked(backup.arrays) for backup in backups]
        chosen = [places_in(keys, groups) for keys, _ in parts]
        at = zip(parts, chosen, strict=True)
        self._recover([flat(keys_at(keys, places), values[places]) for (keys, values), places in at])

    def _update(self, keys: Keys, amounts: Any, assign: bool) -> int:
        values = column(amounts, self._dtype, "values")
        return self._table.update(self._lined(), key_column(keys, self._packed), values, self.theta, assign)

    def _mostly_changed(self) -> bool:
        return self._lined().changed == len(self._cells)

    def _changed_arrays(self) -> Arrays:
        indexes = self._cells.changes
        return flat(self._table.take(indexes), self._cells.values[indexes])

    def _all_arrays(self) -> Arrays:
        return flat(*self.items())

    def _slice_arrays(self, start: int, stop: int) -> Arrays:
        return flat(self._table.part(start, stop), self._cells.saved[start:stop].copy())

    def _checked(self, arrays: Sequence[np.ndarray]) -> tuple[Keys, np.ndarray]:
        (values,) = saved_arrays(arrays[-1:], [self._dtype])
        keys = saved_keys(arrays[:-1], self._packed)
        if count_of(keys) != len(values):
            raise ValueError(f"the backup has {count_of(keys)} keys for {len(values)} values")
        return keys, values

    def _load(self, parts: Sequence[Arrays]) -> None:
        checked = [self._checked(arrays) for arrays in parts]
        table = filled(self._packed, [keys for keys, _ in checked])
        self._cells.fill([values for _, values in checked], table.room)
        self._table = table

    def _merge(self, arrays: Arrays) -> None:
        self._table.take_over(self._cells, *self._checked(arrays))

    def _empty(self) -> None:
        self._table.clear()
        self._cells.clear(0)


def _promise(relative: float, divergence: str) -> float:
    """The promise as a number; ValueError where it cannot be kept."""
    if not relative >= 0:
        raise ValueError(f"relative must be 0 or more, not {relative}")
    if relative < math.inf and divergence != "maximum":
        raise ValueError(f"relative needs the divergence maximum, not {divergence}, which is not of single keys")
    return relative


def filled(packed: bool, parts: Sequence[Keys] = ()) -> KeyTable:
    """A table of all these keys. ValueError where one is there twice."""
    count = sum(map(count_of, parts))
    table = KeyTable(packed, secrets.randbits(64), count)
    for keys in parts:
        table.add(keys, 0, math.inf)
    if len(table) != count:
        raise ValueError("the backup has a key twice")
    return table


def flat(keys: Keys, *others: np.ndarray) -> Arrays:
    """Keys and further arrays as the arrays of a backup."""
    return (*keys, *others) if isinstance(keys, tuple) else (keys, *others)
