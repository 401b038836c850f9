"""Merges records by time: each file sorted by itself, then cut into shards that can be merged apart from each other."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

CHUNK_RECORDS = 1 << 16


def sort_file(path: str, dtype: np.dtype) -> None:
    """Sort a file of records by `time_ns` in place, stably; one that is sorted stays untouched."""
    records = np.memmap(path, dtype, "r").view(np.ndarray)
    times = np.ascontiguousarray(records["time_ns"])
    if np.all(times[1:] >= times[:-1]):
        return
    order = np.argsort(times, kind="stable")
    with open(f"{path}.sorted", "wb") as file:
        for start in range(0, len(order), CHUNK_RECORDS):
            file.write(records[order[start : start + CHUNK_RECORDS]].data)
    os.replace(f"{path}.sorted", path)


def cut(times: Sequence[np.ndarray], rank: int) -> list[int]:
    """Number of each sorted array's elements among the first `rank` of their merge; of equals, earlier arrays first.

    0 <= rank <= the number of all. A binary search over the values, so that only few of them are looked at.
    """
    if rank == 0:
        return [0] * len(times)
    low = min(int(array[0]) for array in times if len(array))
    high = max(int(array[-1]) for array in times if len(array))
    while low < high:  # the smallest value that at least `rank` of them do not exceed
        middle = (low + high) // 2
        if sum(int(np.searchsorted(array, middle, "right")) for array in times) >= rank:
            high = middle
        else:
            low = middle + 1
    counts = [int(np.searchsorted(array, low, "left")) for array in times]
    left = rank - sum(counts)
    for place, array in enumerate(times):
        taken = min(left, int(np.searchsorted(array, low, "right")) - counts[place])
        counts[place] += taken
        left -= taken
    return counts


def merged(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Sorted runs of records as one, by time; equal ones in the order of the runs."""
    records = np.concatenate(runs)
    return records[np.argsort(records["time_ns"], kind="stable")]
