"""Checks of shards before they are streamed: the bytes that their manifest names, and finite numbers."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.inputs import shard_files

CHUNK_BYTES = 1 << 22
THREADS_MAX = 8
BAD_ROWS = "repair the data; or leave such rows out with --set input.bad_rows=drop, or take them with keep"


class Checks(NamedTuple):
    """`verify`: compare checksums. `bad_rows`, those with NaN or infinity: "fail", "drop" or "keep".

    `verified`: fingerprints of directories of which both is known, so that a worker need not read all of its input when
    it starts, nor each time that it starts again.
    """

    verify: bool = False
    bad_rows: str = "keep"
    verified: Sequence[str] = ()

    @classmethod
    def of(cls, source_input: Mapping[str, Any]) -> Checks:
        """The checks of a job's input, as `Context.input` has it."""
        given = (source_input.get(name, default) for name, default in cls._field_defaults.items())
        return cls(*given)


NOTHING = Checks()


class Found(NamedTuple):
    """The arrays of all shards without the rows that were dropped, and the number of these."""

    arrays: list[np.ndarray]
    maps: list[mmap.mmap]
    dropped: int


def checked(
    path: str, manifest: dict[str, Any], mapped: Sequence[tuple[np.ndarray, mmap.mmap]], checks: Checks
) -> Found:
    """The mapped shards of a directory once they are what `checks` ask for.

    DataError names the file whose checksum is another than the manifest's, or the first row and column that is not
    finite.
    """
    shards, arrays = manifest["shards"], [rows for rows, _ in mapped]
    known = bool(checks.verified) and fingerprint(path, manifest) in checks.verified
    if checks.verify and not known:
        verify_all(path, [entry for shard in shards for entry in (shard, shard.get("offsets")) if entry])
    if checks.bad_rows == "keep" or (checks.bad_rows == "fail" and (known or not checks.verify)):
        return Found(arrays, [behind for _, behind in mapped], 0)
    bad = [np.zeros(0, int) if shard.get("finite") is True else bad_rows(rows) for shard, rows in zip(shards, arrays)]
    if checks.bad_rows == "fail":
        _refuse(path, manifest, arrays, bad)
    return _without(mapped, bad)


def fingerprint(path: str, manifest: dict[str, Any]) -> str:
    """Tells files that were read before from others: by device, inode, size and time of the last change."""
    names = [entry["file"] for shard in manifest["shards"] for entry in (shard, shard.get("offsets")) if entry]
    digest = hashlib.sha256()
    for name in ("manifest.json", *names):
        stat = os.stat(os.path.join(path, name))
        digest.update(repr((name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)).encode())
    return digest.hexdigest()[:32]


def verify_all(path: str, entries: Sequence[dict[str, Any]]) -> None:
    """Compare the checksums of files, as many at a time as there are CPUs; DataError for the first that differs."""
    with ThreadPoolExecutor(min(THREADS_MAX, len(os.sched_getaffinity(0)))) as pool:
        for _ in pool.map(lambda entry: shard_files.verify(path, entry), entries):
            pass


def bad_rows(rows: np.ndarray) -> np.ndarray:
    """The numbers of the rows (of a matrix, or records) that hold NaN or infinity, in order.

    A sum is one pass at the speed of memory. It is not finite where a number is not, and seldom else; then a closer
    look tells.
    """
    found = [start + _bad_rows(piece) for start, piece in _pieces(rows) if not _sums_are_finite(piece)]
    return np.concatenate([np.zeros(0, int), *found])


def _pieces(rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    step = max(1, CHUNK_BYTES // max(1, rows[:1].nbytes))
    return ((start, rows[start : start + step]) for start in range(0, len(rows), step))


def _fields(rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of floating-point numbers in rows, a row each; the name is empty for a matrix."""
    names = rows.dtype.names
    for name, array in [("", rows)] if names is None else [(name, rows[name]) for name in names]:
        if array.dtype.kind == "f":
            yield name, array


def _sums_are_finite(rows: np.ndarray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return all(math.isfinite(array.sum()) for _, array in _fields(rows))


def _bad_rows(rows: np.ndarray) -> np.ndarray:
    bad = np.zeros(len(rows), bool)
    for _, array in _fields(rows):
        bad |= ~np.isfinite(array.reshape(len(rows), -1)).all(axis=1)
    return np.flatnonzero(bad)


def _refuse(path: str, manifest: dict[str, Any], arrays: Sequence[np.ndarray], bad: Sequence[np.ndarray]) -> None:
    count = sum(map(len, bad))
    for shard, rows, found in zip(manifest["shards"], arrays, bad):
        if len(found):
            place = os.path.join(path, shard["file"])
            what = _first_bad(rows[found[0]], manifest.get("columns"))
            raise DataError(
                f"{place}: row {found[0]} (from 0) has {what}; {count:,} of {manifest['rows']:,} rows are not finite",
                BAD_ROWS,
            )


def _first_bad(row: Any, columns: Sequence[str] | None) -> str:
    for name, values in _fields(np.asarray(row)[None]):
        for place in np.flatnonzero(~np.isfinite(values.reshape(-1))):
            column = name or (columns[int(place)] if columns else str(place))
            return f"{values.reshape(-1)[place]} in column {column}"
    raise AssertionError("the row is finite")


def _without(mapped: Sequence[tuple[np.ndarray, mmap.mmap]], bad: Sequence[np.ndarray]) -> Found:
    """The runs of rows between the bad ones. DataError when nothing is left."""
    runs, maps = [], []
    for (rows, behind), found in zip(mapped, bad):
        for start, stop in zip([0, *(found + 1)], [*found, len(rows)]):
            if start < stop:
                runs.append(rows[start:stop])
                maps.append(behind)
    if not runs:
        raise DataError("no row of the input is finite", "repair the data")
    return Found(runs, maps, sum(map(len, bad)))
