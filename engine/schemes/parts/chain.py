"""The backups of a state that checkpoints hold: each builds on the one before it, back to where nothing is missing.

Where the job begins from a savepoint, the first backups of a large state build on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.errors import JobFailed
from riprap.engine.schemes.parts.copies import Copies, slice_fields, sliced
from riprap.engine.schemes.parts.recorder import restored
from riprap.operators.states.base import Sliced, State

BEGINNING = -1
"""In the place of a checkpoint: the savepoint that the job began from, whose state each incarnation begins with."""


class Chain:
    """Of one task's state, which is None where it has none."""

    def __init__(self, state: State | None) -> None:
        self._state = state
        self._copies: Copies[int] = Copies(state)
        self._bases: dict[int, int] = {}
        """Of each checkpoint since the newest whole one: the oldest that it builds on."""
        self._last = 0
        """The newest checkpoint, or BEGINNING."""

    def begin(self, nbytes: int) -> None:
        """The state, of about so many bytes, is that of a savepoint: a large one need not be copied whole once more."""
        if self._copies.begin(BEGINNING, nbytes):
            self._last = BEGINNING

    def copy_whole(self) -> Sliced:
        """All of the state."""
        return self._copies.copy_whole()

    def copy(self) -> Sliced:
        """The state in the next checkpoint."""
        return self._copies.copy()

    def lose(self) -> None:
        """The last copy is saved nowhere."""
        self._copies.lose()

    def fields(self, found: Sliced) -> dict[str, Any]:
        """The fields of the record of a copy."""
        is_based = not found.backup.full
        on = {"builds_on": self._last, "base": self._copies.base} if is_based else {"builds_on": 0, "base": 0}
        return on | {"slice": slice_fields(found)}

    def note_saved(self, number: int, found: Sliced) -> None:
        """A copy is taken, in the record of this checkpoint."""
        self._bases[number] = number if found.backup.full else self._copies.base or 0
        self._last = number
        self._copies.note(number, found)

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
        if base == BEGINNING:
            for copy in copies:
                self._state.recover_state(copy.backup)
            is_large = self._copies.begin(base, self._copies.whole_bytes, copies)
        else:
            self._state.recover_chain(copies)
            is_large = self._copies.go_on(base, copies)
        if is_large:
            self._last = int(record.epoch)


def _copy_of(part: Block) -> Sliced:
    return sliced(restored(part)[: part.meta["state"]], part.meta.get("slice", ()), not part.meta["builds_on"])


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
