"""The three kinds of input rows: a matrix, records, and lines of text, all numbered from 0 and read by range."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.inputs import shard_files
from riprap.operators.inputs.shard_checks import NOTHING, Checks, checked
from riprap.operators.inputs.shard_files import REMEDY, MappedRows, bytes_of
from riprap.operators.inputs.shards import Shards

Arrays = tuple[np.ndarray, ...]
Kind = Literal["matrix", "records", "lines"]

RECORDS = "riprap-records"
LINES = "riprap-lines"


class InputRows(Protocol):
    """Rows of one kind. Arrays read are read-only."""

    kind: Kind
    rows: int
    item_bytes: float

    def read(self, start: int, stop: int) -> Arrays:
        """Rows start <= row < stop. Raises IndexError unless 0 <= start <= stop <= rows."""

    def joined(self, pieces: Sequence[Arrays]) -> Arrays:
        """The rows of several reads, as one."""


class MatrixRows:
    """The rows of matrix shards: one 2-D float64 array."""

    kind: Kind = "matrix"

    def __init__(self, shards: Shards) -> None:
        self.rows = shards.rows
        self.item_bytes = 8.0 * len(shards.columns)
        self._shards = shards

    def read(self, start: int, stop: int) -> Arrays:
        return (self._shards.read(start, stop),)

    def joined(self, pieces: Sequence[Arrays]) -> Arrays:
        return (np.concatenate([rows for (rows,) in pieces]),)


class RecordRows:
    """The rows of record shards: one 1-D structured array."""

    kind: Kind = "records"

    def __init__(self, mapped: MappedRows, dtype: np.dtype) -> None:
        self.rows = mapped.rows
        self.item_bytes = float(dtype.itemsize)
        self._mapped = mapped

    def read(self, start: int, stop: int) -> Arrays:
        return (self._mapped.read(start, stop),)

    def joined(self, pieces: Sequence[Arrays]) -> Arrays:
        first = pieces[0][0]
        return (np.concatenate([bytes_of(rows) for (rows,) in pieces]).reshape(-1).view(first.dtype),)


class LineRows:
    """Lines of text in one or more runs, each run its bytes and the offsets of its lines, from 0."""

    kind: Kind = "lines"

    def __init__(self, text: MappedRows, offsets: Sequence[np.ndarray]) -> None:
        self._text = text
        self._offsets = list(offsets)
        self._starts = np.cumsum([0, *(len(run) - 1 for run in offsets)])
        self.rows = int(self._starts[-1])
        self.item_bytes = text.rows / max(self.rows, 1)

    def read(self, start: int, stop: int) -> Arrays:
        """The bytes of the lines without their ends, and the offsets of stop - start + 1 bounds, the first 0."""
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"lines {start} to {stop} of {self.rows}")
        run = min(int(np.searchsorted(self._starts, start, "right")), len(self._offsets)) - 1
        if stop <= self._starts[run + 1]:
            return self._piece(run, start, stop)
        pieces = []
        while start < stop:
            end = min(stop, int(self._starts[run + 1]))
            pieces.append(self._piece(run, start, end))
            start, run = end, run + 1
        return self.joined(pieces)

    def _piece(self, run: int, start: int, stop: int) -> Arrays:
        first = int(self._starts[run])
        bounds = self._offsets[run][start - first : stop - first + 1]
        base = self._text.starts[run]
        return self._text.read(base + int(bounds[0]), base + int(bounds[-1])), bounds - bounds[0]

    def joined(self, pieces: Sequence[Arrays]) -> Arrays:
        bases = np.cumsum([0, *(len(text) for text, _ in pieces)])
        bounds = [offsets[1:] + base for (_, offsets), base in zip(pieces, bases)]
        return np.concatenate([text for text, _ in pieces]), np.concatenate([np.zeros(1, np.int64), *bounds])


def open_records(path: str, manifest: dict[str, Any], checks: Checks = NOTHING) -> RecordRows:
    """Map record shards, structured arrays of the manifest's `dtype`. DataError when the directory is not whole."""
    name = shard_files.manifest_name(path)
    shard_files.check_format(name, manifest, RECORDS)
    dtype, problems = _record_dtype(manifest.get("dtype"))
    shard_files.refuse(name, [*problems, *shard_files.shards_problems(manifest)])
    mapped = [shard_files.map_file(path, shard, dtype, (shard["rows"],)) for shard in manifest["shards"]]
    found = checked(path, manifest, mapped, checks)
    return RecordRows(MappedRows(found.arrays, found.maps), dtype)


def _record_dtype(described: Any) -> tuple[np.dtype, list[str]]:
    """The type that a manifest describes as JSON, lists of name, type and, for a sub-array, its shape; or why none."""
    try:
        fields = [(str(field[0]), field[1], *(tuple(shape) for shape in field[2:])) for field in described]
        dtype = np.dtype(fields)
    except (TypeError, ValueError, IndexError, KeyError):
        return np.dtype([]), [f"expected dtype to describe records as NumPy does, found {described!r}"]
    if not fields or dtype.hasobject:
        return dtype, [f"expected dtype to name plain fields, found {described!r}"]
    return dtype, []


def open_lines(path: str, manifest: dict[str, Any], checks: Checks = NOTHING) -> LineRows:
    """Map line shards, bytes and offsets of lines. DataError when the directory is not whole."""
    name = shard_files.manifest_name(path)
    shard_files.check_format(name, manifest, LINES)
    problems = shard_files.shards_problems(manifest)
    for place, shard in enumerate(manifest["shards"] if isinstance(manifest.get("shards"), list) else []):
        if isinstance(shard, dict):
            problems += shard_files.entry_problems(f"shards[{place}].offsets", shard.get("offsets"))
    shard_files.refuse(name, problems)
    texts, maps, offsets = [], [], []
    for shard in manifest["shards"]:
        text, mapped = shard_files.map_file(path, shard, np.dtype(np.uint8), (None,))
        bounds, _ = shard_files.map_file(path, shard["offsets"], np.dtype("<i8"), (shard["rows"] + 1,))
        if bounds[0] != 0 or bounds[-1] != len(text) or np.any(bounds[1:] < bounds[:-1]):
            file = os.path.join(path, shard["offsets"]["file"])
            raise DataError(f"{file}: expected offsets that rise from 0 to {len(text)}", REMEDY)
        texts.append(text)
        maps.append(mapped)
        offsets.append(bounds)
    checked(path, manifest, list(zip(texts, maps)), checks._replace(bad_rows="keep"))
    return LineRows(MappedRows(texts, maps), offsets)
