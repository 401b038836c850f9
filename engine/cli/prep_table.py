"""`riprap prep table`: one's own data, in any format that Spark reads, to shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from riprap.codec.errors import ConfigError
from riprap.engine.cli.options import FiniteRange, json_option
from riprap.engine.cli.prep_job import prepare

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("csv", "parquet", "json", "libsvm", "avro", "delta", "table")


def _names(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """An option that may be repeated, or have several names with commas."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _columns(option: str, text: str) -> Callable[[F], F]:
    return click.option(option, multiple=True, metavar="COLUMN[,...]", callback=_names, help=text)


def _column_options(function: F) -> F:
    """The options that choose the columns, and their treatment."""
    for option in (
        click.option("--like", metavar="DIR", help="Treat the columns as those of shards made before."),
        click.option("--order", metavar="COLUMN", help="Sort the rows by a column."),
        click.option("--one-hot", is_flag=True, help="One 0/1 column a category, however many they are."),
        click.option("--hash", "buckets", type=click.IntRange(min=1), metavar="BUCKETS",
                     help="Hash categories; writes records of sparse features."),
        click.option("--categories-max", type=click.IntRange(min=1), default=100_000, show_default=True),
        click.option("--scale", type=click.Choice(["none", "standard", "minmax"]), default="none", show_default=True),
        click.option("--na", multiple=True, metavar="VALUE", help="What stands for a missing value; may be repeated."),
        click.option("--missing", type=click.Choice(["fail", "drop", "mean", "flag"]), default="fail",
                     show_default=True, help="Rows with a missing value; flag: the mean, and a column NAME_missing."),
        _columns("--date", "Take as dates: seconds since 1970."),
        _columns("--categorical", "Take as categories."),
        _columns("--numeric", "Take as numbers."),
        _columns("--features", "The columns to train on (default: all but the label)."),
        click.option("--label", default="", metavar="COLUMN", help="The column to learn; libsvm has it first."),
    ):  # fmt: skip
        function = option(function)
    return function


def _file_options(function: F) -> F:
    """The reading of the input and the dealing out of the output."""
    for option in (
        json_option,
        click.option("--package", "packages", multiple=True, metavar="GROUP:NAME:VERSION", help="A package for Spark."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
        click.option("--master", metavar="URL", help="Spark's master (default: local[*])."),
        click.option("--dry-run", is_flag=True, help="Show what would become of the columns, and write nothing."),
        click.option("--seed", type=int, default=1, show_default=True, help="Decides which rows are held back."),
        click.option("--shard-rows", type=click.IntRange(min=1), default=250_000, show_default=True),
        click.option("--holdout", type=FiniteRange(0, 1, max_open=True), default=0.0, metavar="FRACTION",
                     help="Hold back this fraction of the rows: writes OUT/train and OUT/test."),
        click.option("--bad-rows", type=click.Choice(["fail", "drop"]), default="fail", show_default=True),
        click.option("--zero-based", is_flag=True, help="libsvm: the first index is 0."),
        click.option("--header/--no-header", default=None, help="csv: is the first line a header? (default: it tells)"),
        click.option("--delimiter", metavar="CHARACTER", help="csv: between cells (default: the first line tells)."),
        click.option("--format", type=click.Choice(FORMATS), default="csv", show_default=True),
        click.option("--out", default="", metavar="DIR", help="The directory to write; it must not exist yet."),
        click.argument("input"),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command("table")
@_column_options
@_file_options
def command(
    as_json: bool, conf: tuple[str, ...], packages: tuple[str, ...], master: str | None, na: tuple[str, ...],
    delimiter: str | None, **options: Any,
) -> None:  # fmt: skip
    """Shards from a table: INPUT is a path, a glob or a URL that Spark reads, or the name of a table.

    \b
    Example:
      riprap prep table flights.csv --label late --dry-run
      riprap prep table flights.csv --label late --scale standard --holdout 0.1 --out .data/flights
      riprap prep table new.csv --like .data/flights --out .data/new
    """
    from riprap.prep_spark.table import run

    if not options["out"] and not options["dry_run"]:
        raise click.UsageError("Missing option '--out' (or --dry-run).")
    if na:
        options["na"] = ("", *na)
    options["delimiter"] = "\t" if delimiter == "\\t" else delimiter
    prepare(run, as_json, options | {"settings": spark_settings(master, conf, packages)})


def spark_settings(master: str | None, conf: tuple[str, ...], packages: tuple[str, ...]) -> dict[str, str]:
    """Spark's settings from the options that pass them on. ConfigError for text that is no KEY=VALUE."""
    wrong = [entry for entry in conf if "=" not in entry]
    if wrong:
        raise ConfigError(
            f"--conf {', '.join(wrong)}: expected KEY=VALUE", "for example --conf spark.executor.memory=4g"
        )
    settings = dict(entry.split("=", 1) for entry in conf)
    if packages:
        settings["spark.jars.packages"] = ",".join(packages)
    return settings | ({"spark.master": master} if master else {})
