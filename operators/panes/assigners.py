"""The panes that an item belongs to: those of a fixed length, sliding ones, or sessions of its key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.panes.aggregates import Aggregate, joined_parts
from riprap.operators.panes.grouping import Groups, firsts_of, grouped, in_order, regrouped, sums
from riprap.operators.panes.rows import NEVER, Rows


class Assigner(Protocol):
    """Event times are int64, in any unit; a pane holds start <= time < end."""

    def last_ends(self, times: np.ndarray) -> np.ndarray:
        """The end of the last pane that an item alone would be in: the later the item, the later the end."""

    def panes(self, times: np.ndarray, keys: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> Rows:
        """The panes of some items, none of them put out, in the order of (key, start)."""

    def merged(self, kept: Rows, new: Rows, aggregate: Aggregate) -> tuple[Rows, np.ndarray, Rows]:
        """Both together; a mask of those with new items; and of `kept` those whose bounds are no pane's any more."""


@dataclass(frozen=True)
class FixedPanes:
    """Panes of one `size`, each beginning where the one before ends; one of them begins at `offset`."""

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_lengths(size=self.size)

    def last_ends(self, times: np.ndarray) -> np.ndarray:
        return (times - self.offset) // self.size * self.size + self.offset + self.size

    def panes(self, times: np.ndarray, keys: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> Rows:
        numbers = (times - self.offset if self.offset else times) // self.size
        found = grouped(keys, numbers, values, aggregate)
        starts = found.numbers * self.size + self.offset
        return Rows.new(found.keys, starts, starts + self.size, found.counts, found.parts)

    def merged(self, kept: Rows, new: Rows, aggregate: Aggregate) -> tuple[Rows, np.ndarray, Rows]:
        return _same_bounds(kept, new, aggregate)


@dataclass(frozen=True)
class SlidingPanes:
    """Panes of one `size` that begin every `slide`, so that they overlap, or leave gaps where it is longer.

    Items are summed up by slices, of which every pane consists, so each is added once, however many panes overlap
    (Li et al., No pane, no gain, 2005).
    """

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_lengths(size=self.size, slide=self.slide)

    @property
    def slice(self) -> int:
        """The length of a slice."""
        return math.gcd(self.size, self.slide)

    def last_ends(self, times: np.ndarray) -> np.ndarray:
        return self._last_starts(times) + self.size

    def panes(self, times: np.ndarray, keys: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> Rows:
        numbers = (times - self.offset if self.offset else times) // self.slice
        found = grouped(keys, numbers, values, aggregate)
        slices = found.numbers * self.slice + self.offset
        last = self._last_starts(slices)
        each = np.maximum(0, -(-(last - slices + self.size) // self.slide))  # panes that a slice is in
        place = np.repeat(np.arange(len(last)), each)
        back = np.arange(len(place)) - np.repeat(np.cumsum(each) - each, each)
        numbers = (last[place] - self.offset) // self.slide - back
        panes = regrouped(Groups(found.keys[place], numbers, found.parts[place], found.counts[place]), aggregate)
        starts = panes.numbers * self.slide + self.offset
        return Rows.new(panes.keys, starts, starts + self.size, panes.counts, panes.parts)

    def merged(self, kept: Rows, new: Rows, aggregate: Aggregate) -> tuple[Rows, np.ndarray, Rows]:
        return _same_bounds(kept, new, aggregate)

    def _last_starts(self, times: np.ndarray) -> np.ndarray:
        return (times - self.offset) // self.slide * self.slide + self.offset


@dataclass(frozen=True)
class SessionPanes:
    """Panes of a key that go on while its items are less than `gap` apart; they end `gap` behind the last one."""

    gap: int

    def __post_init__(self) -> None:
        _check_lengths(gap=self.gap)

    def last_ends(self, times: np.ndarray) -> np.ndarray:
        return times + self.gap

    def panes(self, times: np.ndarray, keys: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> Rows:
        if not len(times):
            return Rows.none(len(aggregate.joins))
        order, keys, times = in_order(keys, times)
        begins = np.ones(len(times), bool)
        begins[1:] = (keys[1:] != keys[:-1]) | (times[1:] - times[:-1] >= self.gap)
        firsts = np.flatnonzero(begins)
        counts = np.diff(firsts, append=len(times))
        parts = sums(order, firsts, values, aggregate)
        return Rows.new(keys[firsts], times[firsts], times[firsts + counts - 1] + self.gap, counts, parts)

    def merged(self, kept: Rows, new: Rows, aggregate: Aggregate) -> tuple[Rows, np.ndarray, Rows]:
        both, is_new = _both(kept, new)
        rows, touched, group = both, is_new, np.arange(len(is_new))
        while True:
            overlaps = (rows.keys[1:] == rows.keys[:-1]) & (rows.starts[1:] < rows.ends[:-1])
            if not overlaps.any():
                break
            firsts = np.flatnonzero(np.append(True, ~overlaps))
            group = (np.cumsum(np.append(True, ~overlaps)) - 1)[group]
            touched = np.logical_or.reduceat(touched, firsts)
            rows = _folded(rows, firsts, aggregate)
        moved = ~is_new & ((both.starts != rows.starts[group]) | (both.ends != rows.ends[group]))
        rows.fired[group[moved]] = NEVER
        return rows, touched, both.take(moved)


def _same_bounds(kept: Rows, new: Rows, aggregate: Aggregate) -> tuple[Rows, np.ndarray, Rows]:
    both, is_new = _both(kept, new)
    firsts = firsts_of(both.keys, both.starts)
    touched = np.logical_or.reduceat(is_new, firsts) if len(firsts) else is_new
    return _folded(both, firsts, aggregate), touched, both.take(np.empty(0, np.int64))


def _both(kept: Rows, new: Rows) -> tuple[Rows, np.ndarray]:
    """Both in their order, and a mask of the new ones."""
    columns = Rows(*(np.concatenate(pair) for pair in zip(kept, new, strict=True)))
    order = in_order(columns.keys, columns.starts)[0] if len(columns.keys) else np.empty(0, np.int64)
    return columns.take(order), order >= len(kept.keys)


def _folded(rows: Rows, firsts: np.ndarray, aggregate: Aggregate) -> Rows:
    """Runs of rows as one row each; the first says what was put out."""
    if len(firsts) == len(rows.keys):
        return rows
    return Rows(
        rows.keys[firsts],
        rows.starts[firsts],
        np.maximum.reduceat(rows.ends, firsts),
        np.add.reduceat(rows.pending, firsts),
        rows.fired[firsts],
        joined_parts(aggregate, rows.parts, firsts),
        rows.last[firsts],
    )


def _check_lengths(**lengths: int) -> None:
    for name, length in lengths.items():
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise ConfigError(f"{name} is {length!r}, but panes have a length", f"Give {name} a whole number above 0.")
