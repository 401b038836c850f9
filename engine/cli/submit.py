"""`riprap submit`: a job for a cluster that runs already."""

from __future__ import annotations

import json
import uuid

import click

from engine.cli.options import json_option, set_option, zookeeper_option


@click.command("submit")
@click.argument("topology", type=click.Path())
@set_option
@click.option("--out", metavar="DIR", help="The run directory (default: runs/JOB-TIME).")
@zookeeper_option
@json_option
def command(topology: str, sets: tuple[str, ...], out: str | None, zookeeper: str | None, as_json: bool) -> None:
    """Submit a topology to a running cluster, and return at once.

    \b
    Example:
      riprap submit configs/kmeans_higgs.yaml --set input.repeat=10
      riprap status kmeans_higgs
    """
    from engine.cli.cluster import open_client
    from engine.cli.preflight import check_job
    from engine.cli.run_directory import make_run_directory
    from engine.cli.state import find_backups

    job = check_job(topology, sets)
    submission = job.submission(uuid.uuid4().hex[:12], 1, find_backups(zookeeper))
    if job.unprotected or not submission["backup"]["servers"]:
        reason = job.unprotected or "the cluster has no backup server"
        click.echo(f"note: a lost sink would end this job: {reason}", err=True)
    with open_client(zookeeper) as client:
        run_dir = make_run_directory(out, job.topology.job, job.topology.to_dict())
        client.submit(job.topology.job, submission, str(run_dir))
    if as_json:
        click.echo(json.dumps({"job": job.topology.job, "run_dir": str(run_dir)}))
    else:
        click.echo(f"submitted {job.topology.job}; its traces go to {run_dir}")
