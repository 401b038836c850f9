"""Sums up many items by (key, start) in few passes of NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riprap.operators.panes.aggregates import Aggregate, joined_parts, nothing

DENSE = 4
"""Pairs are counted in a table as long as it has at most so many places an item."""
CODES_MAX = 2**62


class Groups(NamedTuple):
    """Of each (key, start) that there is, in this order: its parts, and how many items they are of."""

    keys: np.ndarray
    starts: np.ndarray
    parts: np.ndarray
    counts: np.ndarray


def grouped(keys: np.ndarray, starts: np.ndarray, step: int, values: np.ndarray, aggregate: Aggregate) -> Groups:
    """Sums of items by key and start; starts (int64) differ by multiples of `step`."""
    if not len(keys):
        return Groups(keys, starts, np.empty((0, len(aggregate.joins))), np.empty(0, np.int64))
    key_min, start_min = int(keys.min()), int(starts.min())
    width = (int(starts.max()) - start_min) // step + 1
    places = (int(keys.max()) - key_min + 1) * width
    if places >= CODES_MAX:
        return _by_pairs(keys, starts, values, aggregate)
    codes = (keys - key_min) * width + (starts - start_min) // step
    if places <= DENSE * len(keys):
        found, parts, counts = _by_table(codes, places, values, aggregate)
    else:
        found, parts, counts = _by_order(codes, values, aggregate)
    return Groups(found // width + key_min, found % width * step + start_min, parts, counts)


def _by_table(
    codes: np.ndarray, places: int, values: np.ndarray, aggregate: Aggregate
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.bincount(codes, minlength=places)
    found = np.flatnonzero(counts)
    columns, empty = [], nothing(aggregate)
    for i, (join, lifted) in enumerate(zip(aggregate.joins, aggregate.lift(values), strict=True)):
        if lifted is None:
            columns.append(counts[found].astype(float))
        elif join is np.add:
            columns.append(np.bincount(codes, lifted, minlength=places)[found])
        else:
            table = np.full(places, empty[i])
            join.at(table, codes, lifted)
            columns.append(table[found])
    return found, np.column_stack(columns), counts[found]


def _by_order(codes: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    firsts = firsts_of(codes)
    return codes[firsts], _sums(order, firsts, values, aggregate), np.diff(firsts, append=len(codes))


def _by_pairs(keys: np.ndarray, starts: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> Groups:
    order = np.lexsort((starts, keys))
    keys, starts = keys[order], starts[order]
    firsts = firsts_of(keys, starts)
    counts = np.diff(firsts, append=len(keys))
    return Groups(keys[firsts], starts[firsts], _sums(order, firsts, values, aggregate), counts)


def _sums(order: np.ndarray, firsts: np.ndarray, values: np.ndarray, aggregate: Aggregate) -> np.ndarray:
    lifted = [np.ones(len(order)) if one is None else one[order] for one in aggregate.lift(values)]
    return joined_parts(aggregate, np.column_stack(lifted), firsts)


def firsts_of(*columns: np.ndarray) -> np.ndarray:
    """Where each run of equal rows begins."""
    count = len(columns[0])
    begins = np.zeros(count, bool)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(begins)
