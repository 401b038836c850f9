"""Reads raw text, .txt or .txt.gz, as lines, without preparing it first.

The lines are those that `riprap prep text` writes: without their ends (LF or CR LF), without empty lines, and with
invalid UTF-8 left as it is. The text is held in memory; larger text is for `riprap prep text`.
"""

from __future__ import annotations

import gzip
import os
import zlib

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.inputs.input_rows import LineRows
from riprap.operators.inputs.shard_files import MappedRows

SUFFIXES = (".txt", ".txt.gz")
LF, CR = 10, 13


def raw_files(path: str) -> list[str]:
    """The raw text files that `path` names, ordered by name: itself, or those of a directory without a manifest."""
    if os.path.isfile(path):
        return [path] if path.endswith(SUFFIXES) else []
    if not os.path.isdir(path) or os.path.exists(os.path.join(path, "manifest.json")):
        return []
    return sorted(entry.path for entry in os.scandir(path) if entry.name.endswith(SUFFIXES) and entry.is_file())


def open_raw(files: list[str]) -> LineRows:
    """The lines of some files, in their order. DataError when one cannot be read."""
    runs = [run for file in files if len((run := split_lines(_bytes_of(file)))[1]) > 1]
    if not runs:
        raise DataError(f"{', '.join(files[:3])}: expected text, found no line that is not empty", "name other files")
    return LineRows(MappedRows([text for text, _ in runs], []), [offsets for _, offsets in runs])


def _bytes_of(file: str) -> np.ndarray:
    try:
        with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as stream:
            return np.frombuffer(stream.read(), np.uint8)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read: {error}", "check the file; fetch it again if it is damaged") from error


def split_lines(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the lines of a text without their ends, and the int64 offsets of their bounds; no empty lines."""
    ends = np.flatnonzero(data == LF)
    if len(data) and data[-1] != LF:
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    returns = np.zeros(len(ends), bool)
    filled = ends > starts
    returns[filled] = data[ends[filled] - 1] == CR
    kept = np.ones(len(data), bool)
    kept[ends[ends < len(data)]] = False
    kept[ends[returns] - 1] = False
    lengths = ends - starts - returns
    return data[kept], np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[lengths > 0])])
