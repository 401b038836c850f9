"""The job that all data sets share: raw text in, shard directories out, and a count for every row."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from riprap.prep_spark.assemble import Dealing, write_parts
from riprap.prep_spark.context import java_version, spark_context
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.failures import explained
from riprap.prep_spark.formats import RowFormat
from riprap.prep_spark.ingest import Request, Rows, ingest, local_name
from riprap.prep_spark.progress import progress
from riprap.prep_spark.publish import check_input, check_out, publish, staging
from riprap.prep_spark.shards import DTYPE, ShardForm, Source, record_fields

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class Options:
    """The user's choices; every field but `input` and `out` is written into the manifest.

    `holdout` is the fraction of kept rows held back, 0 for none. `limit` is how many lines of the input are read,
    None for all. `settings` are the data set's own options.
    """

    input: str
    out: str
    holdout: float
    bad_rows: str
    limit: int | None
    shard_rows: int
    seed: int
    settings: dict[str, str | int] = field(default_factory=dict)

    def check(self) -> None:
        """PrepError when an option is out of its range."""
        _demand(0 <= self.holdout < 1, "holdout", self.holdout, "at least 0 and below 1, for example 0.1")
        _demand(self.bad_rows in ("fail", "drop", "keep"), "bad-rows", self.bad_rows, "fail, drop or keep")
        _demand(self.limit is None or self.limit > 0, "limit", self.limit, "a positive number of rows")
        _demand(self.shard_rows > 0, "shard-rows", self.shard_rows, "a positive number of rows")


def _demand(true: bool, option: str, value: object, expected: str) -> None:
    if not true:
        raise PrepError(f"--{option} is {value!r}; expected {expected}", f"correct --{option}")


Scale = Callable[[np.ndarray], np.ndarray]
"""From the maxima of the kept rows' columns to the divisors of the columns."""


class Conversion(NamedTuple):
    """The conversion of parsed rows: the form of the shards (None: rows as they are), and the columns' divisors."""

    form: ShardForm | None
    divisor: np.ndarray | None


def divided(rows: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Rows over the divisors of their columns."""
    return rows / divisor


def prepare(
    form: RowFormat,
    options: Options,
    report: Callable[[str], Any],
    scale: Scale | None = None,
    records: ShardForm | None = None,
) -> dict[str, Any]:
    """Run the job; returns the counts: read, kept, dropped {reason: rows}, rows {part: rows}, shards, seconds.

    The shards are matrices, their columns divided by what `scale` says, or the `records` that rows are turned into.
    `report` gets a line of text at once, then every two seconds, and the counts at the end.
    Raises PrepError, and leaves nothing behind, when the options, the machine or the input are not as needed.
    """
    begun = time.monotonic()
    options.check()
    report(f"{form.dataset}: reading {options.input} into {options.out}; starting Spark, which takes some seconds")
    _check_paths(options)
    java_version()
    with staging(options.out) as directory, spark_context() as context, explained(options.input):
        fragments = os.path.join(directory, "fragments")
        with progress(fragments, len(form.columns), report):
            request = Request(form, fragments, options.bad_rows)
            rows = ingest(context, options.input, request, options.limit)
        counts = _counts(rows)
        report(f"  {counts['kept']:,} rows parsed; writing shards")
        conversion = Conversion(records, None)
        if scale:
            divisor = scale(np.max([f.maxima for f in rows.fragments], axis=0))
            conversion = Conversion(
                ShardForm(np.dtype(DTYPE), partial(divided, divisor=divisor), len(divisor)), divisor
            )
        target = os.path.join(directory, "out")
        made = _write(context, form, options, rows, conversion, target)
        publish(target, options.out)
    counts |= made | {"seconds": round(time.monotonic() - begun, 3)}
    report(_summary(form, options, counts))
    return counts


def _check_paths(options: Options) -> None:
    """Find the common mistakes before Spark takes seconds to start."""
    check_input(options.input, "check the path, or write the data set with riprap prep synth")
    check_out(options.out)


def _counts(rows: Rows) -> dict[str, Any]:
    dropped = sum((fragment.dropped for fragment in rows.fragments), Counter())
    read = sum(fragment.lines for fragment in rows.fragments)
    kept = sum(fragment.kept for fragment in rows.fragments)
    assert read == kept + dropped.total(), f"{read} rows read, {kept} kept, but {dropped.total()} dropped"
    if kept == 0:
        why = f"all {read:,} rows were dropped: {dict(dropped)}" if read else "the input is empty"
        raise PrepError(f"no row is left: {why}", "check that the input is in the data set's raw format")
    return {"read": read, "kept": kept, "dropped": dict(sorted(dropped.items()))}


def _write(
    context: SparkContext, form: RowFormat, options: Options, rows: Rows, conversion: Conversion, target: str
) -> dict[str, Any]:
    sources = tuple(Source(fragment.path, fragment.kept) for fragment in rows.fragments)
    dealing = Dealing(options.holdout, options.seed, options.shard_rows)
    fields = _manifest_fields(form, options, rows, conversion)
    return write_parts(context, sources, len(form.columns), dealing, conversion.form, target, fields)


def _manifest_fields(form: RowFormat, options: Options, rows: Rows, conversion: Conversion) -> dict[str, Any]:
    records, divisor = conversion
    shape: dict[str, Any] = {"columns": list(form.columns), "label": form.label}
    if records is not None and not records.columns:
        shape = record_fields(records.dtype)
    return {
        "dataset": form.dataset,
        **shape,
        "source": {"input": options.input, "files": [local_name(file) for file in rows.files]},
        "counts": _counts(rows),
        "made_with": {
            "holdout": options.holdout,
            "seed": options.seed,
            "limit": options.limit,
            "bad_rows": options.bad_rows,
            **options.settings,
            "divided_by": None if divisor is None else dict(zip(form.columns, divisor.tolist())),
        },
    }


def _summary(form: RowFormat, options: Options, counts: dict[str, Any]) -> str:
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in counts["dropped"].items()) or "none"
    parts = ", ".join(f"{rows:,} {part}" for part, rows in counts["rows"].items())
    return (
        f"{form.dataset}: {counts['read']:,} rows read, {counts['kept']:,} kept, dropped: {dropped}\n"
        f"  wrote {parts} rows in {counts['shards']} shards to {options.out} in {counts['seconds']:.1f} s"
    )
