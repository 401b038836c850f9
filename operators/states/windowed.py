"""A state of the last windows alone: hopping, begun anew every few, or sliding, without the oldest (AF 3.5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import saved_arrays
from riprap.operators.states.hash_map import HashMap
from riprap.operators.states.key_set import KeySet
from riprap.operators.states.numbered import of_groups, packed, recovered
from riprap.operators.states.tracked import one_of
from riprap.operators.states.vector import ArrayState

BuiltIn = TypeVar("BuiltIn", HashMap, KeySet, ArrayState)
WINDOWS = ("hopping", "sliding")


class Windowed(State, Generic[BuiltIn]):
    """A built-in state a pane: a hopping window is one, a sliding one has a pane for each of its `epochs` windows.

    Items go to the pane of their own window, as those of a later one may come before it has closed everywhere. The
    divergence is the sum of the panes'. What failures took from a pane is gone with it.
    """

    def __init__(self, make: Callable[[], BuiltIn], window: str, epochs: int = 1) -> None:
        if epochs < 1:
            raise ValueError(f"a window has 1 micro-batch or more, not {epochs}")
        self.window, self.window_epochs = one_of("window", window, WINDOWS), epochs
        self._make: Callable[[], BuiltIn] = make
        self._panes: dict[int, BuiltIn] = {}
        self._closed = 0
        self._unsaved = False

    def add(self, epoch: int, *update: Any) -> int:
        """As the state's `add`, for items of this window (counted from 1)."""
        pane = self._panes.setdefault(self._number(epoch), self._make())
        self._lead(pane, self.theta - sum(one.state_divergence() for one in self._panes.values() if one is not pane))
        return int(pane.add(*update))

    def close(self, epoch: int) -> None:
        """All items of this micro-batch have come: what lies before the window that it is in, or ends, is dropped."""
        self._closed, self._unsaved = max(self._closed, epoch), True
        self._panes = {number: pane for number, pane in self._panes.items() if number >= self._first(self._closed)}

    def content(self) -> BuiltIn:
        """A state of its own with what the window holds that the last closed micro-batch is in, or ends."""
        whole = self._make()
        for number in range(self._first(self._closed), self._number(self._closed) + 1):
            if number in self._panes:
                whole.add(*self._panes[number].entries())
        return whole

    @property
    def cleared(self) -> bool:
        return self._unsaved

    def state_divergence(self) -> float:
        return sum(pane.state_divergence() for pane in self._panes.values())

    def backup_state(self) -> Backup:
        return self._backup(lambda pane: pane.backup_state())

    def backup_all(self) -> Backup:
        return self._backup(lambda pane: pane.backup_all())

    def recover_state(self, backup: Backup) -> None:
        about, *arrays = backup.arrays
        (about,) = saved_arrays([about], [np.int64])
        panes = about[1:].reshape(-1, 3) if len(about) % 3 == 1 else None
        if panes is None or panes[:, 2].sum() != len(arrays) or (panes[:, 2] < 0).any():
            raise ValueError("the backup of a window does not say of which panes it is")
        self._panes = recovered(panes, arrays, self._panes, self._make)
        self._closed, self._unsaved = int(about[0]), False

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        tasks = [type(self)(self._make, self.window, self.window_epochs) for _ in backups]
        for task, backup in zip(tasks, backups, strict=True):
            task.recover_state(backup)
        if any(task._closed != tasks[0]._closed for task in tasks):
            raise ValueError("the backups of a window are of different micro-batches")
        self._closed, self._unsaved = tasks[0]._closed, False
        self._panes = of_groups([task._panes for task in tasks], self._make, groups)

    def _backup(self, of: Callable[[BuiltIn], Backup]) -> Backup:
        backups: dict[int, Backup] = {}
        for number, pane in self._panes.items():
            self._lead(pane, self.theta)
            backups[number] = of(pane)
        self._unsaved = False
        return Backup(all(one.full for one in backups.values()), tuple(packed([self._closed], backups)))

    def _lead(self, pane: BuiltIn, theta: float) -> None:
        """Give a pane its part of what a scheme has set."""
        pane.theta = math.inf if math.isnan(theta) else theta
        pane.save_above, pane.share = self.save_above / len(self._panes), self.share

    def _number(self, epoch: int) -> int:
        return (epoch - 1) // self.window_epochs if self.window == "hopping" else epoch

    def _first(self, epoch: int) -> int:
        return self._number(epoch) if self.window == "hopping" else epoch - self.window_epochs + 1
