"""Rows of panes that are joined by key and time: each row of one stream with rows of the other that end soon after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.panes.event_times import length
from riprap.operators.panes.rows import RETRACTION
from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import places_in

EPOCH, SIDE, KEY, START, END = range(5)
CAUSES, EFFECTS = 0, 1
"""The sides of the join, as `SIDE` says them."""


class WaitingRows(State):
    """The rows of both sides that may still be joined. Divergence: rows since the last backup.

    `about` has the columns EPOCH (the window in which a row came), SIDE, KEY, START and END; a value for each row.
    """

    def __init__(self) -> None:
        self.about, self.values = np.empty((0, 5), np.int64), np.empty(0)
        self.matched = 0
        self._unsaved = 0

    def add(self, epoch: int, side: int, columns: Sequence[np.ndarray], values: np.ndarray) -> int:
        """Add rows of (key, start, end); returns the number taken: up to and with the one that exceeds theta."""
        count = len(values)
        room = self.theta - self._unsaved
        taken = count if room >= count else max(int(room), 0) + 1
        about = np.column_stack([np.full(count, epoch), np.full(count, side), *columns])[:taken]
        self.about = np.concatenate([self.about, about])
        self.values = np.concatenate([self.values, values[:taken]])
        self._unsaved += taken
        return taken

    def keep(self, chosen: np.ndarray, matched: int) -> None:
        """Drop all rows but those of a mask, and count rows that found a partner."""
        self.about, self.values = self.about[chosen], self.values[chosen]
        self.matched += matched

    def state_divergence(self) -> float:
        return float(self._unsaved)

    def backup_state(self) -> Backup:
        order = np.lexsort((self.values, *self.about.T[::-1]))
        self._unsaved = 0
        return Backup(True, (np.array([self.matched]), self.about[order], self.values[order]))

    def recover_state(self, backup: Backup) -> None:
        forms = [(array.dtype, array.ndim) for array in backup.arrays]
        if forms != [(np.int64, 1), (np.int64, 2), (np.float64, 1)]:
            raise ValueError("a backup of rows to be joined does not consist of such arrays")
        matched, about, values = (np.array(array) for array in backup.arrays)
        if matched.shape != (1,) or about.shape != (len(values), 5):
            raise ValueError("a backup of rows to be joined whose counts do not agree")
        self.matched, self.about, self.values, self._unsaved = int(matched[0]), about, values, 0

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        parts = []
        for backup in backups:
            self.recover_state(backup)
            chosen = places_in(np.ascontiguousarray(self.about[:, KEY]), groups)
            parts.append((self.about[chosen], self.values[chosen], self.matched))
        self.about, self.values = (np.concatenate(columns) for columns in zip(*(part[:2] for part in parts)))
        self.matched = sum(part[2] for part in parts) if groups.start == 0 else 0  # what cannot be parted
        self._unsaved = len(self.values)


class IntervalJoin(DataflowOperator):
    """Joins the panes of two streams by key: a row of `causes` is sent on when a row of the other stream, of the same
    key and of a value below `below`, ends behind its start and by at most `within` later.

    Sends key, end and the least such value of each cause, by key, at the end of the first window in which it has a
    partner; promises event time less `within`. Rows wait until event time is `within` behind their end: a cause that
    lasts longer than `within`, and so comes that late, may miss partners from near its start. Both streams send (key,
    start, end, value, kind), as Panes does unless it is retracting: incidents in sessions and mean speeds in fixed
    panes, say. Each row counts by itself, so panes are best put out once: without early ones and with no `lateness`.
    """

    correlated_inputs = True
    only_windows = True
    combines: ClassVar[Mapping[str, str]] = {"matched": "sum"}
    meanings: ClassVar[Mapping[str, str]] = {"matched": "rows of causes that had a partner"}

    def __init__(
        self,
        causes: Annotated[str, Option("The stage whose rows are sent on", example="incidents")],
        within: Annotated[int, length("From the start of a cause to the end of its partner", low=1, example="300")],
        below: Annotated[
            float, Option("Values of partners, speeds say, are less", above=True, low=0, infinite=True)
        ] = math.inf,
    ) -> None:
        check(self, causes=causes, within=within, below=below)
        self._causes, self._within, self._below = causes, within, float(below)
        self.state: WaitingRows = WaitingRows()

    def open(self, context: Context) -> None:
        streams = list(context.upstream or {})
        if len(streams) != 2 or self._causes not in streams:
            raise ConfigError(
                f"a join of {self._causes!r} and another stream has edges from {', '.join(streams) or 'no stage'}",
                "Lead edges of two stages into the join, and name one of them as causes.",
            )

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Keys, starts, ends (int64), values (float64) and kinds, one of each for a pane."""
        try:
            *columns, values, kinds = items.arrays
            side = CAUSES if items.stage == self._causes else EFFECTS
            if (kinds == RETRACTION).any():
                raise ValueError("a row takes another one back, which may have been sent on")
            return first + self.state.add(items.epoch, side, [one[first:] for one in columns], values[first:])
        except ValueError as error:
            remedy = "Send key, start, end, value and kind, and none of the mode retracting."
            raise DataError(f"a block of {items.stage} has no panes to join: {error}", remedy) from error

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        about, values = self.state.about, self.state.values
        is_here, is_cause = about[:, EPOCH] <= epoch, about[:, SIDE] == CAUSES
        is_effect = is_here & ~is_cause & (values < self._below)
        causes = np.flatnonzero(is_here & is_cause)
        causes = causes[np.lexsort((about[causes, START], about[causes, END], about[causes, KEY]))]
        least = least_within(about[causes], about[is_effect], values[is_effect], self._within)
        found = least < np.inf  # an effect's own value may be -inf
        is_kept = ~is_here | is_cause | is_effect
        is_kept[causes[found]] = False
        now = out.event_time
        if now is not None:
            is_kept &= ~is_here | (about[:, END] + self._within > now)
            out.watermark(now - self._within)
        matched = about[causes[found]]
        self.state.keep(is_kept, len(matched))
        if len(matched):
            out.send_by_key(matched[:, KEY].copy(), (matched[:, END].copy(), least[found]))

    def metrics(self) -> dict[str, float]:
        return {"matched": float(self.state.matched)}


def least_within(causes: np.ndarray, effects: np.ndarray, values: np.ndarray, within: int) -> np.ndarray:
    """By cause, the least value of the effects of its key that end behind its start, by at most `within`; infinite
    where there is none."""
    order = np.argsort(effects[:, KEY], kind="stable")
    keys = effects[order, KEY]
    firsts, stops = (np.searchsorted(keys, causes[:, KEY], side) for side in ("left", "right"))
    counts = stops - firsts
    cause = np.repeat(np.arange(len(causes)), counts)
    effect = order[np.arange(len(cause)) - np.repeat(np.cumsum(counts) - counts - firsts, counts)]
    after = effects[effect, END] - causes[cause, START]
    is_near = (after > 0) & (after <= within)
    least = np.full(len(causes), np.inf)
    np.minimum.at(least, cause[is_near], values[effect[is_near]])
    return least
