"""The average of local models as a fault-tolerant state that knows what the models agreed on last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riprap.operators.states import Vector
from riprap.operators.states.base import Backup, Sliced, State
from riprap.operators.states.checks import saved_arrays


class AgreedModel(State):
    """Parameters, zeros at first, that reports move. Divergence: their Euclidean distance from the last backup.

    Between two agreements it also holds the parameters that were reported, with what was agreed on of them last, and
    the number of reports. Each backup holds all of these, before the arrays of the parameters' own (vector.py).
    """

    rolls = True

    def __init__(self, parameters: int) -> None:
        self.parameters = parameters
        self._average = Vector(parameters, "euclidean")
        self._agreed = np.zeros(parameters)
        """Invariant: but for the changed ones, it equals the average."""
        self._is_changed = np.zeros(parameters, np.bool_)
        self._changed: list[np.ndarray] = []
        """For each report since the last agreement, the parameters that no earlier one has."""
        self.reports = 0
        """The number of them."""

    @property
    def values(self) -> np.ndarray:
        """The average, read-only; it changes with the state."""
        return self._average.values

    def add(self, indexes: np.ndarray, values: np.ndarray, models: int) -> None:
        """A report of one of so many models, as one item: it is taken in whole, whatever theta is."""
        self._average.add(indexes.astype(np.int64), (values - self._agreed[indexes]) / models)
        fresh = indexes[~self._is_changed[indexes]]  # flags are cheaper than sorting
        self._is_changed[fresh] = True
        self._changed.append(fresh)
        self.reports += 1

    def agree(self) -> tuple[np.ndarray, np.ndarray]:
        """The parameters that were reported since the last agreement (uint32), and their values, now agreed on."""
        indexes = self._waiting
        values = self.values[indexes]
        self._agreed[indexes] = values
        self._is_changed[indexes] = False
        self._changed, self.reports = [], 0
        return indexes, values

    @property
    def _waiting(self) -> np.ndarray:
        return np.concatenate([np.empty(0, np.uint32), *self._changed])

    @property
    def cleared(self) -> bool:
        return self._average.cleared

    def state_divergence(self) -> float:
        return self._average.state_divergence()

    def backup_state(self) -> Backup:
        return self._with_waiting(self._average.backup_state())

    def backup_all(self) -> Backup:
        return self._with_waiting(self._average.backup_all())

    def copy_all(self) -> Backup:
        return self._with_waiting(self._average.copy_all())

    def backup_rolling(self, place: int, of: int) -> Sliced:
        backup, part = self._average.backup_rolling(place, of)
        return Sliced(self._with_waiting(backup), part)

    def recover_state(self, backup: Backup) -> None:
        waiting, own = self._parted(backup)
        self._average.recover_state(own)
        self._wait(*waiting)

    def recover_chain(self, backups: Sequence[Sliced]) -> None:
        parts = [self._parted(one.backup) for one in backups]
        self._average.recover_chain([Sliced(own, one.slice) for (_, own), one in zip(parts, backups, strict=True)])
        self._wait(*parts[-1][0])

    def _wait(self, indexes: np.ndarray, agreed: np.ndarray, reports: int) -> None:
        """Go on between two agreements."""
        self._agreed = self.values.copy()
        self._agreed[indexes] = agreed
        self._is_changed[:] = False
        self._is_changed[indexes] = True
        self._changed, self.reports = [indexes.copy()], reports

    def _with_waiting(self, backup: Backup) -> Backup:
        indexes = self._waiting
        about = np.array([self.reports], np.int64)
        return Backup(backup.full, (about, indexes, self._agreed[indexes], *backup.arrays))

    def _parted(self, backup: Backup) -> tuple[tuple[np.ndarray, np.ndarray, int], Backup]:
        """Indexes, values agreed on, and reports; and the parameters' own backup. ValueError when they are none."""
        about, indexes, agreed = saved_arrays(backup.arrays[:3], [np.int64, np.uint32, np.float64])
        if len(about) != 1 or about[0] < 0 or len(indexes) != len(agreed) or (indexes >= self.parameters).any():
            raise ValueError("a backup of an average that does not say what was agreed on")
        return (indexes, agreed, int(about[0])), Backup(backup.full, tuple(backup.arrays[3:]))
