"""The state of a loop: named arrays, the place in the loop, and peers' messages for steps that are not taken yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from riprap.operators.states.base import Backup, State


class StepKey(NamedTuple):
    """The key of one task's message at the end of one superstep of one window's loop."""

    window: int
    superstep: int
    task: int


class Reached(NamedTuple):
    """The arrays of a task within a window's loop, by name, when its job was rolled back, after so many supersteps."""

    window: int
    superstep: int
    arrays: Mapping[str, np.ndarray]


class LoopState(State):
    """All that an operator of supersteps keeps. Backups are always whole, so a loop wants an exact scheme.

    `arrays` holds the operator's own, by name; the names never change. `rows` (2-D, float64) are those
    collected in the windows that were begun; rows of later ones may come before, and wait.
    """

    def __init__(self, width: int, **arrays: np.ndarray) -> None:
        self.arrays = arrays
        self.rows = np.zeros((0, width))
        self._coming = [np.zeros((0, 1 + width))]
        """The rows, with the number of their window before them."""
        self.epoch = self.superstep = 0
        self.iterating = False
        self.came: dict[StepKey, tuple[np.ndarray, ...]] = {}

    def append(self, window: int, rows: np.ndarray) -> None:
        """Collect rows of a window. ValueError when they have another width."""
        if rows.shape[1:] != self.rows.shape[1:]:
            raise ValueError(f"rows of shape {rows.shape}, where a row has {self.rows.shape[1]} numbers")
        self._coming.append(np.column_stack([np.full(len(rows), float(window)), rows]))

    def begin(self, window: int) -> None:
        """All rows of this window have come: they join the others, in one order, and its loop begins."""
        coming = np.concatenate(self._coming)
        late = coming[:, 0] > window
        rows = np.concatenate([self.rows, coming[~late, 1:]])
        self.rows, self._coming = rows[np.lexsort(rows.T[::-1])], [coming[late]]
        self.epoch, self.superstep, self.iterating = window, 0, True

    def state_divergence(self) -> float:
        return 0.0

    def backup_state(self) -> Backup:
        keys = [[*key, len(arrays)] for key, arrays in sorted(self.came.items())]
        place = np.array([self.epoch, self.superstep, int(self.iterating)], np.int64)
        came = [array for _, arrays in sorted(self.came.items()) for array in arrays]
        own = [array.copy() for array in (self.rows, np.concatenate(self._coming), *self.arrays.values())]
        return Backup(True, (place, np.array(keys, np.int64).reshape(-1, 4), *came, *own))

    def recover_state(self, backup: Backup) -> None:
        place, keys, *rest = backup.arrays
        self.epoch, self.superstep = int(place[0]), int(place[1])
        self.iterating = bool(place[2])
        self.came.clear()
        for *key, width in keys.tolist():
            self.came[StepKey(*key)] = _own(rest[:width])
            rest = rest[width:]
        if len(rest) != 2 + len(self.arrays):
            raise ValueError(f"a backup of {len(rest)} arrays for the {2 + len(self.arrays)} of a loop")
        self.rows, coming, *own = _own(rest)
        self._coming = [coming]
        self.arrays = dict(zip(self.arrays, own, strict=True))

    def wait(self, window: int, task: int, arrays: Sequence[np.ndarray]) -> None:
        """Keep a task's block until the loop of a window begins, behind what came for it before. Of a window that has
        begun or ended, none is kept."""
        if window <= self.epoch:
            return
        place = 1 + max((key.superstep for key in self.came if key.window == window), default=-1)
        self.came[StepKey(window, place, task)] = _own(arrays)

    def waited(self, window: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Take out all that waited for a window, in the order in which it came."""
        for key in sorted(key for key in self.came if key.window == window):
            yield self.came.pop(key)

    def take(self, key: StepKey, arrays: Sequence[np.ndarray]) -> None:
        """A task has ended a superstep; its arrays are copied, for their memory is its sender's again."""
        if (key.window, key.superstep) >= (self.epoch, self.superstep):
            self.came[key] = _own(arrays)


def _own(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(array) for array in arrays)
