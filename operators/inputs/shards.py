"""Reads a directory of matrix shards by mapping its files into memory.

The format is that of DESIGN 10: `manifest.json` names `.npy` files, each a C-ordered little-endian float64 matrix with
one item a row and the label among its columns.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.base import Empty
from riprap.operators.inputs import shard_files
from riprap.operators.inputs.shard_checks import NOTHING, Checks, checked
from riprap.operators.inputs.shard_files import RESIDENT_BYTES, MappedRows

FORMAT = "riprap-shards"
DTYPE = "<f8"


class Shards:
    """The rows of a directory of shards, numbered from 0 over all of them. Any number of threads may read."""

    def __init__(
        self, manifest: dict[str, Any], matrices: Sequence[np.ndarray], maps: Sequence[mmap.mmap], dropped: int = 0
    ) -> None:
        self.manifest = manifest
        """manifest.json as it was read."""
        self.columns: list[str] = manifest["columns"]
        """Names of the columns, the label's among them, in the order of the matrices."""
        self.label: str = manifest["label"]
        """The label's column."""
        self.rows: int = manifest["rows"] - dropped
        """Number of rows that the directory holds, without those that were dropped."""
        self.dropped = dropped
        self._mapped = MappedRows(matrices, maps, RESIDENT_BYTES)

    def read(self, start: int, stop: int, empty: Empty = np.empty) -> np.ndarray:
        """Rows start <= row < stop as a read-only matrix: a view of the file when one shard holds them, else a copy in
        memory that `empty` makes.

        Raises IndexError unless 0 <= start <= stop <= rows.
        """
        return self._mapped.read(start, stop, empty)


def open_shards(path: str | os.PathLike[str], checks: Checks = NOTHING) -> Shards:
    """Map the shards of a directory, and look at every byte where `checks` ask for it.

    Raises DataError, naming the file and what was expected, when the directory is not one, or is not whole.
    """
    path = os.fspath(path)
    manifest = shard_files.read_manifest(path)
    _check_manifest(shard_files.manifest_name(path), manifest)
    shards, columns, dtype = manifest["shards"], len(manifest["columns"]), np.dtype(DTYPE)
    mapped = [shard_files.map_file(path, shard, dtype, (shard["rows"], columns)) for shard in shards]
    return Shards(manifest, *checked(path, manifest, mapped, checks))


def _check_manifest(name: str, manifest: dict[str, Any]) -> None:
    shard_files.check_format(name, manifest, FORMAT)
    problems, columns, label = [], manifest.get("columns"), manifest.get("label")
    if manifest.get("dtype") != DTYPE:
        problems.append(f"expected dtype {DTYPE!r}, found {manifest.get('dtype')!r}")
    if not isinstance(columns, list) or not columns or not all(isinstance(column, str) for column in columns):
        problems.append(f"expected columns to be a list of names, found {columns!r}")
    elif label not in columns:
        problems.append(f"expected label to be one of the columns, found {label!r}")
    elif twice := sorted(column for column, count in Counter(columns).items() if count > 1):
        problems.append(f"expected columns to have a name each, found {', '.join(twice)} more than once")
    shard_files.refuse(name, [*problems, *shard_files.shards_problems(manifest)])
