"""`riprap prep`: raw data sets to shards, and synthetic raw files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from riprap.engine.cli.options import FiniteRange, json_option
from riprap.engine.cli.prep_job import mending, prepare
from riprap.engine.cli.prep_table import command as table

F = TypeVar("F", bound=Callable[..., Any])
ONLY_OF = {"city": "pcap", "stream": "roads"}
"""Options of `synth` that one data set alone has."""


@click.group("prep")
def command() -> None:
    """Turn raw data into shards that jobs read.

    \b
    Example:
      riprap prep synth higgs HIGGS.csv.gz --rows 2000000
      riprap prep higgs HIGGS.csv.gz --out .data/higgs --holdout 0.1
      riprap prep table flights.csv --label late --out .data/flights
    """


command.add_command(table)


def _shard_options(function: F) -> F:
    """The options that all data sets share."""
    for option in (
        json_option,
        click.option("--seed", type=int, default=1, show_default=True, help="Decides which rows are held back."),
        click.option("--shard-rows", type=click.IntRange(min=1), default=250_000, show_default=True),
        click.option("--limit", type=click.IntRange(min=1), help="Read this many rows only."),
        click.option(
            "--bad-rows",
            type=click.Choice(["fail", "drop", "keep"]),
            default="fail",
            show_default=True,
            help="Rows that cannot be read, or hold NaN or infinity; keep takes the latter.",
        ),
        click.option(
            "--holdout",
            type=FiniteRange(0, 1, max_open=True),
            default=0.0,
            metavar="FRACTION",
            help="Hold back this fraction of the rows: writes OUT/train and OUT/test.",
        ),
        click.option("--out", required=True, metavar="DIR", help="The directory to write; it must not exist yet."),
        click.argument("input"),
    ):
        function = option(function)
    return function


@command.command()
@_shard_options
def higgs(as_json: bool, **options: Any) -> None:
    """Shards from HIGGS.csv[.gz] (label and 28 features); INPUT is a path, a glob or a URL.

    \b
    Example:
      riprap prep higgs HIGGS.csv.gz --out .data/higgs --holdout 0.1
    """
    from riprap.prep_spark.higgs import run

    prepare(run, as_json, options)


@command.command()
@click.option("--missing", type=click.Choice(["keep", "drop"]), default="keep", show_default=True)
@click.option("--scale", type=click.Choice(["paper", "auto"]), default="paper", show_default=True)
@_shard_options
def kdd12(as_json: bool, **options: Any) -> None:
    """Shards from KDD Cup 2012 track 2 (training.txt, 12 columns); INPUT is a path, a glob or a URL.

    \b
    Example:
      riprap prep kdd12 training.txt --out .data/kdd12 --missing drop
    """
    from riprap.prep_spark.kdd12 import run

    prepare(run, as_json, options)


@command.command("kdd12-sparse")
@click.option("--missing", type=click.Choice(["keep", "drop"]), default="keep", show_default=True)
@click.option("--buckets", type=int, default=1 << 20, show_default=True, help="How many weights a model has.")
@_shard_options
def kdd12_sparse(as_json: bool, **options: Any) -> None:
    """Records of hashed one-hot features from KDD Cup 2012 track 2; INPUT is a path, a glob or a URL.

    \b
    Example:
      riprap prep kdd12-sparse training.txt --out .data/kdd12-sparse --missing drop
    """
    from riprap.prep_spark.kdd12_sparse import run

    prepare(run, as_json, options)


def _file_options(shard_rows: int) -> Callable[[F], F]:
    """The options of the data sets that come in many files, and are no rows of numbers."""

    def decorate(function: F) -> F:
        for option in (
            json_option,
            click.option("--shard-rows", type=click.IntRange(min=1), default=shard_rows, show_default=True),
            click.option("--out", required=True, metavar="DIR", help="The directory to write; it must not exist yet."),
            click.argument("inputs", nargs=-1, required=True, metavar="FILES..."),
        ):
            function = option(function)
        return function

    return decorate


@command.command()
@click.option("--split", type=click.IntRange(min=1), default=1, show_default=True, help="Deal the files to N streams.")
@_file_options(shard_rows=250_000)
def packets(as_json: bool, **options: Any) -> None:
    """Records of IP packets, ordered by time, from captures (pcap, pcapng, gzip): paths, globs, URLs.

    \b
    Example:
      riprap prep packets chicago.pcap.gz sanjose.pcap.gz --split 2 --out .data/packets
    """
    from riprap.prep_spark.packets import run

    prepare(run, as_json, options)


@command.command()
@_file_options(shard_rows=1_000_000)
def text(as_json: bool, **options: Any) -> None:
    """Lines of text files, plain or gzip: paths, globs, URLs.

    \b
    Example:
      riprap prep text 'books/*.txt.gz' --out .data/books
    """
    from riprap.prep_spark.text import run

    prepare(run, as_json, options)


@command.command()
@click.option("--lengths", is_flag=True, help="The third column is each edge's length.")
@click.option(
    "--bad-rows",
    type=click.Choice(["fail", "drop"]),
    default="fail",
    show_default=True,
    help="Lines that are no edge.",
)
@_file_options(shard_rows=1_000_000)
def graph(as_json: bool, **options: Any) -> None:
    """Edges from lists of two columns or more, plain or gzip: paths, globs, URLs.

    \b
    Example:
      riprap prep graph soc-LiveJournal1.txt.gz --out .data/edges
    """
    from riprap.prep_spark.graph import run

    prepare(run, as_json, options)


@command.command()
@click.argument(
    "dataset", type=click.Choice(["higgs", "kdd12", "pcap", "text", "graph", "ratings", "worldcup", "roads"])
)
@click.argument("path")
@click.option("--rows", type=click.IntRange(min=1), required=True, help="How many rows to write.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The same seed writes the same bytes."
)
@click.option("--city", type=click.IntRange(0, 1), help="pcap: which of two streams that can be joined.")
@click.option("--stream", type=click.Choice(["locations", "reports"]), help="roads: which of its two streams.")
def synth(dataset: str, path: str, rows: int, seed: int, city: int | None, stream: str | None) -> None:
    """Write a synthetic raw file in a data set's own format (compressed when PATH ends in .gz).

    \b
    Example:
      riprap prep synth higgs HIGGS.csv.gz --rows 2000000
    """
    from riprap.prep_spark import synth as synthesizer

    write: Callable[..., Any] = getattr(synthesizer, dataset)
    given = {name: value for name, value in (("city", city), ("stream", stream)) if value is not None}
    for name in given:
        if dataset != ONLY_OF[name]:
            raise click.UsageError(f"--{name} is for {ONLY_OF[name]}, not for {dataset}")
    mending(lambda: write(path, rows, seed=seed, **given))
    click.echo(f"wrote {rows:,} rows to {path}")
