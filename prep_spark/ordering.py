"""Orders fragments by one of their columns: each sorted by itself, then cut into runs that can be merged apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from riprap.prep_spark.shards import CHUNK_ROWS, DTYPE, Source
from riprap.prep_spark.time_order import cut

if TYPE_CHECKING:
    from pyspark import SparkContext

RUN_ROWS = 250_000
"""The rows that a task sorts in memory at once."""


def ordered(context: SparkContext, sources: Sequence[Source], columns: int, slot: int) -> list[Source]:
    """The rows of all sources by the numbers of one column, equal ones as they were, missing ones last."""
    sort = partial(sorted_fragment, columns=columns, slot=slot)
    runs = context.parallelize(sources, len(sources)).map(sort).collect()
    keys = [np.memmap(f"{run.path}.keys", "<i8", "r").view(np.ndarray) for run in runs]
    total = sum(run.rows for run in runs)
    cuts = [cut(keys, rank) for rank in [*range(0, total, RUN_ROWS), total]]
    pieces = [
        (f"{runs[0].path}.merged-{place:06d}", [*zip(runs, low, high)])
        for place, (low, high) in enumerate(pairwise(cuts))
    ]
    merge = partial(_merged, columns=columns)
    return context.parallelize(pieces, len(pieces)).map(merge).collect()


def sort_keys(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the float64 numbers; NaN is behind all others."""
    numbers = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, and one zero
    bits = numbers.view("<i8")
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def sorted_fragment(source: Source, columns: int, slot: int) -> Source:
    """A copy of a fragment, sorted stably, with its keys beside it. Runs in Spark's workers."""
    path = f"{source.path}.{os.urandom(4).hex()}"
    matrix = np.memmap(source.path, DTYPE, "r", shape=(source.rows, columns)).view(np.ndarray)
    keys = sort_keys(matrix[:, slot])
    order = np.argsort(keys, kind="stable")
    with open(path, "wb") as file:
        for start in range(0, source.rows, CHUNK_ROWS):
            file.write(matrix[order[start : start + CHUNK_ROWS]].data)
    keys[order].tofile(f"{path}.keys")
    return Source(path, source.rows)


def _merged(piece: tuple[str, list[tuple[Source, int, int]]], columns: int) -> Source:
    """One run of the whole order, from a slice of each sorted fragment. Runs in Spark's workers."""
    path, slices = f"{piece[0]}.{os.urandom(4).hex()}", [part for part in piece[1] if part[1] < part[2]]
    rows = np.concatenate(
        [np.memmap(run.path, DTYPE, "r", shape=(run.rows, columns))[low:high] for run, low, high in slices]
    )
    keys = np.concatenate([np.memmap(f"{run.path}.keys", "<i8", "r")[low:high] for run, low, high in slices])
    rows[np.argsort(keys, kind="stable")].tofile(path)
    return Source(path, len(rows))
