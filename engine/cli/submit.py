"""`riprap submit`: a job for a cluster that runs already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.engine.cli.options import (
    begun_from,
    fault_option,
    faults_file_option,
    from_option,
    json_option,
    no_verify_option,
    out_option,
    set_option,
    zookeeper_option,
)

if TYPE_CHECKING:
    from riprap.controller.client import Client
    from riprap.engine.run.cluster_start import ClusterStart


@click.command("submit")
@click.argument("topology", type=click.Path(), required=False)
@set_option
@fault_option
@faults_file_option
@out_option
@from_option
@click.option("--resume", metavar="JOB", help="Go on with a job that ended before it was complete.")
@zookeeper_option
@no_verify_option
@json_option
def command(
    topology: str | None,
    sets: tuple[str, ...],
    faults: tuple[str, ...],
    faults_file: str | None,
    out: str | None,
    start_from: str | None,
    resume: str | None,
    zookeeper: str | None,
    no_verify: bool,
    as_json: bool,
) -> None:
    """Submit a topology to a running cluster, and return at once.

    With --resume a job that failed or was cancelled goes on from its last durable epoch, as `riprap run --resume` does;
    JOB is its name, or its run directory. Faults are those of `riprap run` (see there), but hit workers, and hosts
    with all their workers; the controller orders them and the agents carry them out.

    \b
    Example:
      riprap submit configs/kmeans_higgs.yaml --set input.repeat=10
      riprap status kmeans_higgs
      riprap submit --resume kmeans_higgs
    """
    from riprap.engine.run.cluster_start import check_faults, check_name_is_free, on_cluster, submit_anew
    from riprap.engine.run.preflight import check_job
    from riprap.engine.services.cluster import open_client
    from riprap.engine.services.state import find_backups

    if resume is None and topology is None:
        raise ConfigError("there is nothing to submit", "name a TOPOLOGY, or a job with --resume")
    sets = (*sets, *begun_from(start_from))
    if resume is not None and (topology or sets or out):
        raise ConfigError("--resume goes on with a job as it began", "leave out TOPOLOGY, --set, --from and --out")
    verify = not no_verify
    job = check_job(topology, sets, faults, faults_file, verify=verify) if topology is not None else None
    if job is not None:
        check_faults(job)
    with open_client(zookeeper) as client:
        if job is not None:
            check_name_is_free(job.topology.job, client)
            start: ClusterStart | None = submit_anew(on_cluster(job, client), out, find_backups(zookeeper))
        else:
            start = _again(str(resume), client, faults, faults_file, verify)
        if start is not None:
            hand_in(start, client, zookeeper, as_json)


def _again(
    name: str, client: Client, faults: Sequence[str], faults_file: str | None, verify: bool
) -> ClusterStart | None:
    """The next attempt at a job; None, and a note to the user, when it has completed."""
    from riprap.engine.run.cluster_start import find_run_directory, submit_again
    from riprap.engine.run_directory.directory import read_summary

    run_dir = find_run_directory(name, client)
    if (summary := read_summary(run_dir)).get("completed"):
        click.echo(f"job {summary['job']} has completed; there is nothing to go on with", err=True)
        return None
    return submit_again(run_dir, client, faults, faults_file, verify)


def hand_in(start: ClusterStart, client: Client, zookeeper: str | None, as_json: bool) -> None:
    """Submit a job that was checked, and print the place of its traces."""
    from riprap.engine.run.cautions import tell

    job, run_dir = start.job.topology.job, str(start.run_dir)
    if start.unprotected:
        click.echo(f"note: a lost sink would end this job: {start.unprotected}", err=True)
    tell(start.job.cautions)
    client.submit(job, start.submission(zookeeper), run_dir)
    if as_json:
        click.echo(to_json({"job": job, "run_dir": run_dir}))
    else:
        click.echo(f"submitted {job}; its traces go to {run_dir}")
