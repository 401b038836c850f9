"""The state of a stage with panes: what is kept of its keys, and what of that is new since it was put out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from riprap.codec.key_groups import groups_of
from riprap.operators.event_time import UNKNOWN
from riprap.operators.panes.assigners import Assigner
from riprap.operators.panes.rows import Rows, joined, nothing
from riprap.operators.states.base import Backup, State

NUMBERS = 3
"""Of a backup's first array: up to where panes were put out, the late items, the items since the last early panes."""


class PaneState(State):
    """Rows of keys and stretches of time. The divergence is the number of items since the last backup.

    kept      all that later panes may need
    came      what of it has come in the window that is open; it is not among what is kept yet
    fresh     what has come since panes were last put out early, where they are
    put_out   the panes that may have to be taken back, where they are: the value is the first column of the sums
    """

    def __init__(self, assigner: Assigner, is_early: bool) -> None:
        self._assigner, self._is_early = assigner, is_early
        self.kept = self.fresh = self.put_out = nothing()
        self._came: list[Rows] = []
        self.fired = UNKNOWN
        """Panes that end by then have been put out in time."""
        self.late = self.since_early = self._unsaved = 0

    def add(self, rows: Rows, items: int) -> None:
        """So many items came, as these rows."""
        self._came.append(rows)
        self.since_early += items
        self._unsaved += items

    def take_in(self) -> Rows:
        """The window is closed: what came in it is kept. What came."""
        came = self._assigner.united(joined(self._came))
        self._came = []
        if came.size:
            self.kept = self._assigner.united(joined([self.kept, came]))
            if self._is_early:
                self.fresh = self._assigner.united(joined([self.fresh, came]))
        return came

    def drop(self, until: int) -> None:
        """Forget all whose last pane ends by then."""
        self.kept, self.fresh = (
            rows.at(self._assigner.last_ends(rows) > until) if rows.size else rows for rows in (self.kept, self.fresh)
        )
        self.put_out = self.put_out.at(self.put_out.ends > until)

    def state_divergence(self) -> float:
        return float(self._unsaved)

    def backup_state(self) -> Backup:
        """All of it: panes come and go."""
        self._unsaved = 0
        numbers = np.array([self.fired, self.late, self.since_early], np.int64)
        parts = (self.kept, joined(self._came), self.fresh, self.put_out)
        return Backup(True, (numbers, *(np.array(column) for rows in parts for column in rows)))

    def recover_state(self, backup: Backup) -> None:
        numbers, parts = _read(backup)
        self.fired, self.late, self.since_early = numbers
        self.kept, came, self.fresh, self.put_out = parts
        self._came, self._unsaved = [came], 0

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        read = [_read(backup) for backup in backups]
        if len({numbers[0] for numbers, _ in read}) > 1:
            raise ValueError("the backups of panes are of different event times")
        own = [list(_of_groups(parts, groups)) for _, parts in read]
        self.kept, came, self.fresh, self.put_out = (joined(parts) for parts in zip(*own, strict=True))
        self._came, self._unsaved = [came], 0
        self.fired = read[0][0][0]
        self.late, self.since_early = (sum(column) if groups.start == 0 else 0 for column in _late(read))


def _late(read: Sequence[tuple[list[int], list[Rows]]]) -> Iterator[list[int]]:
    """The counts of all tasks, which cannot be parted: the task of the first group goes on with them."""
    for place in (1, 2):
        yield [numbers[place] for numbers, _ in read]


def _of_groups(parts: Sequence[Rows], groups: range) -> Iterator[Rows]:
    for rows in parts:
        found = groups_of(rows.keys)
        yield rows.at((found >= groups.start) & (found < groups.stop))


def _read(backup: Backup) -> tuple[list[int], list[Rows]]:
    """Numbers and rows of a backup; ValueError when it is none of panes."""
    arrays = backup.arrays
    if not backup.full or len(arrays) != 17 or arrays[0].shape != (NUMBERS,):
        raise ValueError("the backup is not of panes")
    parts = [Rows(*arrays[at : at + 4]) for at in range(1, 17, 4)]
    for rows in parts:
        if any(len(column) != rows.size for column in rows) or rows.sums.shape != (rows.size, 4):
            raise ValueError("the columns of the backup's panes are not of one length")
    return arrays[0].tolist(), parts
