"""Reads raw text with Spark and leaves its good rows as raw fragments, one a split, in the order of the input."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.formats import FAULTS, Reason, RowFormat
from riprap.prep_spark.rows import parse

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.rdd import RDD

BATCH_LINES = 8192
WAVE_SPLITS_PER_CORE = 4  # a faulty row or a limit is noticed after at most so much work


@dataclass(frozen=True)
class Request:
    """The request to each worker. `staging` is a directory that driver and workers share."""

    form: RowFormat
    staging: str
    bad_rows: str
    """"fail", "drop", or "keep": those with NaN or infinity are rows like others, the rest fails."""


class Fault(NamedTuple):
    """The first line of a split that stops the job; `line` counts from 1 within the split."""

    line: int
    expected: str
    found: str


@dataclass(frozen=True)
class Fragment:
    """The outcome of one split: `kept` rows of little-endian float64 in `path`, and counts.

    Invariant: lines == kept + the sum of `dropped`, unless there is a `fault`.
    """

    index: int
    path: str
    lines: int
    kept: int
    dropped: Counter[str] = field(default_factory=Counter)
    maxima: np.ndarray = field(default_factory=lambda: np.zeros(0))
    fault: Fault | None = None


class Split(NamedTuple):
    """A run of bytes of one file, and which of Spark's partitions reads it."""

    file: str
    start: int
    partition: int


class Rows(NamedTuple):
    """The parsed input: fragments in the order of the input, and the files they came from."""

    fragments: list[Fragment]
    files: list[str]


def ingest(context: SparkContext, source: str, request: Request, limit: int | None) -> Rows:
    """Parse the first `limit` lines (None: all) of `source`, a path, a glob or a URL that Spark reads.

    Raises PrepError for the first faulty row unless `request.bad_rows` is "drop", Py4JError for what Spark cannot read.
    """
    lines = context.textFile(source, use_unicode=False)
    splits = _splits(lines)
    fragments = _run(lines, splits, request, limit)
    return Rows(fragments, sorted({split.file for split in splits}))


def _splits(lines: RDD[bytes]) -> list[Split]:
    """The input's splits, ordered by file name and place: this is the order of the stream."""
    found = []
    for index, partition in enumerate(lines._jrdd.rdd().partitions()):
        split = partition.inputSplit().value()
        found.append(Split(split.getPath().toString(), split.getStart(), index))
    return sorted(found)


def _run(lines: RDD[bytes], splits: list[Split], request: Request, limit: int | None) -> list[Fragment]:
    done: list[Fragment] = []
    left = limit
    width = lines.ctx.defaultParallelism * WAVE_SPLITS_PER_CORE
    for first in range(0, len(splits), width):
        wave = splits[first : first + width]
        for split, fragment in zip(wave, _parse_splits(lines, wave, request, left)):
            if left is not None and fragment.lines > left:  # an earlier split of this wave used up the limit
                (fragment,) = _parse_splits(lines, [split], request, left)
            if fragment.fault:
                raise _refusal(lines, splits, split, fragment.fault)
            done.append(fragment)
            if left is not None:
                left -= fragment.lines
                if left == 0:
                    return done
    return done


def _parse_splits(lines: RDD[bytes], splits: list[Split], request: Request, limit: int | None) -> list[Fragment]:
    def run(index: int, split: Iterator[bytes]) -> Iterator[Fragment]:
        yield parse_split(index, split, request, limit)

    partitions = [split.partition for split in splits]
    return list(lines.ctx.runJob(lines.mapPartitionsWithIndex(run), lambda made: made, partitions))


def parse_split(index: int, lines: Iterable[bytes], request: Request, limit: int | None) -> Fragment:
    """Parse one split, `limit` lines at most, into a fragment file. Runs in Spark's workers."""
    # A task that Spark runs twice at once must not write into its twin's file.
    path = os.path.join(request.staging, f"rows-{index:06d}-{os.getpid()}-{os.urandom(4).hex()}.f8")
    made = Fragment(index, path, 0, 0, maxima=np.full(len(request.form.columns), -np.inf))
    stream = islice(lines, limit)
    with open(path, "wb") as file:
        while batch := list(islice(stream, BATCH_LINES)):
            rows, reasons = parse_lines(batch, request.form, request.bad_rows == "keep")
            made = _counted(made, batch, rows, reasons, request)
            if made.fault:
                break
            file.write(rows.data)
    return made


def parse_lines(lines: list[bytes], form: RowFormat, keep_all: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The good rows of some lines as a matrix, and one `Reason` a line; with `keep_all` NaN and infinity are good."""
    rows = np.empty((len(lines), len(form.columns)), "<f8")
    reasons = np.empty(len(lines), np.uint8)
    rows = rows[: parse(b"\n".join(lines), form.delimiter, form.empty_is_zero, rows, reasons, keep_all)]
    refused = form.check(rows)
    if refused.any():
        reasons[reasons == Reason.NONE] = refused
        rows = rows[refused == Reason.NONE]
    return rows, reasons


def _counted(made: Fragment, lines: list[bytes], rows: np.ndarray, reasons: np.ndarray, request: Request) -> Fragment:
    numbers, counts = np.unique(reasons, return_counts=True)
    found = {Reason(number): int(count) for number, count in zip(numbers, counts) if number != Reason.NONE}
    fault = None
    if FAULTS & found.keys() and request.bad_rows != "drop":
        at = int(np.flatnonzero(np.isin(reasons, list(FAULTS)))[0])
        fault = Fault(made.lines + at + 1, *request.form.explain(lines[at], Reason(reasons[at])))
    return replace(
        made,
        lines=made.lines + len(lines),
        kept=made.kept + len(rows),
        dropped=made.dropped + Counter({reason.name.lower(): count for reason, count in found.items()}),
        maxima=np.maximum(made.maxima, rows.max(axis=0, initial=-np.inf, where=np.isfinite(rows))),
        fault=fault,
    )


def _refusal(lines: RDD[bytes], splits: list[Split], split: Split, fault: Fault) -> PrepError:
    """The message for a faulty line, with its number in its file: only now the splits before it are counted."""
    before = [other.partition for other in splits if other.file == split.file and other.start < split.start]
    counted = lines.ctx.runJob(lines, lambda part: [sum(1 for _ in part)], before) if before else []
    return PrepError(
        f"{local_name(split.file)}, line {sum(counted) + fault.line}: expected {fault.expected}, found {fault.found}",
        "repair the file, or drop and count such rows with --bad-rows drop",
    )


def local_name(url: str) -> str:
    """`file:/a/b` as `/a/b`; other URLs as they are."""
    return "/" + url.removeprefix("file:").lstrip("/") if url.startswith("file:") else url
