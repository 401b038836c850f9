"""`riprap kill`: SIGKILL for a worker of a job, or many at once, as a test of its fault tolerance."""

from __future__ import annotations

import click

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.engine.cli.options import zookeeper_option


@click.command("kill")
@click.argument("job")
@click.argument("target")
@zookeeper_option
def command(job: str, target: str, zookeeper: str | None) -> None:
    """Kill a worker of a job; the controller notices and replaces it.

    TARGET may also be stage:NAME, primaries (all workers), host:NAME or domain:LABEL=VALUE. The last two kill the
    agents of these hosts with all that runs there, of other jobs too; nobody but you starts those of `riprap agent`
    again.

    \b
    Example:
      riprap kill svm_higgs processor.3
      riprap kill svm_higgs domain:rack=r1
    """
    from riprap.controller.victims import GROUPS, is_group
    from riprap.engine.services.cluster import open_client

    try:
        is_group(target) or WorkerId.parse(target)
    except ValueError as error:
        forms = ", ".join(GROUPS)
        raise ConfigError(f"{error}, or one of {forms}", "see `riprap status JOB`") from error
    with open_client(zookeeper) as client:
        killed = client.kill(job, target)
    workers, hosts = killed.get("workers", [target]), killed.get("hosts", [])
    click.echo(
        f"killed {', '.join(workers) or 'no worker'} of {job}" + "".join(f", the agent of {one}" for one in hosts)
    )
