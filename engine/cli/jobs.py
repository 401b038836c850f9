"""`riprap jobs`: the jobs that a cluster knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option, zookeeper_option


@click.command("jobs")
@zookeeper_option
@json_option
def command(zookeeper: str | None, as_json: bool) -> None:
    """List all jobs with their state and run directory, and how to go on with those that did not complete.

    \b
    Example:
      riprap jobs
      riprap jobs --json
    """
    from riprap.engine.services.cluster import open_client

    with open_client(zookeeper) as client:
        jobs = sorted(client.list_jobs(), key=lambda job: str(job["job"]))
    click.echo(to_json(jobs) if as_json else jobs_text(jobs))


def jobs_text(jobs: Sequence[Mapping[str, Any]]) -> str:
    """One line a job, and one more under a job that can be resumed."""
    lines = []
    for job in jobs:
        lines.append(f"{job['job']:<32} {job['phase']:<10} {job['run_dir']}")
        if job["resume"]:
            lines.append(f"    go on where it ended with: {job['resume']}")
    return "\n".join(lines) or "no jobs"
