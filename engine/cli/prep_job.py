"""Runs the Spark job of a `riprap prep` command, and reports its counts or the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from riprap.codec.errors import DataError
from riprap.codec.json_text import to_json


def prepare(run: Callable[..., dict[str, Any]], as_json: bool, options: dict[str, Any]) -> None:
    """Run a job; it reports its progress and its counts by itself, to stderr when stdout is for the JSON."""
    counts = mending(lambda: run(**options, report=lambda line: click.echo(line, err=as_json)))
    if as_json:
        click.echo(to_json(counts))


def mending(work: Callable[[], Any]) -> Any:
    """Turn the error of prep_spark, which imports nothing of ours, into one of ours."""
    from riprap.prep_spark.errors import PrepError

    try:
        return work()
    except PrepError as error:
        raise DataError(str(error.args[0]), error.remedy) from error
