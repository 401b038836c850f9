"""`riprap run`: everything on this machine, embedded ZooKeeper included, until the job ends."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.codec.start import importing
from riprap.engine.cli.options import (
    begun_from,
    fault_option,
    faults_file_option,
    from_option,
    hosts_options,
    json_option,
    no_verify_option,
    out_option,
    own_ensemble_option,
    set_option,
    standby_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from riprap.engine.run.start import Start
    from riprap.engine.run.until import Until
    from riprap.engine.services.hosts import OwnHost


@click.command("run")
@click.argument("topology", type=click.Path(), required=False)
@set_option
@fault_option
@faults_file_option
@out_option
@from_option
@click.option("--resume", metavar="RUNDIR", help="Go on with a job that did not complete, in its run directory.")
@own_ensemble_option
@standby_option(0)
@no_verify_option
@click.option("--profile", is_flag=True, help="Draw where the time of each thread goes: RUNDIR/profile.html.")
@hosts_options
@click.option("--until", metavar="items=N|seconds=S", help="Drain a stream without end then; it ends a little later.")
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
    standby: int,
    no_verify: bool,
    profile: bool,
    hosts: Sequence[OwnHost],
    until: str | None,
    as_json: bool,
) -> None:
    """Run a topology on this machine, from start to summary.

    \b
    Example:
      riprap run configs/logistic_regression_higgs.yaml \\
          --set fault_tolerance.k=5 --set fault_tolerance.r=1 --fault kill:processor.2@50%
      riprap run --resume runs/logistic_regression_higgs-20260101-120000
      riprap run configs/word_count.yaml --profile --out runs/words   # then open runs/words/profile.html
      riprap run configs/word_count.yaml --from savepoints/words --set stages.count.parallelism=4
      riprap run configs/word_count.yaml --set fault_tolerance.scheme=mini_batch \\
          --hosts 4 --domains rack=2 --fault kill:domain:rack=rack-1@50%

    \b
    A fault is ACTION:TARGET@WHEN[,for=DURATION][,cpu=FRACTION]
      ACTION   kill, stop (and continue after `for`), slow (a fraction of CPU)
      TARGET   a worker such as processor.2, random:STAGE, agent, controller, zookeeper, backup;
               host:NAME or domain:LABEL=VALUE (their agents with all workers), stage:NAME, primaries (all workers)
      WHEN     epoch=N, items=N, seconds=S, N%

    --hosts has this machine act as several, host-1, host-2, ..., with labels dealt round (rack=rack-1, rack=rack-2), to
    try out the loss of a host or of a failure domain (docs/domains.md).

    Whatever ended a job before it completed, --resume goes on with it from the last epoch that was made durable, and
    gives the model that an undisturbed run would have given. A job that has completed is only summed up again.

    Exit code: 0 the job completed; 1 it failed; 2 nothing was started, for the command or the configuration is wrong;
    130 interrupted, after a clean stop.
    """
    with importing():
        from riprap.engine.run.start import start_again, start_anew
        from riprap.engine.run.until import Until

    ends, changes = Until.parse(until) if until else None, (*sets, *begun_from(start_from))
    if resume is None:
        if topology is None:
            raise ConfigError("there is nothing to run", "name a TOPOLOGY, or a run directory with --resume")
        start = start_anew(topology, changes, faults, faults_file, out, not no_verify, hosts)
    else:
        _check_alone(topology, sets, start_from, out, no_verify)
        if _is_over(run_dir := Path(resume).resolve(), as_json):
            return
        start = start_again(run_dir, faults, faults_file, hosts)
    _check_end(start, ends)
    _run(replace(start, profile=profile, until=ends), zookeeper, standby, as_json)


def _is_over(run_dir: Path, as_json: bool) -> bool:
    """True for a job that has completed; its summary is printed once more."""
    from riprap.engine.run_directory.directory import read_summary

    summary = read_summary(run_dir)
    if not summary.get("completed"):
        return False
    click.echo(f"job {summary['job']} has completed; there is nothing to go on with", err=True)
    _print(summary, run_dir, as_json)
    return True


def _check_end(start: Start, ends: Until | None) -> None:
    """A stream that ends by itself is not drained before."""
    if ends is not None and start.job.items is not None:
        start.lock.close()
        raise ConfigError(
            "--until is for streams without end", "set input.repeat to forever, or input.follow; or use input.limit"
        )


def _check_alone(
    topology: str | None, sets: tuple[str, ...], start_from: str | None, out: str | None, no_verify: bool
) -> None:
    """A job goes on as it began: in its directory, by the topology that was resolved there."""
    given = {"a TOPOLOGY": topology, "--set": sets, "--from": start_from, "--out": out, "--no-verify": no_verify}
    for name, value in given.items():
        if value:
            raise ConfigError(
                f"--resume goes on with a job as it began, so {name} cannot be given with it",
                f"leave out {name}, or start another job",
            )


def _run(start: Start, zookeeper: str | None, standby: int, as_json: bool) -> None:
    """Run to the end and sum up. The error of a job that did not complete says how to go on with it."""
    with importing():
        from riprap.engine.run.cautions import stands, tell
        from riprap.engine.run.display import make_display
        from riprap.engine.run.execute import resume_of, run_to_end
        from riprap.engine.run_directory.directory import read_summary

    if start.job.unprotected:
        reason = start.job.unprotected
        click.echo(f"note: a lost sink would end this job, and it could not be resumed: {reason}", err=True)
    tell(start.job.cautions)
    click.echo(f"run directory: {start.run_dir}", err=True)  # whoever loses this process needs it for --resume
    try:
        summary, failure = run_to_end(start, make_display(sys.stderr), zookeeper, standby)
    except KeyboardInterrupt:
        summary, failure = read_summary(start.run_dir), None
        if not summary.get("completed"):  # else it came when nothing was left to cancel
            if resume := resume_of(start, zookeeper):
                click.echo(f"go on where it ended with: {resume}", err=True)
            raise
    _print(summary, start.run_dir, as_json)
    tell(stands(start.run_dir))
    if failure is not None:
        raise failure


def _print(summary: dict[str, Any], run_dir: Path, as_json: bool) -> None:
    from riprap.engine.run.report import report

    if as_json:
        for fault, why in summary.get("faults_not_injected", {}).items():
            click.echo(f"note: the fault {fault} did not happen: {why}", err=True)
    click.echo(to_json(summary, indent=2) if as_json else report(summary, run_dir))
