"""`riprap drain`: brings a stream without end to its end."""

from __future__ import annotations

import click

from riprap.engine.cli.options import zookeeper_option


@click.command("drain")
@click.argument("job")
@zookeeper_option
def command(job: str, zookeeper: str | None) -> None:
    """Bring a stream without end to its end: the job commits all that it has read, and completes.

    The stream ends with the last window that its sources were allowed, which may take some seconds of reading.

    \b
    Example:
      riprap drain word_count
    """
    from riprap.engine.services.cluster import open_client

    with open_client(zookeeper) as client:
        ended = client.drain(job)
    told = f"job {job} is {ended} already" if ended else f"draining {job}; watch it with `riprap status {job}`"
    click.echo(told)
