"""`riprap forget`: removes a cluster's records of jobs that have ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError, RiprapError
from riprap.engine.cli.options import zookeeper_option

if TYPE_CHECKING:
    from riprap.controller.client import Client


@click.command("forget")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--completed", is_flag=True, help="All jobs that have completed.")
@click.option("--without-servers", is_flag=True, help="Even if backup servers that are gone for good do not answer.")
@zookeeper_option
def command(jobs: tuple[str, ...], completed: bool, without_servers: bool, zookeeper: str | None) -> None:
    """Remove jobs that have ended: their nodes in ZooKeeper, and what the backup servers keep of them.

    A job that failed or was cancelled cannot be gone on with afterwards. Run directories stay.

    \b
    Example:
      riprap forget svm_higgs
      riprap forget --completed
    """
    from riprap.engine.services.cluster import open_client

    if bool(jobs) == completed:
        raise ConfigError("it is not said what to forget", "name jobs of `riprap jobs`, or give --completed")
    with open_client(zookeeper) as client:
        if completed:
            jobs = tuple(str(job["job"]) for job in client.list_jobs() if job["phase"] == "COMPLETED")
        for job in jobs:
            _forget(client, job, without_servers)
            click.echo(f"forgot {job}")


def _forget(client: Client, job: str, without_servers: bool) -> None:
    """The run directory first, so that nobody goes on with a job whose backups are gone; the nodes last, so that a
    command that was interrupted can be given again."""
    from riprap.controller.phases import ENDED
    from riprap.engine.run_directory.attempts import ATTEMPTS, Attempts
    from riprap.engine.services.forgetting import forget_backups

    status = client.status(job)
    if status["phase"] == "UNREADABLE":
        client.forget(job)
        click.echo(f"job {job} was {status['error']}; its run directory, and what backup servers keep of it, stay")
        return
    if status["phase"] not in ENDED:
        raise ConfigError(f"job {job} is {status['phase']}", f"`riprap cancel {job}` first")
    if (Path(status["run_dir"]) / ATTEMPTS).is_file():
        with Attempts(Path(status["run_dir"])) as attempts:
            attempts.forget()
    silent = forget_backups(status)
    if silent and not without_servers:
        raise RiprapError(
            f"backup servers {', '.join(silent)} did not confirm that they forgot {job}",
            "start them and forget the job again; or give --without-servers, if they are gone for good",
        )
    client.forget(job)
