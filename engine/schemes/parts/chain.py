"""The backups of a state that checkpoints hold: each builds on the one before it, back to where nothing is missing.

Small states are saved whole now and then, and their changes between. Of a large one each backup holds the changes and a
slice of the rest, in turn, so that nobody ever waits for all of it: a rolling base. What is older than the last whole
round of slices is needed no more. Where the job begins from a savepoint, the first backups of a large state build on
that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riprap.codec.blocks import Block
from riprap.codec.errors import JobFailed
from riprap.engine.schemes.parts.recorder import PARTS_BYTES, PARTS_MAX, restored
from riprap.operators import returns
from riprap.operators.states.base import Backup, Slice, Sliced, State

ROLLING_BYTES = 16 << 20
"""A state of so many bytes is large: it takes longer to copy than a block to process."""
SLICES = 64
"""Of a large state. A new incarnation reads fewer than twice as many backups."""
BEGINNING = -1
"""In the place of a checkpoint: the savepoint that the job began from, whose state each incarnation begins with."""
CHANGES_MAX = 4
"""The changes that a new incarnation would read are at most so many times as large as a large state."""


class Round(NamedTuple):
    """A round of slices: it began with this checkpoint, when so many changes were saved behind the last base."""

    number: int
    changes: int
    changed_bytes: int


class Chain:
    """Of one task's state, which is None where it has none."""

    def __init__(self, state: State | None) -> None:
        self._state = state
        self._bases: dict[int, int] = {}
        """Of each checkpoint since the newest whole one: the oldest that it builds on."""
        self._base = self._last = 0
        """The oldest checkpoint that the next one builds on, and the one before it, or BEGINNING; 0: on none."""
        self._whole_bytes = self._changed_bytes = self._changes = 0
        """Of the state when it was last all copied, and of all changes saved since; and how many backups these are."""
        self._place = 0
        """The next slice of the round."""
        self._round, self._round_bytes = Round(0, 0, 0), 0

    def begin(self, nbytes: int) -> None:
        """The state, of about so many bytes, is that of a savepoint: a large one need not be copied whole once more."""
        self._whole_bytes = nbytes
        if self._is_large:
            self._base = self._last = BEGINNING

    def copy_whole(self) -> Sliced:
        """All of the state."""
        if self._state is None:
            return Sliced(Backup(True, ()))
        return Sliced(self._checked("backup_all", self._state.backup_all()))

    def copy(self) -> Sliced:
        """The state in the next checkpoint: all of it, the changes, or these and a slice."""
        if self._state is None or self._is_whole_due:
            return self.copy_whole()
        if not self._is_large:
            return Sliced(self._checked("backup_state", self._state.backup_state()))
        found = self._state.backup_rolling(self._place, SLICES)
        return found._replace(backup=self._checked("backup_rolling", found.backup))

    def _checked(self, method: str, backup: Any) -> Backup:
        return returns.backup(self._state, method, backup, Backup)

    @property
    def _is_large(self) -> bool:
        return self._state is not None and self._state.rolls and self._whole_bytes >= ROLLING_BYTES

    @property
    def _is_whole_due(self) -> bool:
        bound = CHANGES_MAX * self._whole_bytes if self._is_large else max(self._whole_bytes, PARTS_BYTES)
        return not self._base or self._changed_bytes > bound or self._changes >= PARTS_MAX

    def lose(self) -> None:
        """The last copy is saved nowhere."""
        self._base = 0

    def fields(self, found: Sliced) -> dict[str, Any]:
        """The fields of the record of a copy."""
        on = {"builds_on": 0, "base": 0} if found.backup.full else {"builds_on": self._last, "base": self._base}
        one = found.slice
        return on | {"slice": [] if one is None else [one.start, one.stop, one.total, len(one.arrays)]}

    def note_saved(self, number: int, found: Sliced) -> None:
        """A copy is taken, in the record of this checkpoint."""
        backup, one = found
        self._bases[number] = number if backup.full else self._base
        self._last = number
        if backup.full:
            self._base, self._place = number, 0
            self._whole_bytes, self._changed_bytes, self._changes = _bytes(backup), 0, 0
            return
        if one is not None and self._place == 0:
            self._round, self._round_bytes = Round(number, self._changes, self._changed_bytes), 0
        self._changed_bytes, self._changes = self._changed_bytes + _bytes(backup), self._changes + 1
        if one is not None:
            self._note_slice(one)

    def _note_slice(self, one: Slice) -> None:
        self._place, self._round_bytes = (self._place + 1) % SLICES, self._round_bytes + _bytes(one)
        if self._place == 0:
            self._base, self._whole_bytes = self._round.number, self._round_bytes
            self._changes -= self._round.changes
            self._changed_bytes -= self._round.changed_bytes

    def complete(self, number: int) -> int:
        """A checkpoint is whole; the oldest that is needed from now on."""
        base = self._bases.get(number, 0)
        self._bases = {later: base for later, base in self._bases.items() if later >= number}
        return max(0, base)

    def restore(self, record: Block, earlier: Sequence[Block]) -> None:
        """Have the state take over what a checkpoint holds. JobFailed where something of it is not there."""
        parts = _chain(record, earlier)
        base = BEGINNING if parts[0].meta["builds_on"] == BEGINNING == record.meta["base"] else int(parts[0].epoch)
        self._bases[int(record.epoch)] = base
        if self._state is None:
            return
        copies = [_copy_of(part) for part in parts]
        whole = copies[0].backup.full
        if base == BEGINNING:
            for copy in copies:
                self._state.recover_state(copy.backup)
        else:
            self._state.recover_chain(copies)
            slices = [copy.slice for copy in copies[:SLICES] if copy.slice is not None]
            self._whole_bytes = _bytes(copies[0].backup) if whole else sum(map(_bytes, slices))
        if self._is_large:  # too large to be copied whole now
            self._base, self._last = base, int(record.epoch)
            self._changes, self._changed_bytes = len(parts), sum(_bytes(copy.backup) for copy in copies[whole:])


def _bytes(held: Backup | Slice) -> int:
    return sum(array.nbytes for array in held.arrays)


def _copy_of(part: Block) -> Sliced:
    meta: Mapping[str, Any] = part.meta
    arrays = tuple(restored(part)[: meta["state"]])
    if not meta.get("slice"):
        return Sliced(Backup(not meta["builds_on"], arrays))
    start, stop, total, width = meta["slice"]
    return Sliced(Backup(False, arrays[width:]), Slice(start, stop, total, arrays[:width]))


def _chain(record: Block, earlier: Sequence[Block]) -> list[Block]:
    """A part and what it builds on, the oldest first; that has all of the state, or the first of a round of slices, or
    builds on BEGINNING."""
    there, chain, base = {int(part.epoch): part for part in earlier}, [record], record.meta.get("base", 0)
    while chain[-1].epoch != base and (number := chain[-1].meta["builds_on"]):
        if number == BEGINNING:
            break
        if number not in there:
            raise JobFailed(
                f"checkpoint {record.epoch} builds on {number}, which no backup server has",
                "start all servers that the job had, and resume it; or run it anew",
            )
        chain.append(there[number])
    return chain[::-1]
