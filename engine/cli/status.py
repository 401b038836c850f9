"""`riprap status`: the jobs of a cluster, or the workers of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option, zookeeper_option


@click.command("status")
@click.argument("job", required=False)
@zookeeper_option
@json_option
def command(job: str | None, zookeeper: str | None, as_json: bool) -> None:
    """Show all jobs, or one job's workers and failures.

    \b
    Example:
      riprap status
      riprap status svm_higgs --json
    """
    from riprap.engine.services.cluster import open_client

    with open_client(zookeeper) as client:
        answer: Any = client.status(job) if job else client.jobs()
    if as_json:
        click.echo(to_json(answer))
    elif job:
        click.echo(job_text(answer))
    else:
        click.echo(jobs_text(answer))


def jobs_text(jobs: Mapping[str, str]) -> str:
    """One line a job."""
    return "\n".join(f"{name:<32} {phase}" for name, phase in sorted(jobs.items())) or "no jobs"


def job_text(status: Mapping[str, Any]) -> str:
    """The job's phase, then a line a worker, a line a host where there are several or they have labels, and a line a
    failure."""
    from riprap.engine.run.replicas import roles

    role = roles(status["workers"])
    lines = [f"{status['job']}  {status['phase']}  {status.get('run_dir', '')}"]
    if status.get("error"):
        lines.append(f"  {status['error']}\n  remedy: {status.get('remedy') or 'see its logs'}")
    for name, worker in status["workers"].items():
        if worker["state"] == "off":
            continue
        lines.append(
            f"  {name:<16} #{worker['incarnation']:<3} {worker['state']:<9} pid {worker['pid'] or '-':<8}"
            f" epoch {worker['epoch']:<8} {worker['items']:>14,} items  {worker['restarts']} restarts"
            + (f"  {role[name]}" if name in role else "")
            + (f"  in {worker['call']} for {worker['call_ms'] / 1000:.0f} s" if worker.get("call") else "")
        )
    lines += _host_lines(status)
    lines += [f"  placement is not as asked for: {wrong}" for wrong in status.get("placement_unsatisfied") or ()]
    for failure in status.get("failures") or ():
        lines.append(f"  lost {failure['worker']}#{failure['incarnation']}: {failure['reason']}")
    return "\n".join(lines)


def _host_lines(status: Mapping[str, Any]) -> list[str]:
    from riprap.controller.labels import in_words

    hosts: Mapping[str, Mapping[str, str]] = status.get("hosts") or {}
    if len(hosts) < 2 and not any(in_words(labels) for labels in hosts.values()):
        return []
    lines = []
    for host, labels in hosts.items():
        workers = [name for name, one in status["workers"].items() if one["host"] == host and one["state"] != "off"]
        lines.append(f"  on {host:<13} {in_words(labels) or '-':<24} {' '.join(workers) or 'no worker'}")
    return lines
