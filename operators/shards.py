"""Reads a directory of shards by mapping its files into memory.

The format is that of DESIGN 10: `manifest.json` names `.npy` files, each a C-ordered little-endian float64 matrix with
one item a row and the label among its columns (the .npy header: numpy.org/doc/stable/reference/generated/
numpy.lib.format.html).
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from codec.errors import DataError

FORMAT = "riprap-shards"
VERSION = 1
DTYPE = "<f8"
CHUNK_BYTES = 1 << 22
RESIDENT_BYTES = 64 << 20  # large beside what is on its way to the workers, small beside a worker's memory
REMEDY = "write the shards again with riprap prep"


class Shards:
    """The rows of a directory of shards, numbered from 0 over all of them.

    Any number of threads may read. The files stay mapped as long as a view lives, but what was read long ago does not
    stay in this process's memory: its pages go back to the page cache every RESIDENT_BYTES, and a view that still
    lives brings its own back when it is read.
    """

    def __init__(self, manifest: dict[str, Any], matrices: Sequence[np.ndarray], maps: Sequence[mmap.mmap]) -> None:
        self.manifest = manifest
        """manifest.json as it was read."""
        self.columns: list[str] = manifest["columns"]
        """Names of the columns, the label's among them, in the order of the matrices."""
        self.label: str = manifest["label"]
        """Which of the columns is the label."""
        self.rows: int = manifest["rows"]
        """How many rows the directory holds."""
        self._matrices = list(matrices)
        self._maps = list(maps)
        self._touched: set[int] = set()
        self._resident_bytes = 0
        self._row_bytes = len(self.columns) * np.dtype(DTYPE).itemsize
        self._starts = [0, *accumulate(len(matrix) for matrix in matrices)]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows start <= row < stop as a read-only matrix: a view of the file when one shard holds them, else a copy.

        Raises IndexError unless 0 <= start <= stop <= rows.
        """
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start} to {stop} of {self.rows}")
        shard = min(bisect_right(self._starts, start), len(self._matrices)) - 1
        first = self._starts[shard]
        self._note(shard, (stop - start) * self._row_bytes)
        if stop <= self._starts[shard + 1]:
            return self._matrices[shard][start - first : stop - first]
        return self._copy(shard, start, stop)

    def _note(self, shard: int, size: int) -> None:
        """Count what is read, and let go of all pages when it is enough."""
        self._touched.add(shard)
        self._resident_bytes += size
        if self._resident_bytes > RESIDENT_BYTES:
            for touched in self._touched:
                self._maps[touched].madvise(mmap.MADV_DONTNEED)
            self._touched, self._resident_bytes = {shard}, 0

    def _copy(self, shard: int, start: int, stop: int) -> np.ndarray:
        rows = np.empty((stop - start, len(self.columns)), DTYPE)
        while self._starts[shard] < stop:
            self._touched.add(shard)
            first, end = self._starts[shard], self._starts[shard + 1]
            low, high = max(start, first), min(stop, end)
            rows[low - start : high - start] = self._matrices[shard][low - first : high - first]
            shard += 1
        rows.flags.writeable = False
        return rows


def open_shards(path: str | os.PathLike[str], verify: bool = False) -> Shards:
    """Map the shards of a directory; `verify` also reads every byte and compares checksums.

    Raises DataError, naming the file and what was expected, when the directory is not one, or is not whole.
    """
    path = os.fspath(path)
    manifest = _read_manifest(path)
    mapped = [_map(path, shard, len(manifest["columns"])) for shard in manifest["shards"]]
    if verify:
        for shard in manifest["shards"]:
            _verify(path, shard)
    return Shards(manifest, *zip(*mapped, strict=True))


def _read_manifest(path: str) -> dict[str, Any]:
    name = os.path.join(path, "manifest.json")
    try:
        with open(name, encoding="utf-8") as file:
            manifest = json.load(file)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not a directory of shards: it has no manifest.json", _hint(path)) from error
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}", REMEDY) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read: {error}", REMEDY) from error
    _check_manifest(name, manifest)
    return manifest


def _hint(path: str) -> str:
    """Where the shards may be instead."""
    inside = sorted(entry for entry in ("train", "test") if os.path.exists(os.path.join(path, entry, "manifest.json")))
    if inside:
        return f"name one of its parts: {' or '.join(os.path.join(path, entry) for entry in inside)}"
    return "name a directory that riprap prep has written"


def _check_manifest(name: str, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f'{name}: expected an object with "format": "{FORMAT}"', REMEDY)
    if manifest.get("version") != VERSION:
        found = manifest.get("version")
        raise DataError(f"{name}: expected version {VERSION}, found {found!r}", f"{REMEDY} of this version of Riprap")
    if manifest.get("dtype") != DTYPE:
        raise DataError(f"{name}: expected dtype {DTYPE!r}, found {manifest.get('dtype')!r}", REMEDY)
    columns = manifest.get("columns")
    if not isinstance(columns, list) or not columns or not all(isinstance(column, str) for column in columns):
        raise DataError(f"{name}: expected columns to be a list of names, found {columns!r}", REMEDY)
    if manifest.get("label") not in columns:
        raise DataError(f"{name}: expected label to be one of the columns, found {manifest.get('label')!r}", REMEDY)
    shards = manifest.get("shards")
    if not isinstance(shards, list) or not shards:
        raise DataError(f"{name}: expected shards to be a list with at least one shard", REMEDY)
    for place, shard in enumerate(shards):
        _check_entry(f"{name}: shards[{place}]", shard)
    total = sum(shard["rows"] for shard in shards)
    if manifest.get("rows") != total:
        raise DataError(
            f"{name}: expected rows to be {total}, as its shards say; found {manifest.get('rows')!r}", REMEDY
        )


def _check_entry(place: str, shard: Any) -> None:
    if not isinstance(shard, dict):
        raise DataError(f"{place}: expected an object, found {shard!r}", REMEDY)
    for key, kind in (("file", str), ("rows", int), ("bytes", int), ("crc32", str)):
        if shard.get(key).__class__ is not kind:
            raise DataError(f"{place}: expected {key} to be of type {kind.__name__}, found {shard.get(key)!r}", REMEDY)
    if os.path.basename(shard["file"]) != shard["file"] or shard["rows"] <= 0:
        raise DataError(f"{place}: expected a file name without folders, and rows above 0; found {shard!r}", REMEDY)


def _map(path: str, shard: dict[str, Any], columns: int) -> tuple[np.ndarray, mmap.mmap]:
    name = os.path.join(path, shard["file"])
    try:
        size = os.path.getsize(name)
        if size != shard["bytes"]:
            raise DataError(f"{name}: expected {shard['bytes']} bytes, found {size}", REMEDY)
        mapped = np.load(name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{name} is missing; the manifest names it", REMEDY) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{name} is not a readable .npy file: {error}", REMEDY) from error
    expected = (shard["rows"], columns)
    if mapped.dtype.str != DTYPE or mapped.shape != expected or not mapped.flags.c_contiguous:
        found = f"{mapped.dtype.str} of shape {mapped.shape}"
        raise DataError(f"{name}: expected {DTYPE} of shape {expected} in C order, found {found}", REMEDY)
    # Slices of a plain array cost a fraction of np.memmap's.
    return mapped.view(np.ndarray), mapped.base


def _verify(path: str, shard: dict[str, Any]) -> None:
    name = os.path.join(path, shard["file"])
    checksum = 0
    with open(name, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    if f"{checksum:08x}" != shard["crc32"]:
        raise DataError(f"{name}: expected checksum {shard['crc32']}, found {checksum:08x}", REMEDY)
