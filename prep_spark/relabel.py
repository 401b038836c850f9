"""Gives categories one code each in all fragments, where each split had counted its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from riprap.prep_spark.columns import Layout
from riprap.prep_spark.fragments import load_codes
from riprap.prep_spark.shards import CHUNK_ROWS, DTYPE, Source
from riprap.prep_spark.tables import too_many

Categories = dict[int, tuple[str, ...]]
"""By slot the categories, sorted: the place of one is its code."""


def merged(sources: Sequence[Source], layout: Layout, slots: Sequence[int], most: int) -> Categories:
    """The categories of all fragments. PrepError when a column has more than `most`."""
    met: dict[int, set[str]] = {slot: set() for slot in slots}
    for source in sources:
        for slot, cells in load_codes(source.path).items():
            met[slot].update(cell for cell in cells if cell is not None)
            if len(met[slot]) > most:
                raise too_many(layout.columns[slot].name, most)
    return {slot: tuple(sorted(cells)) for slot, cells in met.items()}


def relabelled(source: Source, columns: int, categories: Mapping[int, tuple[str, ...]]) -> Source:
    """A copy of a fragment with the codes of all categories instead of its own. Runs in Spark's workers."""
    maps = {
        slot: _codes(cells, {cell: code for code, cell in enumerate(categories[slot])})
        for slot, cells in load_codes(source.path).items()
    }
    path = f"{source.path}.{os.urandom(4).hex()}"
    matrix = np.memmap(source.path, DTYPE, "r", shape=(source.rows, columns)).view(np.ndarray)
    with open(path, "wb") as file:
        for start in range(0, source.rows, CHUNK_ROWS):
            rows = matrix[start : start + CHUNK_ROWS].copy()
            for slot, codes in maps.items():
                rows[:, slot] = codes[np.nan_to_num(rows[:, slot], nan=-1).astype(int)]
            file.write(rows.data)
    return Source(path, source.rows)


def _codes(cells: Sequence[str | None], codes: Mapping[str, int]) -> np.ndarray:
    """By a fragment's own code the code of all; the last, which -1 finds, stands for a missing value."""
    return np.array([*(np.nan if cell is None else float(codes[cell]) for cell in cells), np.nan])
