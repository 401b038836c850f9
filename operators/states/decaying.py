"""A state that fades: with each micro-batch that closes all that it holds is multiplied by a factor (AF 3.5.2).

Nothing is multiplied in fact: later items weigh more, and are divided by their weight when they are read (Cormode,
Shkapenyuk, Srivastava, Xu, "Forward decay", 2009). So backups hold what changed, and what failures took fades too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import saved_arrays
from riprap.operators.states.hash_map import HashMap
from riprap.operators.states.numbered import of_groups, packed, recovered
from riprap.operators.states.vector import ArrayState

Real = TypeVar("Real", HashMap, ArrayState)
WEIGHT_LOG_MAX = math.log(1e100)
"""Weights whose logarithm is greater begin anew, from 1."""
FACTOR_MIN = 1e-100
"""So that the weight of the next micro-batch is far from infinite, whatever amounts it is multiplied with."""


class Decaying(State, Generic[Real]):
    """A number, vector, matrix or map of float64; `factor`, from 1e-100 and below 1, is what each micro-batch leaves.

    The divergence is that of what is read now: a difference from the last backup fades with the rest.
    """

    window = "decaying"

    def __init__(self, make: Callable[[], Real], factor: float = 0.5) -> None:
        if not FACTOR_MIN <= factor < 1:
            raise ValueError(f"the factor of a decaying state is at least {FACTOR_MIN:g} and less than 1, not {factor}")
        self._make: Callable[[], Real] = make
        self._state: Real = make()
        self.factor = factor
        if not isinstance(self._state, HashMap | ArrayState) or self._state.entries()[-1].dtype != np.float64:
            raise ValueError(f"{type(self._state).__name__} cannot decay: only values of float64 can")
        self._closed = self._begin = 0
        self._ahead: dict[int, Real] = {}
        """By micro-batch behind the open one, items that came early and would count too much there."""

    def add(self, epoch: int, *update: Any) -> int:
        """As the state's `add`, for items of this micro-batch (counted from 1)."""
        *keys, amounts = update
        values, is_early = np.asarray(amounts, np.float64), epoch > self._closed + 1
        self._take_in(self._closed + 1)
        if is_early:
            self._ahead.setdefault(epoch, self._make())
        self._lead()
        return _add(self._ahead[epoch], keys, values) if is_early else self._take(epoch, keys, values)

    def close(self, epoch: int) -> None:
        """All items of this micro-batch have come; from now on they count `factor` less."""
        self._closed = max(self._closed, epoch)
        if (self._begin - self._closed) * math.log(self.factor) > WEIGHT_LOG_MAX:
            self._state, self._begin = self.content(), self._closed
        self._take_in(self._closed)

    def content(self) -> Real:
        """A state of its own with the values as they are at the end of the last closed micro-batch."""
        now = self._make()
        *keys, values = self._state.entries()
        _add(now, keys, values * self.factor ** (self._closed - self._begin))
        return now

    def state_divergence(self) -> float:
        own = self._state.state_divergence() / self._weight(self._closed)
        return own + sum(ahead.state_divergence() for ahead in self._ahead.values())

    def backup_state(self) -> Backup:
        self._lead()
        own = self._state.backup_state()
        return self._with_ahead(own, lambda one: one.backup_all() if own.full else one.backup_state())

    def backup_all(self) -> Backup:
        return self._with_ahead(self._state.backup_all(), lambda one: one.backup_all())

    def recover_state(self, backup: Backup) -> None:
        about, *arrays = backup.arrays
        (about,) = saved_arrays([about], [np.int64])
        parts = about[2:].reshape(-1, 3) if len(about) % 3 == 2 else None
        if parts is None or not 0 <= about[1] <= about[0] or (parts[:, 2] < 0).any():
            raise ValueError("the backup of a decaying state does not say how old it is")
        own = len(arrays) - int(parts[:, 2].sum())
        self._state.recover_state(Backup(backup.full, tuple(arrays[: max(own, 0)])))
        self._ahead = recovered(parts, arrays[own:], self._ahead, self._make)
        self._closed, self._begin = int(about[0]), int(about[1])

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        tasks = [type(self)(self._make, self.factor) for _ in backups]
        for task, backup in zip(tasks, backups, strict=True):
            task.recover_state(backup)
        self._closed, self._begin = tasks[0]._closed, tasks[0]._begin
        if any((task._closed, task._begin) != (self._closed, self._begin) for task in tasks):
            raise ValueError("the backups of a decaying state are of different micro-batches")
        self._state.recover_groups([task._state.backup_all() for task in tasks], groups)
        self._ahead = of_groups([task._ahead for task in tasks], self._make, groups)

    def _take_in(self, last: int) -> None:
        """Add what came early of micro-batches up to this one."""
        for number in sorted(number for number in self._ahead if number <= last):
            *keys, values = self._ahead.pop(number).entries()
            self._state.theta = math.inf
            self._take(number, keys, values)
            self._lead()

    def _take(self, epoch: int, keys: Sequence[Any], values: np.ndarray) -> int:
        return _add(self._state, keys, values * self._weight(epoch))

    def _with_ahead(self, own: Backup, of: Callable[[Real], Backup]) -> Backup:
        found: list[np.ndarray] = packed(
            [self._closed, self._begin], {number: of(one) for number, one in self._ahead.items()}
        )
        return Backup(own.full, (found[0], *own.arrays, *found[1:]))

    def _lead(self) -> None:
        """Give each part what a scheme has set; theta is for all together."""
        parts: list[tuple[Real, float]] = [(self._state, self._weight(self._closed))]
        parts += [(ahead, 1.0) for ahead in self._ahead.values()]
        apart = [part.state_divergence() / scale for part, scale in parts] if self._ahead else [0.0]
        for place, (part, scale) in enumerate(parts):
            theta = self.theta - sum(apart[:place] + apart[place + 1 :])
            part.theta = math.inf if math.isnan(theta) else theta * scale
            part.save_above, part.share = self.save_above * scale / len(parts), self.share

    def _weight(self, epoch: int) -> float:
        return float(self.factor ** (self._begin - epoch))


def _add(state: Any, keys: Sequence[Any], amounts: np.ndarray) -> int:
    """A number has no keys."""
    return int(state.add(*keys, amounts))
