"""Opens the input of a source: shards of any format, or raw text, dealt out to the tasks of its source."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.inputs import shard_files
from riprap.operators.inputs.input_rows import LINES, RECORDS, InputRows, Kind, MatrixRows, open_lines, open_records
from riprap.operators.inputs.raw_text import open_raw, raw_files
from riprap.operators.inputs.shard_checks import NOTHING, Checks, fingerprint
from riprap.operators.inputs.shards import FORMAT as MATRIX
from riprap.operators.inputs.shards import open_shards

ENDLESS = 1 << 62
"""Stands for the repeats of an input without end: more items than anybody reads."""


class TaskInput:
    """The items that one of `parallelism` source tasks streams: the same ones, with the same bytes, each time.

    The rows are dealt out in contiguous ranges; a task streams its range `repeat` times. A `limit` counts the items of
    all tasks together. When it ends within a pass, that pass holds the first rows only; when it is smaller than a pass,
    the ranges are those of the first `limit` rows.
    """

    def __init__(
        self, rows: InputRows, schema: dict[str, Any], repeat: int, limit: int | None, index: int, parallelism: int
    ) -> None:
        self.kind: Kind = rows.kind
        """The kind of rows that `read` returns: "matrix", "records" or "lines"."""
        self.schema = schema
        """manifest.json of the shards; of raw text, its files."""
        self.item_bytes = rows.item_bytes
        """Mean payload of an item in bytes, over the whole input."""
        total = rows.rows * repeat if limit is None else min(rows.rows * repeat, limit)
        dealt = min(rows.rows, total)
        self._rows = rows
        self._first = dealt * index // parallelism
        self._width = dealt * (index + 1) // parallelism - self._first
        passes, rest = divmod(total, dealt)
        self.items: int = passes * self._width + min(max(rest - self._first, 0), self._width)
        """Number of items that this task streams."""

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """Items start <= item < stop of this task: one array of rows, or of lines their bytes and offsets from 0.

        Views of the files where one shard holds them all, else copies; read-only either way where they are views.
        IndexError outside the task's items.
        """
        if not 0 <= start <= stop <= self.items:
            raise IndexError(f"items {start} to {stop} of {self.items}")
        if start == stop:
            return self._rows.read(self._first, self._first)
        pieces = []
        while start < stop:
            offset = start % self._width
            count = min(self._width - offset, stop - start)
            first = self._first + offset
            pieces.append(self._rows.read(first, first + count))
            start += count
        return pieces[0] if len(pieces) == 1 else self._rows.joined(pieces)


def open_input(
    path: str | os.PathLike[str], repeat: int = 1, limit: int | None = None, index: int = 0, parallelism: int = 1,
    checks: Checks = NOTHING,
) -> TaskInput:  # fmt: skip
    """Open the input of task `index` of `parallelism`: a directory of shards, a .txt(.gz) file or a directory of those.

    ConfigError for numbers out of range, DataError when the input is neither, or is not whole.
    """
    if repeat < 1 or (limit is not None and limit < 1):
        raise ConfigError(f"input.repeat is {repeat}, input.limit {limit}", "Both must be at least 1.")
    if not 0 <= index < parallelism:
        raise ConfigError(f"task {index} of {parallelism} source tasks", "Tasks are numbered from 0.")
    rows, schema = _open_rows(os.fspath(path), checks)
    return TaskInput(rows, schema, repeat, limit, index, parallelism)


def verify_input(path: str, checks: Checks) -> tuple[str, int]:
    """Look once at all of an input directory; returns its fingerprint for `Checks.verified`, and the rows dropped.

    DataError as in `open_input`. An input that is no directory of shards is left to its source.
    """
    if not os.path.exists(shard_files.manifest_name(path)):
        return "", 0
    manifest = shard_files.read_manifest(path)
    if manifest.get("format") not in (MATRIX, RECORDS, LINES):
        return "", 0
    rows, _ = _open_rows(path, checks)
    return fingerprint(path, manifest), manifest["rows"] - rows.rows


def _open_rows(path: str, checks: Checks) -> tuple[InputRows, dict[str, Any]]:
    if files := raw_files(path):
        return open_raw(files), {"format": "text", "files": files}
    manifest = shard_files.read_manifest(path)
    found = manifest.get("format")
    if found == MATRIX:
        return MatrixRows(open_shards(path, checks)), manifest
    if found == RECORDS:
        return open_records(path, manifest, checks), manifest
    if found == LINES:
        return open_lines(path, manifest, checks), manifest
    raise DataError(
        f'{shard_files.manifest_name(path)}: expected "format" to be {MATRIX}, {RECORDS} or {LINES}, found {found!r}',
        shard_files.REMEDY,
    )
