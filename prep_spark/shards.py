"""Writes shard directories: `part-NNNNN.npy` files and the `manifest.json` that describes them.

A shard is a C-ordered little-endian float64 matrix, one item a row, label column included. NumPy's format starts the
data at a multiple of 64 bytes (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), so readers map it.
The manifest is written last.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prep_spark.layout import ShardPlan, chosen

FORMAT = "riprap-shards"
VERSION = 1
DTYPE = "<f8"
CHUNK_ROWS = 16_384


class Source(NamedTuple):
    """A file of `rows` raw rows; together, in order, they are all the kept rows."""

    path: str
    rows: int


@dataclass(frozen=True)
class Assembly:
    """How fragments become shards. `scale` divides the columns, None leaves them as they are."""

    sources: tuple[Source, ...]
    columns: int
    directory: str
    fraction: float
    seed: int
    scale: np.ndarray | None

    def part_directory(self, part: str) -> str:
        """Where the shards of a part go: the directory itself when nothing is held back."""
        return self.directory if part == "all" else os.path.join(self.directory, part)


def write_shard(plan: ShardPlan, assembly: Assembly) -> dict[str, Any]:
    """Write one shard; returns its entry in the manifest. Runs in Spark's workers."""
    name = f"part-{plan.number:05d}.npy"
    header = io.BytesIO()
    shape = (plan.rows, assembly.columns)
    np.lib.format.write_array_header_1_0(header, {"descr": DTYPE, "fortran_order": False, "shape": shape})
    checksum = zlib.crc32(header.getbuffer())
    written = 0
    final = os.path.join(assembly.part_directory(plan.part), name)
    partial = f"{final}.{os.urandom(4).hex()}.tmp"  # a task that runs twice must not write into its twin's file
    with open(partial, "wb") as file:
        file.write(header.getbuffer())
        for rows in _rows(plan, assembly):
            checksum = zlib.crc32(rows.data, checksum)
            file.write(rows.data)
            written += len(rows)
        size = file.tell()
    assert written == plan.rows, f"{name}: {written} rows instead of {plan.rows}"
    os.replace(partial, final)
    return {"file": name, "rows": plan.rows, "bytes": size, "crc32": f"{checksum:08x}"}


def _rows(plan: ShardPlan, assembly: Assembly) -> Iterator[np.ndarray]:
    for start, rows in _slices(plan.start, plan.stop, assembly.sources, assembly.columns):
        mask = chosen(plan.part, start, start + len(rows), assembly.fraction, assembly.seed)
        if mask is not None:
            rows = rows[mask]
        if len(rows):
            yield np.ascontiguousarray(rows if assembly.scale is None else rows / assembly.scale)


def _slices(start: int, stop: int, sources: Sequence[Source], columns: int) -> Iterator[tuple[int, np.ndarray]]:
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
    """Describe the shards of `directory`; `fields` are the entries beside format, version, dtype, rows and shards."""
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": DTYPE,
        "rows": sum(shard["rows"] for shard in shards),
        **fields,
        "shards": shards,
    }
    with open(os.path.join(directory, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")
