"""A state that fades: with each micro-batch that closes all that it holds is multiplied by a factor (AF 3.5.2).

Nothing is multiplied in fact: later items weigh more, and are divided by their weight when they are read (Cormode,
Shkapenyuk, Srivastava, Xu, "Forward decay", 2009). So backups hold what changed, and what failures took fades too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import saved_arrays
from riprap.operators.states.hash_map import HashMap
from riprap.operators.states.vector import ArrayState

Real = TypeVar("Real", HashMap, ArrayState)
WEIGHT_MAX = 1e100
"""Beyond it weights begin anew, from 1."""


class Decaying(State, Generic[Real]):
    """A number, vector, matrix or map of float64; each `factor` (between 0 and 1) is what a micro-batch leaves of it.

    The divergence is that of what is read now: a difference from the last backup fades with the rest.
    """

    window = "decaying"

    def __init__(self, make: Callable[[], Real], factor: float = 0.5) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"the factor of a decaying state lies between 0 and 1, not at {factor}")
        self._make: Callable[[], Real] = make
        self._state: Real = make()
        self.factor = factor
        if not isinstance(self._state, HashMap | ArrayState) or self._state.entries()[-1].dtype != np.float64:
            raise ValueError(f"{type(self._state).__name__} cannot decay: only values of float64 can")
        self._closed = self._begin = 0

    def add(self, epoch: int, *update: Any) -> int:
        """As the state's `add`, for items of this micro-batch (counted from 1)."""
        *keys, amounts = update
        self._lead()
        return _add(self._state, keys, np.asarray(amounts, np.float64) * self._weight(epoch))

    def close(self, epoch: int) -> None:
        """All items of this micro-batch have come; from now on they count `factor` less."""
        self._closed = max(self._closed, epoch)
        if self._weight(self._closed) > WEIGHT_MAX:
            self._state, self._begin = self.content(), self._closed

    def content(self) -> Real:
        """A state of its own with the values as they are at the end of the last closed micro-batch."""
        now = self._make()
        *keys, values = self._state.entries()
        _add(now, keys, values / self._weight(self._closed))
        return now

    def state_divergence(self) -> float:
        return self._state.state_divergence() / self._weight(self._closed)

    def backup_state(self) -> Backup:
        self._lead()
        return self._with_weights(self._state.backup_state())

    def backup_all(self) -> Backup:
        return self._with_weights(self._state.backup_all())

    def recover_state(self, backup: Backup) -> None:
        about, *arrays = backup.arrays
        (about,) = saved_arrays([about], [np.int64])
        if len(about) != 2 or not 0 <= about[1] <= about[0]:
            raise ValueError("the backup of a decaying state does not say how old it is")
        self._state.recover_state(Backup(backup.full, tuple(arrays)))
        self._closed, self._begin = int(about[0]), int(about[1])

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        ages = [saved_arrays(backup.arrays[:1], [np.int64])[0].tolist() for backup in backups]
        if any(age != ages[0] for age in ages):
            raise ValueError("the backups of a decaying state are of different micro-batches")
        inner: Real = self._make()
        inner.recover_groups([Backup(True, tuple(backup.arrays[1:])) for backup in backups], groups)
        self.recover_state(Backup(True, (backups[0].arrays[0], *inner.backup_all().arrays)))

    def _with_weights(self, backup: Backup) -> Backup:
        return Backup(backup.full, (np.array([self._closed, self._begin], np.int64), *backup.arrays))

    def _lead(self) -> None:
        weight, state = self._weight(self._closed), self._state
        state.theta, state.save_above, state.share = self.theta * weight, self.save_above * weight, self.share

    def _weight(self, epoch: int) -> float:
        return float(self.factor ** (self._begin - epoch))


def _add(state: Any, keys: Sequence[Any], amounts: np.ndarray) -> int:
    """A number has no keys."""
    return int(state.add(*keys, amounts))
