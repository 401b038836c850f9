"""The stretches of event time in which items are added up (seed section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from riprap.operators.panes.rows import Rows, added, joined, merged, rows_of


class Assigner(Protocol):
    """The form in which items are kept, and the panes that these make up. Panes hold their start, not their end."""

    def kept(self, keys: np.ndarray, times: np.ndarray, values: np.ndarray) -> Rows:
        """Items as rows."""

    def united(self, rows: Rows) -> Rows:
        """Rows that belong together as one."""

    def panes(self, rows: Rows, of: Rows, after: int, until: int) -> Rows:
        """The panes that end after the one time, and until the other, and have a part in `of`; whole, as `rows` are."""

    def replaced(self, former: Rows, panes: Rows) -> np.ndarray:
        """Which former panes one of these has taken the place of (bool)."""

    def last_ends(self, rows: Rows) -> np.ndarray:
        """The end of the last pane that each row has a part in."""


@dataclass(frozen=True)
class Sliding:
    """Panes of `size`, one beginning at each multiple of `slide`, which divides it; fixed ones where both are equal.

    Items are kept in slices of `slide`: each is added up once (Li et al., "No pane, no gain", 2005).
    """

    size: int
    slide: int

    def kept(self, keys: np.ndarray, times: np.ndarray, values: np.ndarray) -> Rows:
        starts = times - times % self.slide
        return added(rows_of(keys, starts, starts + self.slide, values))

    def united(self, rows: Rows) -> Rows:
        return added(rows)

    def panes(self, rows: Rows, of: Rows, after: int, until: int) -> Rows:
        found = []
        for start in self._starts(of, after, until):
            own = rows.at((rows.starts >= start) & (rows.starts < start + self.size))
            if of is not rows:
                touched = of.keys[(of.starts >= start) & (of.starts < start + self.size)]
                own = own.at(np.isin(own.keys, touched))
            at = np.full(own.size, start)
            found.append(added(Rows(own.keys, at, at + self.size, own.sums)))
        return joined(found)

    def _starts(self, of: Rows, after: int, until: int) -> list[int]:
        """The panes that slices have a part in, of those that end within these bounds."""
        slices = np.unique(of.starts)
        starts = np.unique(np.concatenate([slices - back for back in range(0, self.size, self.slide)]))
        ends = starts + self.size
        return [int(start) for start in starts[(ends > after) & (ends <= until)]]

    def replaced(self, former: Rows, panes: Rows) -> np.ndarray:
        return np.isin(_pairs(former), _pairs(panes))

    def last_ends(self, rows: Rows) -> np.ndarray:
        return rows.starts + self.size


@dataclass(frozen=True)
class Sessions:
    """A pane of a key goes on until the key has had no item for `gap`; panes that an item joins become one."""

    gap: int

    def kept(self, keys: np.ndarray, times: np.ndarray, values: np.ndarray) -> Rows:
        return merged(rows_of(keys, times, times + self.gap, values))

    def united(self, rows: Rows) -> Rows:
        return merged(rows)

    def panes(self, rows: Rows, of: Rows, after: int, until: int) -> Rows:
        own = rows if of is rows else rows.at(np.unique(_holders(rows, of)))
        return own.at((own.ends > after) & (own.ends <= until))

    def replaced(self, former: Rows, panes: Rows) -> np.ndarray:
        if not panes.size:
            return np.zeros(former.size, bool)
        holders = _holders(panes, former)
        there = holders >= 0
        there[there] = (panes.keys[holders[there]] == former.keys[there]) & (
            panes.ends[holders[there]] >= former.ends[there]
        )
        return there

    def last_ends(self, rows: Rows) -> np.ndarray:
        return rows.ends


def _holders(rows: Rows, parts: Rows) -> np.ndarray:
    """For each part the last row, by key and start, that begins no later: its place, -1 where there is none."""
    both = joined([rows, parts])
    is_part = np.arange(both.size) >= rows.size
    order = np.lexsort((is_part, both.starts, both.keys))
    last = np.maximum.accumulate(np.where(is_part[order], -1, np.arange(both.size)))
    found = np.full(both.size, -1)
    found[order] = np.where(last >= 0, order[last], -1)
    return found[rows.size :]


def _pairs(rows: Rows) -> np.ndarray:
    """Key and start of each row as one value that can be compared."""
    both = np.ascontiguousarray(np.column_stack([rows.keys, rows.starts]).astype(np.int64))
    return both.view([("key", np.int64), ("start", np.int64)]).ravel()
