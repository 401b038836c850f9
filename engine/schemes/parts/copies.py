"""The part of a task's state that each of its copies holds: all of it, what has changed, or that and a slice of all.

A small state is copied whole now and then, and its changes between. A large one is copied whole once. When the changes
behind that are many, a round begins, in which each copy holds a slice of all entries too, in turn, so that nobody ever
waits for all of it: a rolling base. What is older than the last whole round is needed no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from riprap.operators import returns
from riprap.operators.states.base import Backup, Slice, Sliced, State

N = TypeVar("N")

LARGE_BYTES = 16 << 20
"""A state of so many bytes is large: it takes longer to copy than a block to process."""
SLICES = 64
"""Of a large state."""
PARTS_MAX = 256
PARTS_BYTES = 1 << 20
"""Changes are copied until they, and what else was saved since, are larger than the last whole copy and this, or more
than those: only a whole copy, or a whole round, lets the backup servers forget what came before."""
RECORD_BYTES = 256
"""Of a record beside its arrays, about: punctuation has none, and small blocks are little more."""
CHANGES_MAX = 4
"""The changes that a new incarnation would read are at most so many times as large as a large state."""
ROUND_SHARE = 0.25
"""A round begins when the changes are such a part of a large state, or half as many as may be."""


class Round(NamedTuple, Generic[N]):
    """A round of slices: it began with this record, when so many changes were saved behind the last base."""

    begun: N
    changes: int
    changed_bytes: int


class Copies(Generic[N]):
    """Of one state, which is None where a task has none; N names the records that hold them."""

    def __init__(self, state: State | None) -> None:
        self._state = state
        self.base: N | None = None
        """The oldest record that the next one builds on; None: it must hold all of the state."""
        self.whole_bytes = self._changed_bytes = self._changes = 0
        """Of the state when it was last all copied, and of all saved since; and how many copies these are."""
        self._place = 0
        """The next slice of the round; 0: there is no round under way."""
        self._round: Round[N] | None = None
        self._round_bytes = 0
        self._is_large = False
        """It is for good, once it was."""

    def is_large_with(self, nbytes: int) -> bool:
        """True when the state is large, or would be with so many bytes."""
        return self._is_large or (self._state is not None and self._state.rolls and nbytes >= LARGE_BYTES)

    @property
    def is_whole_due(self) -> bool:
        """True when the next copy is to hold all of the state."""
        return self.base is None or self._is_overdue

    @property
    def is_base_due(self) -> bool:
        """True when so much was saved that a copy is to be made for the servers to forget some of it."""
        return self._is_overdue or self._is_in_round

    @property
    def _is_overdue(self) -> bool:
        times = CHANGES_MAX if self._is_large else 1
        bound, most = max(times * self.whole_bytes, PARTS_BYTES), times * PARTS_MAX
        return self._changed_bytes > bound or self._changes >= most

    @property
    def _is_in_round(self) -> bool:
        many = self._changed_bytes >= ROUND_SHARE * self.whole_bytes or self._changes >= PARTS_MAX // 2
        return self._is_large and (self._place > 0 or many)

    def copy_whole(self) -> Sliced:
        """All of the state."""
        if self._state is None:
            return Sliced(Backup(True, ()))
        found = self._checked("backup_all", self._state.backup_all())
        if not found.full:
            remedy = "Define it beside a backup_state that leaves out what has not changed."
            raise returns.wrong(self._state, "backup_all", found, "Backup(True, ...), with all of the state", remedy)
        return Sliced(found)

    def copy(self) -> Sliced:
        """The state in the next record: all of it, the changes, or these and a slice."""
        if self._state is None or self.is_whole_due:
            return self.copy_whole()
        if not self._is_in_round:
            return Sliced(self._checked("backup_state", self._state.backup_state()))
        found = self._state.backup_rolling(self._place, SLICES)
        return found._replace(backup=self._checked("backup_rolling", found.backup))

    def _checked(self, method: str, backup: Any) -> Backup:
        return returns.backup(self._state, method, backup, Backup)

    def lose(self) -> None:
        """The last copy is saved nowhere."""
        self.base = None

    def begins_round(self, found: Sliced) -> bool:
        """True of a copy, before it is noted, that all later ones may build on."""
        return found.slice is not None and self._place == 0

    def note(self, at: N, found: Sliced, more_bytes: int = 0) -> N:
        """A copy is taken, in this record, which holds so many bytes of other things; the oldest record that is needed
        from now on."""
        nbytes = bytes_of(found.backup.arrays) + more_bytes
        if found.backup.full:
            self._place = 0
            self.begin(at, nbytes)
            self.base = at
            return at
        assert self.base is not None, "changes build on something"
        if self.begins_round(found):
            self._round, self._round_bytes = Round(at, self._changes, self._changed_bytes), 0
        self._changed_bytes, self._changes = self._changed_bytes + nbytes, self._changes + 1
        if found.slice is not None:
            self._note_slice(found.slice)
        return self.base

    def note_more(self, nbytes: int) -> None:
        """A record of so much was saved beside the copies; the next base makes it needless."""
        self._changed_bytes += nbytes + RECORD_BYTES

    def _note_slice(self, one: Slice) -> None:
        self._place, self._round_bytes = (self._place + 1) % SLICES, self._round_bytes + bytes_of(one.arrays)
        if self._place == 0 and self._round is not None:
            self.base, self.whole_bytes = self._round.begun, self._round_bytes
            self._changes -= self._round.changes
            self._changed_bytes -= self._round.changed_bytes

    # a new incarnation
    def begin(self, base: N, nbytes: int, changes: Sequence[Sliced] = ()) -> bool:
        """The state, of about so many bytes, is what `base` names, and has changed since by these; True when it is too
        large to be copied whole now."""
        self.whole_bytes, self._is_large = nbytes, self.is_large_with(nbytes)
        self._changes, self._changed_bytes = len(changes), sum(bytes_of(copy.backup.arrays) for copy in changes)
        if self._is_large:
            self.base = base
        return self._is_large

    def go_on(self, base: N, copies: Sequence[Sliced]) -> bool:
        """The state is that of these copies, the oldest of which `base` names; True as with `begin`."""
        first = copies[0].backup
        slices = [copy.slice for copy in copies[:SLICES] if copy.slice is not None]
        nbytes = bytes_of(first.arrays) if first.full else sum(bytes_of(one.arrays) for one in slices)
        return self.begin(base, nbytes, copies[first.full :])


def bytes_of(arrays: Sequence[np.ndarray]) -> int:
    """The bytes of arrays together."""
    return sum(array.nbytes for array in arrays)


def slice_fields(found: Sliced) -> list[int]:
    """The fields that tell the slice in a record whose arrays begin with `found.arrays`; none: there is no slice."""
    one = found.slice
    return [] if one is None else [one.start, one.stop, one.total, len(one.arrays)]


def sliced(arrays: Sequence[np.ndarray], fields: Sequence[int], full: bool) -> Sliced:
    """The copy of a record with these arrays and `slice_fields`."""
    if not fields:
        return Sliced(Backup(full, tuple(arrays)))
    start, stop, total, width = fields
    return Sliced(Backup(False, tuple(arrays[width:])), Slice(start, stop, total, tuple(arrays[:width])))
