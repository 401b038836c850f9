"""The state of panes: items of windows that are open, and panes that are. Divergence: items since the last backup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from riprap.operators.panes.firing import Step, TimedItems
from riprap.operators.panes.key_names import KeyNames
from riprap.operators.panes.rows import Rows, are_among
from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import places_in

NO_TIME = -(2**62)
"""The event time while none is known."""


class TimedPart(NamedTuple):
    """Items of one block. `origin` names its sender: a window's items are added in the order of origins, and of each
    in the order in which it sent them, so that sums come out alike whichever came first."""

    epoch: int
    origin: int
    items: TimedItems


class PaneState(State):
    """Items wait for the end of their window, for only then it is known which of them are late.

    A partial backup has the items that came since the last one, and the panes that have changed or are gone.
    """

    def __init__(self, width: int, text: bool = False) -> None:
        self.rows = Rows.none(width)
        self.names = KeyNames() if text else None
        """Of text keys, whose numbers stand in their place."""
        self.time, self.fired, self.late = NO_TIME, 0, 0
        self.pieces: list[TimedPart] = []
        self._unsaved: list[TimedPart] = []
        self._changed: list[np.ndarray] = []
        self._items, self._closed = 0, 0
        self._due_whole = False

    def add(self, piece: TimedPart) -> None:
        """Take in some items of an open window."""
        self.pieces.append(piece)
        self._unsaved.append(piece)
        self._items += len(piece.items.times)

    def items_of(self, epoch: int) -> TimedItems:
        """The items of a window that is closed."""
        found = sorted((piece for piece in self.pieces if piece.epoch == epoch), key=lambda piece: piece.origin)
        return _joined([piece.items for piece in found])

    def close(self, epoch: int, done: Step, time: int) -> None:
        """Go on behind a window."""
        self.pieces = [piece for piece in self.pieces if piece.epoch > epoch]
        self._unsaved = [piece for piece in self._unsaved if piece.epoch > epoch]
        self.rows, self.time, self._closed = done.rows, time, epoch
        self.fired, self.late = self.fired + len(done.fired.keys), self.late + len(done.late.times)
        if len(done.changed):
            self._changed.append(done.changed)
        if self.names is not None and self.names.is_wasteful(len(self.rows.keys) + self._waiting):
            self._keep_names(self.names)

    @property
    def _waiting(self) -> int:
        return sum(len(piece.items.times) for piece in self.pieces)

    def _keep_names(self, names: KeyNames) -> None:
        """Forget the others; the numbers change, so that all is due to be saved."""
        needed = np.unique(np.concatenate([self.rows.keys, *(piece.items.keys for piece in self.pieces)]))
        names.keep(needed)
        self.rows = self.rows._replace(keys=np.searchsorted(needed, self.rows.keys))
        self.pieces = [_with_keys(piece, np.searchsorted(needed, piece.items.keys)) for piece in self.pieces]
        self._due_whole = True

    def state_divergence(self) -> float:
        return float(self._items)

    def backup_state(self) -> Backup:
        ids = np.unique(np.concatenate([np.empty((0, 2), np.int64), *self._changed]), axis=0)
        if self._due_whole or len(ids) >= len(self.rows.keys):
            return self.backup_all()
        return self._backup(False, self._unsaved, ids)

    def backup_all(self) -> Backup:
        return self._backup(True, self.pieces, self.rows.ids)

    def _backup(self, full: bool, pieces: Sequence[TimedPart], ids: np.ndarray) -> Backup:
        rows = self.rows if full else self.rows.take(are_among(self.rows.ids, ids))
        gone = ids[:0] if full else ids[~are_among(ids, rows.ids)]
        about = [(piece.epoch, piece.origin, len(piece.items.times)) for piece in pieces]
        items = _joined([piece.items for piece in pieces])
        head = np.array([self._closed, self.time, self.fired, self.late], np.int64)
        whole = np.column_stack([rows.keys, rows.starts, rows.ends, rows.pending, rows.fired])
        self._settle()
        names = self.names.backup(full) if self.names is not None else ()
        floats = np.column_stack([rows.parts, rows.last])
        return Backup(full, (head, np.array(about, np.int64).reshape(-1, 3), *items, whole, floats, gone, *names))

    def _settle(self) -> None:
        self._unsaved, self._changed, self._items, self._due_whole = [], [], 0, False

    def recover_state(self, backup: Backup) -> None:
        (closed, time, fired, late), pieces, rows, gone, names = self._checked(backup)
        if not backup.full and (self._items or self._changed):
            raise ValueError("a partial backup can only be taken in after the full one and those between them")
        if self.names is not None:
            self.names.recover(backup.full, names)
        if backup.full:
            self.pieces, self.rows = pieces, rows
        else:
            self.pieces = [piece for piece in self.pieces if piece.epoch > closed] + pieces
            self.rows = self.rows.without(np.concatenate([gone, rows.ids])).and_(rows)
        self.time, self.fired, self.late, self._closed = time, fired, late, closed
        self._settle()

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        found = [self._checked(backup) for backup in backups]
        self.pieces, self.rows = [], Rows.none(self.rows.parts.shape[1])
        self.names = KeyNames() if self.names is not None else None
        for _, pieces, rows, _, names in found:
            for piece in pieces:
                chosen, keys = self._taken_over(piece.items.keys, names, groups)
                own = TimedItems(*(column[chosen] for column in piece.items))
                self.pieces.append(TimedPart(piece.epoch, piece.origin, own._replace(keys=keys)))
            chosen, keys = self._taken_over(rows.keys, names, groups)
            self.rows = self.rows.and_(rows.take(chosen)._replace(keys=keys))
        self._closed = max(head[0] for head, *_ in found)
        self.time = min(head[1] for head, *_ in found)
        if groups.start == 0:  # what cannot be parted
            self.fired, self.late = (sum(head[i] for head, *_ in found) for i in (2, 3))
        self._settle()
        self._changed = [self.rows.ids]

    def _taken_over(
        self, keys: np.ndarray, names: Sequence[np.ndarray], groups: range
    ) -> tuple[np.ndarray, np.ndarray]:
        """A mask of another task's keys that are in these groups, and their numbers here."""
        if self.names is None:
            chosen = places_in(keys, groups)
            return chosen, keys[chosen]
        there = KeyNames()
        there.recover(True, names)
        known, which = np.unique(keys, return_inverse=True)
        texts = there.texts(known)
        inside = places_in(texts, groups)
        here = np.full(len(known), -1)
        here[inside] = self.names.numbers(there.texts(known[inside]))
        chosen = np.flatnonzero(here[which] >= 0)
        return chosen, here[which][chosen]

    def _checked(self, backup: Backup) -> tuple[list[int], list[TimedPart], Rows, np.ndarray, tuple[np.ndarray, ...]]:
        """The content of a backup. ValueError when it is none of such a state."""
        forms: list[tuple[type[np.generic], int]] = [
            (np.int64, 1),
            (np.int64, 2),
            (np.int64, 1),
            (np.int64, 1),
            (np.float64, 1),
            (np.int64, 2),
        ]
        forms += [(np.float64, 2), (np.int64, 2)]
        forms += [(np.uint8, 1), (np.int64, 1)] if self.names is not None else []
        if [(array.dtype, array.ndim) for array in backup.arrays] != forms:
            raise ValueError("a backup of panes does not consist of such arrays")
        head, about, times, keys, values, whole, floats, gone, *names = backup.arrays
        widths = (len(head), about.shape[1], whole.shape[1], floats.shape[1], gone.shape[1])
        if widths != (4, 3, 5, self.rows.parts.shape[1] + 1, 2) or len(whole) != len(floats):
            raise ValueError("a backup of other panes")
        if (about < 0).any() or not about[:, 2].sum() == len(times) == len(keys) == len(values):
            raise ValueError("a backup of panes whose counts do not agree")
        ends = np.cumsum(about[:, 2])
        pieces = [
            TimedPart(epoch, origin, TimedItems(times[end - n : end], keys[end - n : end], values[end - n : end]))
            for (epoch, origin, n), end in zip(about.tolist(), ends.tolist(), strict=True)
        ]
        keys_of, starts, ends, pending, fired = (np.array(column) for column in whole.T)
        rows = Rows(keys_of, starts, ends, pending, fired, np.array(floats[:, :-1]), np.array(floats[:, -1]))
        return head.tolist(), pieces, rows, gone, tuple(names)


def _with_keys(piece: TimedPart, keys: np.ndarray) -> TimedPart:
    return piece._replace(items=piece.items._replace(keys=keys))


def _joined(pieces: Sequence[TimedItems]) -> TimedItems:
    none = TimedItems(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    return TimedItems(*(np.concatenate(columns) for columns in zip(none, *pieces, strict=True)))
