"""Turns any table that Spark reads into shards: CSV, Parquet, JSON lines, libsvm, Avro, Delta, a catalogue's table.

Text is parsed by our own parsers from the Arrow batches of Spark's lines, so that a bad cell is named with file, line
and column; columnar formats come as Arrow columns. A first pass leaves raw fragments of float64 (a category as a code),
a second turns them into shards once categories, means and scales are known. The driver holds nothing but these.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from riprap.prep_spark.assemble import Dealing, write_parts
from riprap.prep_spark.columns import Column, Wishes
from riprap.prep_spark.context import java_version, spark_context
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.failures import explained
from riprap.prep_spark.fragments import Fragment, Task, read_split, refuse_faults
from riprap.prep_spark.inference import MISSING
from riprap.prep_spark.ingest import local_name
from riprap.prep_spark.measure import measured
from riprap.prep_spark.ordering import ordered
from riprap.prep_spark.preview import preview
from riprap.prep_spark.progress import progress
from riprap.prep_spark.publish import check_input, check_out, publish, staging
from riprap.prep_spark.relabel import Categories, merged, relabelled
from riprap.prep_spark.shards import Source
from riprap.prep_spark.sources import Opened, open_table
from riprap.prep_spark.table_options import TableOptions
from riprap.prep_spark.transform import Feature, Transform, fitted, load

if TYPE_CHECKING:
    from pyspark import SparkContext


def run(
    input: str,
    out: str,
    *,
    format: str = "csv",
    label: str = "",
    features: Sequence[str] = (),
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    date: Sequence[str] = (),
    order: str | None = None,
    settings: Mapping[str, str] | None = None,
    dry_run: bool = False,
    report: Callable[[str], Any] = print,
    **rest: Any,
) -> dict[str, Any]:
    """Write the rows of a table to the directory `out`, or to out/train and out/test with a `holdout`.

    `input` is a path, a glob or a URL that Spark reads, or of format "table" a name in Spark's catalogue. `label` and
    the others name columns; `order` sorts the rows by one. `settings` are Spark's. `rest` are the other fields of
    `TableOptions`: `missing` ("fail", "drop", "mean", "flag"), `scale` ("none", "standard", "minmax"), `buckets` (of
    hashed categories), `one_hot`, `holdout`, `na` (cells that stand for a missing value), `delimiter`, `header`,
    `zero_based`, `bad_rows`, `shard_rows`, `seed`, `categories_max`, and `like`, a directory whose transform is used.

    Returns the counts: read, kept, dropped {reason: rows}, unseen {column: cells}, rows {part: rows}, shards, seconds;
    of a `dry_run`, which writes nothing, the columns. Raises PrepError for whatever the user can mend.
    """
    wishes = Wishes(label, tuple(features), tuple(numeric), tuple(categorical), tuple(date), order)
    options = TableOptions(input, out, format, wishes, **{"na": MISSING} | rest)
    begun = time.monotonic()
    options.check()
    if format != "table":
        check_input(input, "check the path")
    if not dry_run:
        check_out(out)
    like = load(options.like) if options.like else None
    java_version()
    report(f"table: reading {input}; starting Spark, which takes some seconds")
    with spark_context(settings) as context, explained(input):
        opened = open_table(context, options, like)
        shown = preview(opened, options, like)
        report(shown.text)
        if dry_run:
            return {"columns": shown.columns}
        with staging(out) as directory:
            target = os.path.join(directory, "out")
            counts = _prepare(context, opened, options, like, os.path.join(directory, "fragments"), target, report)
            publish(target, out)
    counts |= {"seconds": round(time.monotonic() - begun, 3)}
    report(_summary(options, counts))
    return counts


def _prepare(
    context: SparkContext, opened: Opened, options: TableOptions, like: Transform | None, fragments: str, target: str,
    report: Callable[[str], Any],
) -> dict[str, Any]:  # fmt: skip
    """Both passes: input to fragments, fragments to shards."""
    width = opened.reader.width
    task = Task(opened.reader, opened.reading, fragments, options.bad_rows == "drop")
    with progress(fragments, width, report):
        found = opened.run(partial(read_split, task))
    refuse_faults(found, opened.splits, opened.reader.unit)
    counts = _counts(found, options.input)
    report(f"  {counts['kept']:,} rows parsed; writing shards")
    sources = [Source(made.path, made.kept) for made in found if made.kept]
    categories: Categories = {}
    if like is None:
        sources, categories = _relabelled(context, opened, sources, options)
    if options.wishes.order:
        sources = _ordered(context, opened, sources, options.wishes.order)
    dealing = Dealing(options.holdout, options.seed, options.shard_rows)
    transform = like or _fitted(context, opened, sources, categories, options, dealing)
    form = transform.form(width)
    fields = _manifest_fields(opened, options, counts) | transform.fields(form)
    made = write_parts(context, sources, width, dealing, form, target, fields)
    for directory in {target, *(os.path.join(target, part) for part in made["rows"] if part != "all")}:
        transform.save(directory)
    return counts | made | {"classes": list(transform.label.categories)}


def _relabelled(
    context: SparkContext, opened: Opened, sources: list[Source], options: TableOptions
) -> tuple[list[Source], Categories]:
    """The sources with one code a category, and the categories."""
    if opened.layout is None:
        return sources, {}
    slots = [
        slot
        for slot, column in enumerate(opened.layout.columns)
        if column.kind == "category" and not (slot and options.buckets)
    ]
    if not slots:
        return sources, {}
    categories = merged(sources, opened.layout, slots, options.categories_max)
    shared = context.broadcast(categories)
    width = opened.reader.width
    relabel = context.parallelize(sources, len(sources)).map(lambda source: relabelled(source, width, shared.value))
    return relabel.collect(), categories


def _ordered(context: SparkContext, opened: Opened, sources: list[Source], order: str) -> list[Source]:
    assert opened.layout is not None, "the options are checked"
    slot = [column.name for column in opened.layout.columns].index(order)
    return ordered(context, sources, opened.reader.width, slot)


def _fitted(
    context: SparkContext, opened: Opened, sources: list[Source], categories: Categories, options: TableOptions,
    dealing: Dealing,
) -> Transform:  # fmt: skip
    sparse = opened.indexes is not None and opened.reader.width != 1 + opened.indexes.features
    if opened.indexes is not None and sparse:
        return Transform(Feature("label", "number"), (), "fail", (), None, True, opened.indexes)
    needs_moments = options.scale != "none" or options.missing in ("mean", "flag")
    moments = measured(context, sources, opened.reader.width, dealing) if needs_moments else None
    columns: Sequence[Column]
    if opened.layout is None:
        columns = [Column(one.name, one.kind, place) for place, one in enumerate(opened.found)]
    else:
        columns = opened.layout.columns[: opened.layout.used]
    made = fitted(
        columns, categories, moments, options.scale, options.missing, sorted(options.na), options.buckets,
        options.one_hot,
    )  # fmt: skip
    return made if opened.indexes is None else made.of_libsvm(opened.indexes)


def _counts(found: list[Fragment], source: str) -> dict[str, Any]:
    dropped = sum((made.dropped for made in found), Counter())
    unseen = sum((made.unseen for made in found), Counter())
    skipped = sum(made.skipped for made in found)
    read, kept = sum(made.lines for made in found) - skipped, sum(made.kept for made in found)
    assert read == kept + dropped.total(), f"{read} rows read, {kept} kept, but {dropped.total()} dropped"
    if kept == 0:
        why = f"all {read:,} rows were dropped: {dict(dropped)}" if read else "the input is empty, but for headers"
        raise PrepError(f"no row of {source} is left: {why}", "name files that have rows")
    counts: dict[str, Any] = {"read": read, "kept": kept, "dropped": dict(sorted(dropped.items()))}
    return counts | {"unseen": {name: count for name, count in sorted(unseen.items()) if count}}


def _manifest_fields(opened: Opened, options: TableOptions, counts: dict[str, Any]) -> dict[str, Any]:
    files = sorted({local_name(split.file) for split in opened.splits if split.file})
    return {
        "dataset": "table",
        "source": {"input": options.input, "format": options.format, "files": files},
        "counts": counts,
        "made_with": {
            "holdout": options.holdout,
            "seed": options.seed,
            "bad_rows": options.bad_rows,
            "missing": options.missing,
            "scale": options.scale,
            "order": options.wishes.order,
            "like": options.like,
        },
    }


def _summary(options: TableOptions, counts: dict[str, Any]) -> str:
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in counts["dropped"].items()) or "none"
    parts = ", ".join(f"{rows:,} {part}" for part, rows in counts["rows"].items())
    lines = [f"table: {counts['read']:,} rows read, {counts['kept']:,} kept, dropped: {dropped}"]
    if counts["unseen"]:
        unseen = ", ".join(f"{count:,} of {name}" for name, count in counts["unseen"].items())
        lines.append(f"  cells that the transform does not know: {unseen}")
    if counts["classes"]:
        lines.append(f"  the label: {', '.join(f'{name} is {code}' for code, name in enumerate(counts['classes']))}")
    lines.append(f"  wrote {parts} rows in {counts['shards']} shards to {options.out} in {counts['seconds']:.1f} s")
    return "\n".join(lines)
