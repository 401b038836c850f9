"""Splits text into lines, as bytes and the places where lines end; a long file may be read in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

import numpy as np

LF, CR = 10, 13


class Lines(NamedTuple):
    """The lines of a piece of text that are not empty, without their ends (LF, or CR LF), and how many were empty.

    `text` holds their bytes, `lengths` their int64 lengths.
    """

    text: np.ndarray
    lengths: np.ndarray
    empty: int


def split_lines(data: bytes) -> Lines:
    """The lines of a text; the last may lack its end."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == LF)
    if len(octets) and octets[-1] != LF:
        ends = np.append(ends, len(octets))
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    returned = np.zeros(len(ends), bool)
    filled = ends > starts
    returned[filled] = octets[ends[filled] - 1] == CR
    kept = np.ones(len(octets), bool)
    kept[ends[ends < len(octets)]] = False
    kept[ends[returned] - 1] = False
    lengths = ends - starts - returned
    full = lengths[lengths > 0]
    return Lines(octets[kept], full, len(lengths) - len(full))


def pieces(chunks: Iterable[bytes]) -> Iterator[Lines]:
    """The lines of a text that comes in chunks, in their order."""
    begun: list[bytes] = []
    for chunk in chunks:
        whole, end, rest = chunk.rpartition(b"\n")
        if end:
            yield split_lines(b"".join([*begun, whole, end]))
            begun = []
        begun.append(rest)
    if last := b"".join(begun):
        yield split_lines(last)


def part_of(file: IO[bytes], start: int, stop: int, chunk_bytes: int) -> Iterator[bytes]:
    """The lines that begin at the bytes start <= byte < stop of a seekable file, in chunks."""
    place, end = _line_start(file, start), _line_start(file, stop)
    file.seek(place)
    while place < end and (chunk := file.read(min(chunk_bytes, end - place))):
        place += len(chunk)
        yield chunk


def _line_start(file: IO[bytes], place: int) -> int:
    """The place where the first line begins that begins at `place` or later; the file's end when none does."""
    if place == 0:
        return 0
    file.seek(place - 1)
    file.readline()
    return file.tell()
