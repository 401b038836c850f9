"""`riprap cancel`: ends a job before its stream ends."""

from __future__ import annotations

import click

from riprap.engine.cli.options import zookeeper_option


@click.command("cancel")
@click.argument("job")
@zookeeper_option
def command(job: str, zookeeper: str | None) -> None:
    """End a job before its stream ends; what is committed stays.

    \b
    Example:
      riprap cancel svm_higgs
    """
    from riprap.engine.services.cluster import open_client

    with open_client(zookeeper) as client:
        ended = client.cancel(job)
    told = f"job {job} is {ended} already" if ended else f"cancelling {job}; watch it with `riprap status {job}`"
    click.echo(told)
