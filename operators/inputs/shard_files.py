"""The base of all formats of shard directories: a manifest that is checked, and files that are mapped.

A directory holds `manifest.json` and the .npy files that it names (numpy.org/doc/stable/reference/generated/
numpy.lib.format.html), each with its rows, bytes and CRC-32. See docs/shards.md for the three formats.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from riprap.codec.errors import DataError
from riprap.codec.json_text import from_json
from riprap.operators.base import Empty

VERSION = 1
CHUNK_BYTES = 1 << 22
RESIDENT_BYTES = 256 << 20
"""Large beside what is on its way to the workers, and within a machine's page cache, whose pages these are: to map a
page anew takes as long as to count the packets in it."""
REMEDY = "write the shards again with riprap prep"
MORE_FILES = "have the system allow this user more open files (ulimit -Hn), or write fewer and larger shards"


class MappedRows:
    """The rows of several arrays, numbered from 0 over all of them; any number of threads may read.

    `maps` are the mappings behind the arrays, none for arrays in memory.

    The files stay mapped as long as a view lives, but what was read long ago does not stay in this process's memory:
    when there is more than `resident_bytes`, all pages go back to the page cache every so many bytes, and a view that
    still lives brings its own back when it is read.
    """

    def __init__(
        self, arrays: Sequence[np.ndarray], maps: Sequence[mmap.mmap], resident_bytes: int = RESIDENT_BYTES
    ) -> None:
        self.starts = [0, *accumulate(len(array) for array in arrays)]
        """Number of each array's first row, and behind them the number of rows."""
        self._arrays = list(arrays)
        self._maps = list(maps)
        self._resident_bytes_max = resident_bytes
        self._is_large = sum(map(len, maps)) > resident_bytes
        self._touched: set[int] = set()
        self._resident_bytes = 0
        self._row_bytes = arrays[0][:1].nbytes

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.starts[-1]

    def read(self, start: int, stop: int, empty: Empty = np.empty) -> np.ndarray:
        """Rows start <= row < stop, read-only: a view of the file when one holds them, else a copy in memory that
        `empty` makes.

        Raises IndexError unless 0 <= start <= stop <= rows.
        """
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start} to {stop} of {self.rows}")
        shard = min(bisect_right(self.starts, start), len(self._arrays)) - 1
        first = self.starts[shard]
        self._note(shard, (stop - start) * self._row_bytes)
        if stop <= self.starts[shard + 1]:
            return self._arrays[shard][start - first : stop - first]
        return self._copy(shard, start, stop, empty)

    def _note(self, shard: int, size: int) -> None:
        """Count the bytes read, and let go of all pages when they are enough."""
        self._touched.add(shard)
        self._resident_bytes += size
        if self._is_large and self._resident_bytes > self._resident_bytes_max:
            for touched in self._touched:
                self._maps[touched].madvise(mmap.MADV_DONTNEED)
            self._touched, self._resident_bytes = {shard}, 0

    def _copy(self, shard: int, start: int, stop: int, empty: Empty) -> np.ndarray:
        sample = self._arrays[0]
        rows = empty((stop - start, *sample.shape[1:]), sample.dtype)
        copied = bytes_of(rows)
        while self.starts[shard] < stop:
            self._touched.add(shard)
            first, end = self.starts[shard], self.starts[shard + 1]
            low, high = max(start, first), min(stop, end)
            copied[low - start : high - start] = bytes_of(self._arrays[shard][low - first : high - first])
            shard += 1
        rows.flags.writeable = False
        return rows


def bytes_of(rows: np.ndarray) -> np.ndarray:
    """The bytes of contiguous rows, a row each: records would be copied field by field."""
    return rows.view(np.uint8).reshape(len(rows), rows[:1].nbytes)


def read_manifest(path: str) -> dict[str, Any]:
    """manifest.json of a directory, an object but otherwise unchecked. DataError when there is none."""
    name = manifest_name(path)
    try:
        with open(name, encoding="utf-8") as file:
            manifest = from_json(file.read())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{path} is not a directory of shards: it has no manifest.json", _hint(path)) from error
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}", REMEDY) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{name} cannot be read: {error}", REMEDY) from error
    if not isinstance(manifest, dict):
        raise DataError(f'{name}: expected an object with "format"', REMEDY)
    return manifest


def manifest_name(path: str) -> str:
    """The path of a directory's manifest."""
    return os.path.join(path, "manifest.json")


def _hint(path: str) -> str:
    """A hint at the place where the shards may be instead."""
    if not os.path.isdir(path):
        return "name a directory that riprap prep has written"
    inside = sorted(name for name in os.listdir(path) if os.path.exists(os.path.join(path, name, "manifest.json")))
    if inside:
        return f"name one of its parts: {' or '.join(os.path.join(path, entry) for entry in inside[:4])}"
    return "name a directory that riprap prep has written"


def check_format(name: str, manifest: dict[str, Any], expected: str) -> None:
    """DataError unless the manifest is of the `expected` format and of this version."""
    if manifest.get("format") != expected:
        raise DataError(f'{name}: expected an object with "format": "{expected}"', REMEDY)
    if manifest.get("version") != VERSION:
        found = manifest.get("version")
        raise DataError(f"{name}: expected version {VERSION}, found {found!r}", f"{REMEDY} of this version of Riprap")


def refuse(name: str, problems: Sequence[str]) -> None:
    """DataError with all that is wrong with a manifest, if anything is."""
    if len(problems) == 1:
        raise DataError(f"{name}: {problems[0]}", REMEDY)
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise DataError(f"{name} has {len(problems)} problems:{listed}", REMEDY)


def shards_problems(manifest: dict[str, Any]) -> list[str]:
    """Problems of the list of shards: it has at least one, each with its rows and its file, and the sum of the rows."""
    shards = manifest.get("shards")
    if not isinstance(shards, list) or not shards:
        return [f"expected shards to be a list with at least one shard, found {shards!r}"]
    problems = []
    for place, shard in enumerate(shards):
        problems += entry_problems(f"shards[{place}]", shard)
        if isinstance(shard, dict) and not _is_count(shard.get("rows")):
            problems.append(
                f"shards[{place}]: expected rows to be of type int and above 0, found {shard.get('rows')!r}"
            )
    if not problems:
        total = sum(shard["rows"] for shard in shards)
        if manifest.get("rows") != total:
            problems.append(f"expected rows to be {total}, as its shards say; found {manifest.get('rows')!r}")
    return problems


def _is_count(value: Any) -> bool:
    return value.__class__ is int and value > 0


def entry_problems(place: str, entry: Any) -> list[str]:
    """Problems of the description of a file of the directory: its name, bytes and checksum."""
    if not isinstance(entry, dict):
        return [f"{place}: expected an object, found {entry!r}"]
    problems = [
        f"{place}: expected {key} to be of type {kind.__name__}, found {entry.get(key)!r}"
        for key, kind in (("file", str), ("bytes", int), ("crc32", str))
        if entry.get(key).__class__ is not kind
    ]
    file = entry.get("file")
    if isinstance(file, str) and os.path.basename(file) != file:
        problems.append(f"{place}: expected a file name without folders; found {file!r}")
    return problems


def map_file(
    path: str, entry: dict[str, Any], dtype: np.dtype, shape: tuple[int | None, ...]
) -> tuple[np.ndarray, mmap.mmap]:
    """Map one file of a directory, and check its size, type and shape (None fits any length); DataError otherwise."""
    name = os.path.join(path, entry["file"])
    try:
        size = os.path.getsize(name)
        if size != entry["bytes"]:
            raise DataError(f"{name}: expected {entry['bytes']} bytes, found {size}", REMEDY)
        mapped = np.load(name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{name} is missing; the manifest names it", REMEDY) from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise DataError(f"{name} cannot be opened: {error.strerror}", MORE_FILES) from error
        raise DataError(f"{name} is not a readable .npy file: {error}", REMEDY) from error
    fits = mapped.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, mapped.shape))
    if mapped.dtype != dtype or not fits or not mapped.flags.c_contiguous:
        found = f"{_type_name(mapped.dtype)} of shape {mapped.shape}"
        wanted = str(shape).replace("None", "any")
        raise DataError(f"{name}: expected {_type_name(dtype)} of shape {wanted} in C order, found {found}", REMEDY)
    # Slices of a plain array cost a fraction of np.memmap's.
    return mapped.view(np.ndarray), mapped.base


def _type_name(dtype: np.dtype) -> str:
    return dtype.str if dtype.names is None else f"records of {', '.join(dtype.names)}"


def verify(path: str, entry: dict[str, Any]) -> None:
    """Read every byte of a file; DataError unless its checksum is that of the manifest."""
    name = os.path.join(path, entry["file"])
    checksum = 0
    with open(name, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    if f"{checksum:08x}" != entry["crc32"]:
        raise DataError(f"{name}: expected checksum {entry['crc32']}, found {checksum:08x}", REMEDY)
