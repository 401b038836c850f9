"""The base of the built-in states: the choice of full backups, and the order in which backups may be taken in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.states._kernels import Cells
from riprap.operators.states.base import Backup, Slice, Sliced, State

Arrays = tuple[np.ndarray, ...]


class TrackedState(State):
    """A state that knows which of its entries changed since the last backup.

    A partial backup needs the one before it; where it would not be smaller than a full one, a full one is made.
    """

    _due_whole = True
    """True when the backup server holds nothing that this state differs from by its changes only."""

    def backup_state(self) -> Backup:
        """The changes by more than `spared`, or all where that is no more, at first and after `clear`."""
        if self._due_whole or self._mostly_changed():
            return self.backup_all()
        arrays = self._changed_arrays()
        self._settle_changes()
        return Backup(False, arrays)

    rolls = True
    _total = 0
    """The entries that there were when the round of slices began."""

    def backup_rolling(self, place: int, of: int) -> Sliced:
        """The changes, and a slice; or all of it, as `backup_state`."""
        if self._due_whole or self._mostly_changed():
            return Sliced(self.backup_all())
        if place == 0:
            self._total = self._count()
        start, stop = self._total * place // of, self._total * (place + 1) // of
        one = Slice(start, stop, self._total, self._slice_arrays(start, stop))
        return Sliced(self.backup_state(), one)

    def recover_chain(self, backups: Sequence[Sliced]) -> None:
        """Take in a full backup, or a round of slices; then the changes."""
        if not backups[0].backup.full:
            self._recover(self._round(backups))
        for one in backups:
            self.recover_state(one.backup)

    def _recover(self, parts: Sequence[Arrays]) -> None:
        """Take in all entries, in parts one behind the other; none has changed then."""
        self._load(parts)
        self._due_whole = False

    def _round(self, backups: Sequence[Sliced]) -> list[Arrays]:
        """The first round of slices, all entries. Each one's last change is behind its slice, or in none."""
        found: list[Arrays] = []
        at = 0
        for _, one in backups:
            if one is None or one.start != at:
                break
            found.append(one.arrays)
            if one.stop == one.total:
                return found
            at = one.stop
        raise ValueError(f"the backups hold slices up to entry {at} only")

    def copy_all(self) -> Backup:
        """All entries, whatever has changed."""
        return Backup(True, self._all_arrays())

    def backup_all(self) -> Backup:
        """All entries, so that no earlier backup is needed any more."""
        arrays = self._all_arrays()
        self._settle()
        self._due_whole = False
        return Backup(True, arrays)

    def recover_state(self, backup: Backup) -> None:
        """Take in a full backup, then the partial ones in their order; the divergence is 0 after each.

        ValueError when it is malformed (the state stays as it was), or partial and the state is not the one before it.
        """
        arrays = tuple(backup.arrays)
        if backup.full:
            self._recover([arrays])
        elif self._due_whole or self._has_changed():
            raise ValueError("a partial backup can only be taken in after the full one and those between them")
        else:
            self._merge(arrays)

    @property
    def cleared(self) -> bool:
        return self._due_whole

    def clear(self) -> None:
        """Empty the state, as at the end of a window: the divergence counts from empty, the next backup is full."""
        self._empty()
        self._due_whole = True

    def _mostly_changed(self) -> bool:
        raise NotImplementedError

    def _has_changed(self) -> bool:
        raise NotImplementedError

    def _changed_arrays(self) -> Arrays:
        raise NotImplementedError

    def _all_arrays(self) -> Arrays:
        raise NotImplementedError

    def _slice_arrays(self, start: int, stop: int) -> Arrays:
        """Entries as they were last saved: the changes of the same backup are taken in behind them, and what stays out
        of these counts from there."""
        raise NotImplementedError

    def _count(self) -> int:
        raise NotImplementedError

    def _load(self, parts: Sequence[Arrays]) -> None:
        """Hold the entries of these parts, all saved. ValueError where one is malformed, and nothing is done."""
        raise NotImplementedError

    def _merge(self, arrays: Arrays) -> None:
        """Set entries, of which none has changed, to what was saved later. ValueError as above."""
        raise NotImplementedError

    def _settle(self) -> None:
        raise NotImplementedError

    def _settle_changes(self) -> None:
        self._settle()

    def _empty(self) -> None:
        raise NotImplementedError


class CellsState(TrackedState):
    """A state of values in cells, which keep its divergence."""

    _cells: Cells

    relative: float = math.inf
    """The promise for each entry: it never lacks more than this part of its value, all failures together."""

    def state_divergence(self) -> float:
        """Distance from the last backup; of `maximum` an upper bound where values went back (AF Table 8), and infinite
        where an entry is further from it than promised."""
        return self._lined().divergence

    def _lined(self) -> Cells:
        """The cells, told which differences are spared now."""
        self._cells.draw_line(self.spared, self.relative * self.share)
        return self._cells

    def _count(self) -> int:
        return len(self._cells)

    def _has_changed(self) -> bool:
        return self._cells.changed > 0 or self._cells.divergence > 0

    def _settle(self) -> None:
        self._cells.settle()

    def _settle_changes(self) -> None:
        self._cells.settle_changes()


def one_of(what: str, value: Any, known: Sequence[str]) -> str:
    """The value, if it is known. ValueError when not, which names those that are."""
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    return str(value)
