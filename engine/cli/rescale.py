"""`riprap rescale`: other numbers of tasks for a job that runs."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import click

from riprap.codec.errors import ConfigError, RiprapError
from riprap.engine.cli.options import no_verify_option, out_option, zookeeper_option

TIMEOUT_S = 300.0
"""For a checkpoint to be whole, and for the job's workers to end."""
ANEW = ("start_from=null",)
"""The savepoint that it began from itself says nothing about those that its tasks make now."""
POLL_S = 0.01
"""From one look for their end to the next: meanwhile nobody works."""
DIGITS_MAX = 9
"""More are no number of tasks, and Python takes thousands of them for no number."""


@click.command("rescale")
@click.argument("job")
@click.argument("stages", metavar="STAGE=N...", nargs=-1, required=True)
@out_option
@zookeeper_option
@no_verify_option
def command(job: str, stages: tuple[str, ...], out: str | None, zookeeper: str | None, no_verify: bool) -> None:
    """Give the stages of a running job of a cluster other numbers of tasks.

    The job ends with a savepoint, in its run directory, and begins from it anew, in a run directory of its own: what
    was announced stands, and nothing is announced twice. The next one says where it began from, in its topology.
    All that can be checked is checked before anything is stopped; should the next one not begin nevertheless, the
    command that begins it is named. Where feedback was on its way, the job goes on with the tasks that it had, and
    the exit code is 1. A job that has these numbers already is left alone.

    \b
    Example:
      riprap rescale word_count count=4
    """
    from riprap.engine.cli.savepoint import make_savepoint
    from riprap.engine.cli.submit import hand_in
    from riprap.engine.run.cluster_start import check_is_of_cluster, submit_anew
    from riprap.engine.run.preflight import check_job
    from riprap.engine.run.savepoint_checks import check_moving, check_rescaling
    from riprap.engine.run_directory.directory import TOPOLOGY, check_is_free
    from riprap.engine.services.cluster import open_client
    from riprap.engine.services.state import find_backups

    sets = [f"stages.{name}.parallelism={number}" for name, number in map(_parsed, stages)]
    with open_client(zookeeper) as client:
        run_dir = Path(client.status(job)["run_dir"])  # of the job that runs, whatever lies here under its name
        check_is_of_cluster(run_dir)
        topology = str(run_dir / TOPOLOGY)
        before = check_job(topology, ANEW, verify=False)
        checked = check_job(topology, [*ANEW, *sets], verify=not no_verify)
        check_rescaling(before.topology, checked.topology)
        if checked.topology.shape.parallelism == before.topology.shape.parallelism:
            click.echo(f"{job} has {', '.join(stages)} already; nothing was stopped")
            return
        if out is not None:
            check_is_free(Path(out))
        servers, path = find_backups(zookeeper), run_dir / "savepoints" / time.strftime("%Y%m%d-%H%M%S")
        savepoint = make_savepoint(client, job, path, stop=True, timeout_s=TIMEOUT_S)
        refused: ConfigError | None = None
        try:
            check_moving(checked.topology, savepoint)
        except ConfigError as error:
            checked, sets, refused = before, [], error
        try:
            start = submit_anew(checked.begun_from(savepoint), out, servers)
            client.wait(job, TIMEOUT_S, poll_s=POLL_S)
            hand_in(start, client, zookeeper, as_json=False)
        except RiprapError as error:
            there = ["--zookeeper", zookeeper] if zookeeper else []
            set_again = [word for change in sets for word in ("--set", change)]
            words = ["riprap", "submit", topology, "--from", str(path), *set_again, *there]
            raise RiprapError(
                f"{job} has ended with the savepoint {path}, and the next one has not begun: {error.args[0]}",
                f"once that is mended, begin it with: {shlex.join(words)}",
            ) from error
        if refused is not None:
            raise RiprapError(f"{job} goes on with the tasks that it had: {refused.args[0]}", "try once more")


def _parsed(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or len(number) > DIGITS_MAX or not int(number):
        raise ConfigError(f"{text!r} is no stage with a number of tasks", "write STAGE=N, as in count=4")
    return name, int(number)
