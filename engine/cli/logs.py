"""`riprap logs`: the output of a job's workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.problems import one_of, suggestion
from riprap.engine.cli.options import zookeeper_option
from riprap.engine.run_directory.directory import LOGS

FOLLOW_EVERY_S = 0.2


@click.command("logs")
@click.argument("job")
@click.argument("worker", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as more is written, until interrupted.")
@zookeeper_option
def command(job: str, worker: str | None, follow: bool, zookeeper: str | None) -> None:
    """Show the logs of a job (by name on a cluster, or by its run directory), of all workers or of one.

    \b
    Example:
      riprap logs runs/svm_higgs-20260101-120000 processor.3
      riprap logs svm_higgs -f
    """
    folder = _logs_folder(job, zookeeper)
    names = {path.stem for path in folder.glob("*.log")}
    if worker and worker not in names and not (follow and _is_worker(worker)):
        raise ConfigError(
            f"{folder} has no log of {worker}; it has {one_of(sorted(names))}", suggestion(worker, names) or "name one"
        )
    tails: dict[Path, LogTail] = {}
    while True:
        for path in sorted(folder.glob(f"{worker or '*'}.log")):
            prefix = "" if worker else f"{path.stem:<14} "
            for line in tails.setdefault(path, LogTail(path)).lines(final=not follow):
                click.echo(prefix + line)
        if not follow:
            return
        time.sleep(FOLLOW_EVERY_S)


def _is_worker(name: str) -> bool:
    """True for the name of a worker, whose log may come."""
    try:
        return bool(WorkerId.parse(name))
    except ValueError:
        return False


class LogTail:
    """Hands out a growing file's lines, each once, also when its agent moves them to NAME.old (`bound_log`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self, final: bool) -> Iterator[str]:
        """Lines that are complete since the last call; with `final` an unfinished last one too."""
        if self._path.stat().st_size < self._offset:
            moved = self._path.with_name(f"{self._path.name}.old")
            if moved.exists():
                yield from self._read(moved, final=True)
            self._offset = 0
        yield from self._read(self._path, final)

    def _read(self, path: Path, final: bool) -> Iterator[str]:
        with path.open("rb") as stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n") and not final:
                    return
                self._offset += len(line)
                yield line.decode(errors="replace").rstrip("\r\n")


def _logs_folder(job: str, zookeeper: str | None) -> Path:
    """The logs of a run directory, or of a job that the cluster knows."""
    if (Path(job) / LOGS).is_dir():
        return Path(job) / LOGS
    if "/" in job:
        raise ConfigError(f"{job} is not a run directory (it has no {LOGS}/)", "name one below runs/, or a job")
    from riprap.engine.services.cluster import open_client

    with open_client(zookeeper) as client:
        folder = Path(client.status(job)["run_dir"]) / LOGS
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not on this host", "look on the host that the job was submitted from")
    return folder
