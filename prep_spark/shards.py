"""Writes shard directories: `part-NNNNN.npy` files and the `manifest.json` that describes them.

A shard is a C-ordered little-endian float64 matrix, one item a row, label column included, or an array of records, or
the bytes of lines with the offsets of their bounds. NumPy's format starts the data at a multiple of 64 bytes
(numpy.org/doc/stable/reference/generated/numpy.lib.format.html), so readers map it. The manifest is written last.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from riprap.prep_spark.layout import ShardPlan, chosen

FORMAT = "riprap-shards"
RECORDS = "riprap-records"
LINES = "riprap-lines"
VERSION = 1
DTYPE = "<f8"
CHUNK_ROWS = 16_384


class Source(NamedTuple):
    """A file of `rows` raw rows; together, in order, they are all the kept rows."""

    path: str
    rows: int


class ShardForm(NamedTuple):
    """The type of a shard's rows, and how parsed rows (a float64 matrix) become some; picklable.

    `columns` is that of a matrix; 0: the rows are records.
    """

    dtype: np.dtype
    convert: Callable[[np.ndarray], np.ndarray]
    columns: int = 0


@dataclass(frozen=True)
class Assembly:
    """The making of shards from fragments: as they are, or in another `form`."""

    sources: tuple[Source, ...]
    columns: int
    directory: str
    fraction: float
    seed: int
    form: ShardForm | None = None

    def part_directory(self, part: str) -> str:
        """The directory of the shards of a part: the target itself when nothing is held back."""
        return self.directory if part == "all" else os.path.join(self.directory, part)


def write_shard(plan: ShardPlan, assembly: Assembly) -> dict[str, Any]:
    """Write one shard; returns its entry in the manifest. Runs in Spark's workers."""
    dtype, _, columns = assembly.form or (np.dtype(DTYPE), None, assembly.columns)
    shape = (plan.rows, columns) if columns else (plan.rows,)
    directory = assembly.part_directory(plan.part)
    return {"rows": plan.rows} | write_npy(directory, shard_name(plan.number), dtype, shape, _rows(plan, assembly))


def shard_name(number: int, kind: str = "") -> str:
    """The file name of a shard; `kind` tells the files of one shard apart."""
    return f"part-{number:05d}{kind}.npy"


def write_npy(
    directory: str, name: str, dtype: np.dtype, shape: tuple[int, ...], pieces: Iterable[np.ndarray]
) -> dict[str, Any]:
    """Write the pieces of one array as a .npy file; returns the manifest's entry: file, bytes, crc32, and of
    floating-point numbers whether all are `finite`."""
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    checksum = zlib.crc32(header.getbuffer())
    written, finite = 0, True
    final = os.path.join(directory, name)
    partial = f"{final}.{os.urandom(4).hex()}.tmp"  # a task that runs twice must not write into its twin's file
    with open(partial, "wb") as file:
        file.write(header.getbuffer())
        for rows in pieces:
            data = np.ascontiguousarray(rows).view(np.uint8).data
            checksum = zlib.crc32(data, checksum)
            file.write(data)
            written += len(rows)
            finite = finite and is_finite(rows)
        size = file.tell()
    assert written == shape[0], f"{name}: {written} rows instead of {shape[0]}"
    os.replace(partial, final)
    numbers = dtype.kind == "f" or dtype.names is not None
    return {"file": name, "bytes": size, "crc32": f"{checksum:08x}"} | ({"finite": finite} if numbers else {})


def is_finite(rows: np.ndarray) -> bool:
    """True when no floating-point number of rows (of a matrix, or records) is NaN or infinite."""
    arrays = [rows] if rows.dtype.names is None else [rows[name] for name in rows.dtype.names]
    return all(bool(np.isfinite(array).all()) for array in arrays if array.dtype.kind == "f")


def record_fields(dtype: np.dtype) -> dict[str, Any]:
    """The manifest's fields that say that the shards are records of a type."""
    return {"format": RECORDS, "dtype": np.lib.format.dtype_to_descr(dtype)}


def _rows(plan: ShardPlan, assembly: Assembly) -> Iterator[np.ndarray]:
    for start, rows in slices(plan.start, plan.stop, assembly.sources, assembly.columns):
        mask = chosen(plan.part, start, start + len(rows), assembly.fraction, assembly.seed)
        if mask is not None:
            rows = rows[mask]
        if len(rows):
            yield rows if assembly.form is None else assembly.form.convert(rows)


def slices(start: int, stop: int, sources: Sequence[Source], columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """The kept rows start <= row < stop in pieces, each with the number of its first row."""
    first = 0
    for source in sources:
        low, high = max(start, first) - first, min(stop, first + source.rows) - first
        if low < high:
            matrix = np.memmap(source.path, DTYPE, "r", shape=(source.rows, columns)).view(np.ndarray)
            for begin in range(low, high, CHUNK_ROWS):
                yield first + begin, matrix[begin : min(begin + CHUNK_ROWS, high)]
        first += source.rows


def write_manifest(directory: str, shards: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    """Describe the shards of `directory`; `fields` are the other entries.

    Among them are format and dtype where the shards are no matrices.
    """
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": DTYPE,
        "rows": sum(shard["rows"] for shard in shards),
        **fields,
        "shards": shards,
    }
    with open(os.path.join(directory, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, allow_nan=False)
        file.write("\n")
