"""`riprap checkpoints`: the checkpoints of a job, with the duration of each and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option, zookeeper_option

if TYPE_CHECKING:
    from riprap.engine.run_directory.checkpoints import Checkpoint

SHOWN = 20


@click.command("checkpoints")
@click.argument("job", metavar="JOB|RUNDIR")
@zookeeper_option
@json_option
def command(job: str, zookeeper: str | None, as_json: bool) -> None:
    """Show the checkpoints of a job under barriers: the last ones on the screen, all that are kept with --json.

    \b
    Example:
      riprap checkpoints runs/words-20260101-120000
      riprap checkpoints words --json
    """
    from riprap.engine.run_directory.checkpoints import read_checkpoints
    from riprap.engine.run_directory.directory import TOPOLOGY
    from riprap.engine.services.cluster import open_client

    run_dir = Path(job)
    if not (run_dir / TOPOLOGY).is_file():
        with open_client(zookeeper) as client:
            run_dir = Path(client.status(job)["run_dir"])
        if not run_dir.is_dir():
            raise ConfigError(f"the run directory {run_dir} of job {job} is not on this host", "ask there")
    checkpoints = read_checkpoints(run_dir)
    if as_json:
        click.echo(to_json([one.fields() for one in checkpoints]))
    else:
        click.echo(checkpoints_text(checkpoints))


def checkpoints_text(checkpoints: Sequence[Checkpoint]) -> str:
    """A line each, the newest last."""
    head = f"{'checkpoint':>10}  {'state':<9} {'ms':>8} {'aligned':>8} {'copy':>8} {'bytes':>14}  slowest"
    lines = [
        f"{one.number:>10}  {one.state:<9} {_ms(one.duration_ms)} {_ms(one.aligned_ms)} {_ms(one.copy_ms)}"
        f" {'-' if one.nbytes is None else format(one.nbytes, ','):>14}  {one.slowest or one.reason}"
        for one in checkpoints[-SHOWN:]
    ]
    return "\n".join([head, *lines]) if lines else "no checkpoints"


def _ms(value: float | None) -> str:
    return f"{'-' if value is None else format(value, ',.1f'):>8}"
