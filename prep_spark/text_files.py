"""Reads local text files in splits: Spark's Python workers take their lines straight from the files.

Spark's own way, by way of Java and Arrow, costs several times the time of parsing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from riprap.prep_spark.context import SPLIT_BYTES
from riprap.prep_spark.frames import Split, Work, attempted, results
from riprap.prep_spark.lines import part_of
from riprap.prep_spark.raw_files import find_files, is_compressed, read_chunks
from riprap.prep_spark.reading import Lines

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")

CHUNK_BYTES = 1 << 20  # a chunk, its lines and its rows stay in a core's cache
OTHER_CODECS = (".bz2", ".zst", ".snappy", ".lz4", ".deflate")
"""Spark unpacks these; gzip we unpack ourselves."""


def are_local(source: str) -> bool:
    """True when `source` names files that we read ourselves: local ones, plain or gzip."""
    path = source.removeprefix("file:")
    return not re.search(r"^[A-Za-z][A-Za-z0-9]+:|\{", path) and not path.endswith(OTHER_CODECS)


def local_splits(source: str) -> list[Split]:
    """The splits of local files in the order of the stream; as with Spark, files that begin with `_` or `.` are none.

    PrepError when there is no file.
    """
    splits: list[Split] = []
    for file in sorted(find_files([source])):
        if os.path.basename(file.path).startswith(("_", ".")) or not file.size:
            continue
        if is_compressed(file.path):
            splits.append(Split(file.path, 0, len(splits)))
            continue
        for start in range(0, file.size, SPLIT_BYTES):
            splits.append(Split(file.path, start, len(splits), min(start + SPLIT_BYTES, file.size)))
    return splits


def first_lines(split: Split, count: int) -> list[bytes]:
    """The first lines of a split, or of its first chunk, without their ends."""
    for lines in line_batches(_chunks(split)):
        starts, stops = lines.offsets[:count].tolist(), lines.offsets[1 : count + 1].tolist()
        return [lines.text[a:b].tobytes().rstrip(b"\r\n") for a, b in zip(starts, stops)]
    return []


def run_local(context: SparkContext, splits: list[Split], work: Work[T]) -> list[T]:
    """As `frames.run_splits`, but on `Lines`."""

    def run(place: int) -> object:
        return attempted(work, place, splits[place], line_batches(_chunks(splits[place])))

    return results(context.parallelize(range(len(splits)), len(splits)).map(run).collect())


def _chunks(split: Split) -> Iterator[bytes]:
    if split.stop is None:
        yield from read_chunks(split.file)
        return
    with open(split.file, "rb") as file:
        yield from part_of(file, split.start, split.stop, CHUNK_BYTES)


def line_batches(chunks: Iterable[bytes]) -> Iterator[Lines]:
    """The lines of a text that comes in chunks, some at a time."""
    begun: list[bytes] = []
    for chunk in chunks:
        whole, end, rest = chunk.rpartition(b"\n")
        if end:
            yield _lines(b"".join([*begun, whole, end]))
            begun = []
        begun.append(rest)
    if last := b"".join(begun):
        yield _lines(last)


def _lines(data: bytes) -> Lines:
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n")) + 1
    if not len(ends) or ends[-1] < len(text):
        ends = np.append(ends, len(text))
    return Lines(np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)]), text)
