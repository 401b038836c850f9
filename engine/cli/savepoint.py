"""`riprap savepoint`: a job's state in a directory that other jobs can begin from."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError, RiprapError
from riprap.engine.cli.options import FiniteRange, zookeeper_option

if TYPE_CHECKING:
    from riprap.backupserver.savepoint import Savepoint
    from riprap.controller.client import Client

ASK_AGAIN_S = 2.0
"""The pause between two requests: a leader that is lost forgets them, and one of --stop is forgotten in any case
(`STOP_LEASE_S` of controller/checkpoints.py)."""
LOOK_S = 0.01


@click.command("savepoint")
@click.argument("job")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--timeout",
    type=FiniteRange(0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Give up after so long.",
)
@click.option("--stop", is_flag=True, help="Cancel the job with it: nothing behind it is announced or committed.")
@zookeeper_option
def command(job: str, directory: str, timeout: float, stop: bool, zookeeper: str | None) -> None:
    """Copy the state of a running job into DIRECTORY, from which any job can begin: another version of it, with other
    numbers of tasks, or under another scheme.

    It is a checkpoint whose parts are written there too, whole; the job goes on meanwhile. DIRECTORY is to be empty,
    and on a file system that all hosts of the job share, as run directories are. Jobs under barrier and stop_the_world
    have savepoints.

    \b
    Example:
      riprap savepoint word_count savepoints/words --stop
      riprap submit configs/word_count.yaml --from savepoints/words --set stages.count.parallelism=4
    """
    from riprap.engine.services.cluster import open_client

    path = Path(directory).resolve()
    with open_client(zookeeper) as client:
        savepoint = make_savepoint(client, job, path, stop, timeout)
    savepoint.check()
    click.echo(f"savepoint {path}: checkpoint {savepoint.checkpoint} of {savepoint.job}")


def make_savepoint(client: Client, job: str, path: Path, stop: bool, timeout_s: float) -> Savepoint:
    """A savepoint of a job in a new or empty directory; RiprapError where it is not whole in time. Its parts are not
    read again."""
    was_there = path.exists()
    _make_directory(path)
    try:
        return _await(client, job, path, stop, time.monotonic() + timeout_s)
    except ConfigError:  # refused, so nobody writes there
        if not was_there:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ConfigError(f"{path} is not empty", "name a directory that is, or is not there")
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error}", "name another directory") from error


def _await(client: Client, job: str, path: Path, stop: bool, deadline: float) -> Savepoint:
    """The savepoint, once it is whole; RiprapError after the deadline, or when the job ends first."""
    from riprap.backupserver.savepoint import MANIFEST, read_savepoint

    def is_whole() -> bool:
        return manifest.exists() and manifest.read_bytes().endswith(b"\n")

    manifest, asked_at = path / MANIFEST, 0.0
    while not is_whole():
        now = time.monotonic()
        if now > deadline:
            raise RiprapError(
                f"no checkpoint of {job} was whole in time",
                f"see `riprap checkpoints {job}`, or raise --timeout",
            )
        if now - asked_at > ASK_AGAIN_S:
            try:
                client.savepoint(job, str(path), stop)
            except ConfigError:
                if not is_whole():  # since it was looked for: the job may have ended with it
                    raise
            asked_at = now
        time.sleep(LOOK_S)
    return read_savepoint(path)
