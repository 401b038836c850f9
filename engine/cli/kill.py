"""`riprap kill`: SIGKILL for one worker of a job, as a test of its fault tolerance."""

from __future__ import annotations

import click

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.engine.cli.options import zookeeper_option


@click.command("kill")
@click.argument("job")
@click.argument("worker")
@zookeeper_option
def command(job: str, worker: str, zookeeper: str | None) -> None:
    """Kill a worker of a job; the controller notices and replaces it.

    \b
    Example:
      riprap kill svm_higgs processor.3
    """
    from riprap.engine.services.cluster import open_client

    try:
        target = WorkerId.parse(worker)
    except ValueError as error:
        raise ConfigError(str(error), "see `riprap status JOB`") from error
    with open_client(zookeeper) as client:
        client.kill(job, str(target))
    click.echo(f"killed {target} of {job}")
