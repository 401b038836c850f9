"""Opens a table with Spark, whatever its format: its columns, its splits, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from riprap.prep_spark.columnar import ColumnarReader, infer_columns
from riprap.prep_spark.columns import Found, Layout, choose, shown
from riprap.prep_spark.context import spark_session
from riprap.prep_spark.delimited import DelimitedReader
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.frames import Split, Work, run_splits, selected, splits_of, text_frame
from riprap.prep_spark.inference import SAMPLE_LINES, infer_delimited, infer_json
from riprap.prep_spark.ingest import local_name
from riprap.prep_spark.json_lines import JsonReader
from riprap.prep_spark.libsvm import Extent, LibsvmReader, extent
from riprap.prep_spark.reading import Reader, Reading
from riprap.prep_spark.table_options import TableOptions
from riprap.prep_spark.text_files import are_local, first_lines, local_splits, run_local
from riprap.prep_spark.transform import DENSE_MAX, Indexes, Transform, layout_like

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SAMPLE_FILES = 100
"""Files that are looked at until one has more than a line."""
LABEL = "label"
"""The name of libsvm's label."""


class Opened(NamedTuple):
    """A table ready to be read: `run` does some work for each of its splits.

    `reading` and `layout` are None for libsvm, whose cells are numbers.
    """

    run: Callable[[Work[Any]], list[Any]]
    splits: list[Split]
    found: list[Found]
    layout: Layout | None
    reading: Reading | None
    reader: Reader
    indexes: Indexes | None = None


class Text(NamedTuple):
    """Files of lines: their splits, the first lines of one of the files, and a way to do some work for each split."""

    splits: list[Split]
    file: str
    lines: list[bytes]
    run: Callable[[Work[Any]], list[Any]]


def open_table(context: SparkContext, options: TableOptions, like: Transform | None) -> Opened:
    """Open what the options name; `like`: with the columns of a transform.

    PrepError for what cannot be read, columns that are missing, and an empty input, all by name.
    """
    if options.format in ("csv", "libsvm", "json"):
        text = _local_text(context, options.input) if are_local(options.input) else _text(context, options.input)
        opened = {"csv": _open_csv, "libsvm": _open_libsvm, "json": _open_json}[options.format]
        return opened(text, options, like)
    return _open_columnar(spark_session(context), options, like)


def _local_text(context: SparkContext, source: str) -> Text:
    splits = _some(local_splits(source), source)
    return Text(splits, *sampled(splits, partial(first_lines, count=SAMPLE_LINES)), partial(run_local, context, splits))


def _text(context: SparkContext, source: str) -> Text:
    """Text that Spark reads: on other file systems, or packed by other codecs."""
    session = spark_session(context)
    frame = text_frame(session, source)
    splits = _some(splits_of(frame), source)
    run = partial(run_splits, frame, splits, is_text=True)
    return Text(splits, *sampled(splits, lambda split: _sample(session, split.file)), run)


def sampled(splits: Sequence[Split], read: Callable[[Split], list[bytes]]) -> tuple[str, list[bytes]]:
    """The first file with more than one line, and its first lines: a header alone, as Spark writes it for a part
    without rows, does not tell the kinds of columns. The first of all where none of the first files has."""
    found = []
    for split in islice((one for one in splits if one.start == 0), SAMPLE_FILES):
        found.append((split.file, read(split)))
        if sum(bool(line.strip()) for line in found[-1][1]) > 1:
            return found[-1]
    return found[0]


def _some(splits: list[Split], source: str) -> list[Split]:
    if not splits:
        raise PrepError(f"the input is empty: {source}", "name files that have rows")
    return splits


def _sample(session: SparkSession, file: str) -> list[bytes]:
    """The first lines of a file."""
    literal = re.sub(r"([*?\[\]{}\\,])", r"\\\1", file)
    return [bytes(row[0]) for row in text_frame(session, literal).limit(SAMPLE_LINES).collect()]


def _open_csv(text: Text, options: TableOptions, like: Transform | None) -> Opened:
    found = infer_delimited(text.lines, local_name(text.file), options.delimiter, options.header, options.na)
    layout = _layout(found.columns, options, like)
    reading = _reading(layout, options, like)
    reader = DelimitedReader(reading, found.delimiter, found.header)
    return Opened(text.run, text.splits, found.columns, layout, reading, reader)


def _open_json(text: Text, options: TableOptions, like: Transform | None) -> Opened:
    found, types = infer_json(text.lines, local_name(text.file), options.na)
    layout = _layout(found, options, like)
    _refuse_nested(layout, {name: kind for name, kind in types.items() if kind == "nested value"})
    reading = _reading(layout, options, like)
    return Opened(text.run, text.splits, found, layout, reading, JsonReader(reading, types))


def _open_columnar(session: SparkSession, options: TableOptions, like: Transform | None) -> Opened:
    if options.format == "table":
        table = session.read.table(options.input)
    else:
        table = session.read.format(options.format).load(options.input)
    found, nested = infer_columns(table, SAMPLE_LINES)
    layout = _layout(found, options, like)
    _refuse_nested(layout, nested)
    frame = selected(table, [column.name for column in layout.columns])
    reading = _reading(layout, options, like)
    splits = _some(splits_of(frame), options.input)
    run = partial(run_splits, frame, splits, is_text=False)
    return Opened(run, splits, found, layout, reading, ColumnarReader(reading))


def _refuse_nested(layout: Layout, nested: dict[str, Any]) -> None:
    bad = [f"{column.name} ({nested[column.name]})" for column in layout.columns if column.name in nested]
    if bad:
        raise PrepError(
            f"a shard cannot hold column {', '.join(bad)}: expected numbers, dates, truth values or text",
            "name other columns with --features",
        )


def _layout(found: Sequence[Found], options: TableOptions, like: Transform | None) -> Layout:
    names = [column.name for column in found]
    if like is not None:
        return layout_like(like, names)
    if options.wishes.label == "":
        raise PrepError(f"which column is the label? There are {shown(names)}", "name it with --label")
    return choose(found, options.wishes)


def _reading(layout: Layout, options: TableOptions, like: Transform | None) -> Reading:
    if like is None:
        missing = frozenset(cell.encode() for cell in options.na)
        return Reading(layout, missing, options.missing, options.buckets, options.categories_max)
    missing = frozenset(cell.encode() for cell in like.missing)
    return Reading(layout, missing, like.policy, like.buckets, options.categories_max, like.known)


def _open_libsvm(text: Text, options: TableOptions, like: Transform | None) -> Opened:
    indexes = like.libsvm if like else None
    if like is not None and indexes is None:
        raise PrepError("the transform is not that of a libsvm file", "give the --format that it was made with")
    first = indexes.first if indexes else 0 if options.zero_based else 1
    reach = text.run(lambda place, split, batches: extent(batches, first))
    widest = Extent(max(one.features for one in reach), max(one.pairs for one in reach))
    if indexes is None:
        indexes = Indexes(first, max(widest.features, 1))
    sparse = like.sparse if like else indexes.features > DENSE_MAX
    if sparse and options.scale != "none":
        raise PrepError(
            f"--scale {options.scale} of {indexes.features:,} sparse features would make all of them dense",
            "scale the file itself, or leave --scale out",
        )
    reader = LibsvmReader(first, indexes.features, max(widest.pairs, 1) if sparse else 0)
    names = range(first, first + min(indexes.features, DENSE_MAX))
    found = [Found(LABEL, "number"), *(Found(f"f{index}", "number") for index in names)]
    return Opened(text.run, text.splits, found, None, None, reader, indexes)
