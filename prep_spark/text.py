"""Turns text files into line shards: the bytes of the lines, and the offsets of their bounds.

Lines lose their ends (LF or CR LF); empty ones are dropped and counted; what is not UTF-8 stays as it is. Spark's tasks
read parts of long files, and compressed files whole.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import numpy as np

from riprap.prep_spark.context import java_version, spark_context
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.failures import explained
from riprap.prep_spark.lines import Lines, part_of, pieces
from riprap.prep_spark.publish import check_out, publish, staging
from riprap.prep_spark.raw_files import CHUNK_BYTES, RawFile, find_files, is_compressed, read_chunks
from riprap.prep_spark.shards import LINES, shard_name, write_manifest, write_npy

if TYPE_CHECKING:
    from pyspark import SparkContext

PART_BYTES = 64 << 20


class Part(NamedTuple):
    """A run of bytes of one file, or all of a compressed file (`stop` is None)."""

    file: str
    start: int
    stop: int | None


class Fragment(NamedTuple):
    """The lines of one part: their bytes in `path`.text, and in `path`.ends where each ends (little-endian int64)."""

    path: str
    lines: int
    dropped: Counter[str]
    fault: PrepError | None = None


Clean = Callable[[Lines], tuple[Lines, Counter[str]]]
"""From a file's lines to those that are kept, and how many were dropped for each reason, the empty ones left out."""


class Shard(NamedTuple):
    """One shard to be written: of each fragment the lines from its start to its stop."""

    directory: str
    number: int
    runs: list[tuple[str, int, int]]


def run(
    inputs: Sequence[str], out: str, *, shard_rows: int = 1_000_000, report: Callable[[str], Any] = print
) -> dict[str, Any]:
    """Write the lines of some text files to the directory `out`, in the order of the files.

    `inputs` are paths, globs or URLs. Returns the counts: read, kept, dropped {"empty": lines}, shards, seconds. Raises
    PrepError, and leaves nothing behind, for whatever the user can mend.
    """
    return prepare_lines("text", inputs, out, shard_rows, report, all_of)


def all_of(lines: Lines) -> tuple[Lines, Counter[str]]:
    """Every line as it is."""
    return lines, Counter()


def prepare_lines(
    dataset: str, inputs: Sequence[str], out: str, shard_rows: int, report: Callable[[str], Any], clean: Clean
) -> dict[str, Any]:
    """The job behind `run`; the lines that `clean` leaves are written. It is pickled."""
    begun = time.monotonic()
    if shard_rows < 1:
        raise PrepError(f"--shard-rows is {shard_rows}; expected a positive number", "correct --shard-rows")
    check_out(out)
    files = find_files(inputs)
    java_version()
    report(f"{dataset}: reading {len(files)} files into {out}; starting Spark, which takes some seconds")
    with staging(out) as directory, spark_context() as context, explained(", ".join(inputs)):
        fragments = _parse(context, parts_of(files, PART_BYTES), os.path.join(directory, "fragments"), clean)
        counts = _counts(fragments)
        report(f"  {counts['kept']:,} lines found; writing shards")
        target = os.path.join(directory, "out")
        os.mkdir(target)
        plans = _plan(fragments, shard_rows, target)
        entries = context.parallelize(plans, len(plans)).map(write_shard).collect()
        fields = {
            "dataset": dataset,
            "format": LINES,
            "dtype": "|u1",
            "source": {"files": [file.path for file in files]},
        }
        write_manifest(target, entries, fields | {"counts": counts})
        publish(target, out)
    counts |= {"shards": len(plans), "seconds": round(time.monotonic() - begun, 3)}
    dropped = ", ".join(f"{lines:,} {reason}" for reason, lines in counts["dropped"].items())
    report(
        f"{dataset}: {counts['read']:,} lines read, {counts['kept']:,} kept, dropped: {dropped}\n"
        f"  wrote {len(plans)} shards to {out} in {counts['seconds']:.1f} s"
    )
    return counts


def parts_of(files: list[RawFile], part_bytes: int) -> list[Part]:
    """The parts that the tasks read, in the order of the text."""
    parts = []
    for path, size in files:
        if is_compressed(path):
            parts.append(Part(path, 0, None))
        else:
            parts += [Part(path, start, min(start + part_bytes, size)) for start in range(0, size, part_bytes)]
    return parts


def _parse(context: SparkContext, parts: list[Part], directory: str, clean: Clean) -> list[Fragment]:
    tasks = [(part, os.path.join(directory, f"lines-{place:06d}")) for place, part in enumerate(parts)]
    if not tasks:
        raise PrepError("the input is empty", "name other files")
    fragments = context.parallelize(tasks, len(tasks)).map(lambda task: parse_part(*task, clean)).collect()
    for fragment in fragments:
        if fragment.fault is not None:
            raise fragment.fault
    return fragments


def parse_part(part: Part, path: str, clean: Clean) -> Fragment:
    """Find the lines of one part and write down those that are kept. Runs in Spark's workers."""
    path = f"{path}-{os.urandom(4).hex()}"  # a task that runs twice must not write into its twin's file
    lines, size, dropped = 0, 0, Counter[str]()
    try:
        with open(f"{path}.text", "wb") as texts, open(f"{path}.ends", "wb") as ends:
            for piece in pieces(_chunks(part)):
                piece, why = clean(piece)
                dropped += why + Counter(empty=piece.empty)
                texts.write(piece.text.data)
                ends.write((np.cumsum(piece.lengths, dtype="<i8") + size).data)
                lines, size = lines + len(piece.lengths), size + len(piece.text)
    except PrepError as error:
        return Fragment(path, 0, dropped, _placed(error, part.file))
    return Fragment(path, lines, dropped)


def _placed(error: PrepError, file: str) -> PrepError:
    """The error with its file's name, which it may have already."""
    message = str(error.args[0])
    return error if file in message else PrepError(f"{file}: {message}", error.remedy)


def _chunks(part: Part) -> Iterator[bytes]:
    if part.stop is None:
        yield from read_chunks(part.file)
        return
    try:
        with fsspec.open(part.file, "rb") as file:
            yield from part_of(file, part.start, part.stop, CHUNK_BYTES)
    except OSError as error:
        raise PrepError(f"{part.file} cannot be read: {error}", "check the file") from error


def _counts(fragments: list[Fragment]) -> dict[str, Any]:
    kept, dropped = sum(fragment.lines for fragment in fragments), Counter(empty=0)
    for fragment in fragments:
        dropped.update(fragment.dropped)
    if kept == 0:
        whys = " or ".join(sorted(+dropped))
        raise PrepError(f"no line is left: all {dropped.total():,} are {whys}", "name other files")
    return {"read": kept + dropped.total(), "kept": kept, "dropped": dict(sorted(dropped.items()))}


def _plan(fragments: list[Fragment], shard_rows: int, directory: str) -> list[Shard]:
    """The shards, each of `shard_rows` lines but the last."""
    shards: list[Shard] = []
    room = 0
    for fragment in fragments:
        start = 0
        while start < fragment.lines:
            if room == 0:
                shards.append(Shard(directory, len(shards), []))
                room = shard_rows
            stop = min(fragment.lines, start + room)
            shards[-1].runs.append((fragment.path, start, stop))
            room -= stop - start
            start = stop
    return shards


def write_shard(shard: Shard) -> dict[str, Any]:
    """Write the two files of one shard; returns its entry in the manifest. Runs in Spark's workers."""
    texts, offsets = [], [np.zeros(1, "<i8")]
    size = 0
    for path, start, stop in shard.runs:
        ends = np.memmap(f"{path}.ends", "<i8", "r").view(np.ndarray)
        low, high = int(ends[start - 1]) if start else 0, int(ends[stop - 1])
        texts.append(np.memmap(f"{path}.text", np.uint8, "r").view(np.ndarray)[low:high])
        offsets.append(ends[start:stop] - low + size)
        size += high - low
    bounds = np.concatenate(offsets)
    text = write_npy(shard.directory, shard_name(shard.number), np.dtype(np.uint8), (size,), texts)
    places = write_npy(shard.directory, shard_name(shard.number, ".offsets"), bounds.dtype, bounds.shape, [bounds])
    return {"rows": len(bounds) - 1, **text, "offsets": places}
