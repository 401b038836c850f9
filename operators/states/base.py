"""Fault-tolerant states (AF 3.3 and Appendix C): they know their distance from their last backup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from riprap.operators.returns import number


class Backup(NamedTuple):
    """The part of a state to be saved: all of it (`full`), or only entries that changed since the last backup."""

    full: bool
    arrays: tuple[np.ndarray, ...]


class Slice(NamedTuple):
    """The entries from `start` up to `stop` of the `total` that there were when the round of slices began."""

    start: int
    stop: int
    total: int
    arrays: tuple[np.ndarray, ...]


class Sliced(NamedTuple):
    """A backup, and a slice of all entries; none where the backup is full, or its state is not sliced."""

    backup: Backup
    slice: Slice | None = None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The slice's, then the backup's."""
        return (*self.slice.arrays, *self.backup.arrays) if self.slice is not None else self.backup.arrays


class State:
    """A state whose backups are made when it has diverged enough.

    A state of the user's own defines the three methods of AF Table 7. The built-in ones keep the divergence while they
    are updated, entry by entry, and their backups hold changed entries only.
    """

    theta: float = math.inf
    """The run-time threshold. An update of many items stops behind the item that makes the divergence exceed it."""

    save_above: float = 0.0
    """Entries that differ from the last backup by at most this stay out of partial ones, where the divergence is the
    greatest difference of an entry: they do not make the state deviate (AF 3.4.1). 0: all that changed is saved."""

    share: float = 1.0
    """The part of what a state promises of each entry that a failure may take away; a scheme sets it as it sets theta,
    lower with each failure, so that all failures together do not break the promise."""

    window: str = "none"
    """Way of forgetting: `hopping`, it begins anew every `window_epochs` micro-batches; `sliding`, it holds the last so
    many; `decaying`, what it holds fades; or not at all."""

    window_epochs: int = 1

    def forgets(self, window: str, epochs: int) -> bool:
        """True when losses from failures are gone from it once thresholds of this window take them for forgotten."""
        if window in ("none", "decaying"):
            return window in ("none", self.window)
        if window == "hopping":
            return self.window == "hopping" and epochs % self.window_epochs == 0
        return self.window in ("hopping", "sliding") and epochs >= self.window_epochs

    @property
    def spared(self) -> float:
        """The difference up to which entries stay out: `save_above`, or 0 where theta would still be exceeded then."""
        return self.save_above if self.save_above < self.theta else 0.0

    @property
    def cleared(self) -> bool:
        """True when it was emptied since its last backup, as at the end of a window; a backup is due then."""
        return False

    def state_divergence(self) -> float:
        """Divergence of the state from its most recent backup (from the empty state before the first)."""
        raise NotImplementedError

    def backup_state(self) -> Backup:
        """The changes since the last call, as arrays of its own; those entries count from here from now on.

        The divergence after it is that of the entries that stayed out (see `save_above`), or an upper bound of it: 0
        where none did, and never above `spared`.
        """
        raise NotImplementedError

    def backup_all(self) -> Backup:
        """The same with all entries, so that no earlier backup is needed any more; the divergence is 0 after it."""
        return self.backup_state()

    def copy_all(self) -> Backup | None:
        """All entries, as arrays of its own, which count as no backup: the next one holds what it would have held. None
        where a state knows no such copy; `backup_all` is made then, and the next backup too.
        """
        return None

    rolls = False
    """True when `backup_rolling` is there."""

    def backup_rolling(self, place: int, of: int) -> Sliced:
        """The changes, as `backup_state`, and of all entries the slice at this place, counted from 0, of `of` slices: a
        round of slices is as good as a full backup, and never takes long. What there is at place 0 is dealt out.
        """
        raise NotImplementedError

    def recover_chain(self, backups: Sequence[Sliced]) -> None:
        """Take in all that there is: a full backup, or a round of slices, and the changes behind it, in their order.

        ValueError when they are not those of such a state.
        """
        for one in backups:
            self.recover_state(one.backup)

    def recover_state(self, backup: Backup) -> None:
        """Take in a backup, the full one first, then the partial ones in their order; the divergence is 0 after it.

        ValueError when it is not one of such a state.
        """
        raise NotImplementedError

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        """Take in, of the full backups of all tasks that there were, the entries whose keys are in these key groups
        (codec/key_groups.pyx): a stage goes on with another number of tasks.

        ValueError when they are not of such a state, and for a state that is not kept by key.
        """
        raise ValueError(f"a state of the type {type(self).__name__} is not kept by key")

    @property
    def exceeded(self) -> bool:
        """True when a backup is due."""
        return self.theta < math.inf and number(self, "state_divergence", self.state_divergence()) > self.theta
