"""The state of a loop: named arrays, where the loop is, and what peers have said for steps that are not taken yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from riprap.operators.states.base import Backup, State


class StepKey(NamedTuple):
    """What one task said at the end of one superstep of one window's loop."""

    window: int
    superstep: int
    task: int


class LoopState(State):
    """All that an operator of supersteps keeps. Backups are always whole, so a loop wants an exact scheme.

    `arrays` holds the operator's own, by name; which names there are never changes. Beside them it collects rows.
    """

    def __init__(self, width: int, **arrays: np.ndarray) -> None:
        self.arrays = arrays
        self._rows = [np.zeros((0, width))]
        self.window = self.superstep = 0
        self.iterating = False
        self.came: dict[StepKey, tuple[np.ndarray, ...]] = {}

    @property
    def rows(self) -> np.ndarray:
        """The rows collected (2-D, float64)."""
        if len(self._rows) > 1:
            self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    @rows.setter
    def rows(self, rows: np.ndarray) -> None:
        self._rows = [rows]

    def append(self, rows: np.ndarray) -> None:
        """Collect further rows. ValueError when they have another width."""
        if rows.shape[1:] != self._rows[0].shape[1:]:
            raise ValueError(f"rows of shape {rows.shape}, where a row has {self._rows[0].shape[1]} numbers")
        self._rows.append(rows)

    def state_divergence(self) -> float:
        return 0.0

    def backup_state(self) -> Backup:
        keys = [[*key, len(arrays)] for key, arrays in sorted(self.came.items())]
        place = np.array([self.window, self.superstep, int(self.iterating)], np.int64)
        came = [array for _, arrays in sorted(self.came.items()) for array in arrays]
        own = [array.copy() for array in (self.rows, *self.arrays.values())]
        return Backup(True, (place, np.array(keys, np.int64).reshape(-1, 4), *came, *own))

    def recover_state(self, backup: Backup) -> None:
        place, keys, *rest = backup.arrays
        self.window, self.superstep = int(place[0]), int(place[1])
        self.iterating = bool(place[2])
        self.came.clear()
        for *key, width in keys.tolist():
            self.came[StepKey(*key)] = _own(rest[:width])
            rest = rest[width:]
        if len(rest) != 1 + len(self.arrays):
            raise ValueError(f"a backup of {len(rest)} arrays for the {1 + len(self.arrays)} of a loop")
        self.rows, *own = _own(rest)
        self.arrays = dict(zip(self.arrays, own, strict=True))

    def take(self, key: StepKey, arrays: Sequence[np.ndarray]) -> None:
        """A task has ended a superstep; its arrays are copied, for their memory is its sender's again."""
        if (key.window, key.superstep) >= (self.window, self.superstep):
            self.came[key] = _own(arrays)


def _own(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(array) for array in arrays)
