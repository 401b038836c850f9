"""`riprap run`: everything on this machine, embedded ZooKeeper included, until the job ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from codec.errors import JobFailed
from engine.cli.options import json_option, set_option


@click.command("run")
@click.argument("topology", type=click.Path())
@set_option
@click.option("--fault", "faults", multiple=True, metavar="SPEC", help="Inject a fault; may be repeated.")
@click.option("--faults", "faults_file", metavar="FILE.yaml", help="Inject the faults listed in a file.")
@click.option("--out", metavar="DIR", help="The run directory (default: runs/JOB-TIME).")
@click.option("--zookeeper", metavar="HOST:PORT", help="Use this ensemble, not an embedded server.")
@click.option("--standby", type=click.IntRange(0, 4), default=0, show_default=True, help="Standby controllers.")
@json_option
def command(
    topology: str,
    sets: tuple[str, ...],
    faults: tuple[str, ...],
    faults_file: str | None,
    out: str | None,
    zookeeper: str | None,
    standby: int,
    as_json: bool,
) -> None:
    """Run a topology on this machine, from start to summary.

    \b
    Example:
      riprap run configs/logistic_regression_higgs.yaml \\
          --set fault_tolerance.k=5 --set fault_tolerance.r=1 --fault kill:processor.2@50%

    \b
    A fault is ACTION:TARGET@WHEN[,for=DURATION][,cpu=FRACTION]
      ACTION   kill, stop (and continue after `for`), slow (a fraction of CPU), cut (no traffic)
      TARGET   a worker such as processor.2, random:STAGE, agent, controller, zookeeper
      WHEN     epoch=N, items=N, seconds=S, N%

    Exit code: 0 the job completed; 1 it failed; 2 nothing was started, for the command or the configuration is wrong;
    130 interrupted, after a clean stop.
    """
    from engine.cli.preflight import check_job
    from engine.cli.run_directory import make_run_directory

    job = check_job(topology, sets, faults, faults_file)
    run_dir = make_run_directory(out, job.topology.job, job.topology.to_dict())
    session, summary = _run(job, run_dir, zookeeper, standby)
    click.echo(json.dumps(summary, indent=2, default=str) if as_json else _text(summary, run_dir))
    if not summary["completed"]:
        status = session.status
        raise JobFailed(
            f"job {job.topology.job} ended {status.get('phase')}: {status.get('error') or 'no reason was given'}",
            status.get("remedy") or f"see {run_dir}/logs, then run it again",
        )


def _run(job: Any, run_dir: Path, zookeeper: str | None, standby: int) -> tuple[Any, dict[str, Any]]:
    from engine.cli.display import make_display
    from engine.cli.session import Session

    session = Session(job, run_dir, make_display(), zookeeper, standby)
    return session, session.run()


def _text(summary: dict[str, Any], run_dir: Path) -> str:
    from engine.cli.report import report

    return report(summary, run_dir)
