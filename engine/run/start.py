"""The beginning of `riprap run`: anew in a fresh run directory, or once more where an earlier attempt ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.engine.run.host_checks import on_hosts
from riprap.engine.run.planned import write_plan
from riprap.engine.run.preflight import CheckedJob, check_job
from riprap.engine.run.until import Until
from riprap.engine.run.window_output import check_output_is_free
from riprap.engine.run_directory.attempts import ATTEMPTS, Attempt, Attempts, submit_again_command
from riprap.engine.run_directory.directory import TOPOLOGY, make_run_directory
from riprap.engine.run_directory.epochs import Committed
from riprap.engine.services.backup_servers import BackupServer, servers_of_run
from riprap.engine.services.hosts import OwnHost, this_host
from riprap.operators import by_value


@dataclass(frozen=True)
class Start:
    """A job that may be started in its run directory, which `lock` keeps other launchers out of."""

    job: CheckedJob
    run_dir: Path
    attempt: Attempt
    backups: list[BackupServer]
    lock: Attempts
    profile: bool = False
    """True when workers record where their time goes."""
    until: Until | None = None
    """The moment when a stream without end is to be drained."""
    hosts: Sequence[OwnHost] = ()
    """The hosts that this machine has agents for; empty: itself alone."""


def start_anew(
    topology: str, sets: Sequence[str], faults: Sequence[str], faults_file: str | None, out: str | None,
    verify: bool = True, hosts: Sequence[OwnHost] = (),
) -> Start:  # fmt: skip
    """The first attempt at a job; ConfigError for whatever is wrong with it or with `out`, DataError for its input.

    `hosts` get an agent each; without any, this machine has one.
    """
    job = _on_own_hosts(check_job(topology, sets, faults, faults_file, verify), hosts)
    check_output_is_free(job.topology)
    run_dir = make_directory_of(job, out)
    return _begin(job, run_dir, Attempts(run_dir), hosts)


def start_again(run_dir: Path, faults: Sequence[str], faults_file: str | None, hosts: Sequence[OwnHost] = ()) -> Start:
    """The next attempt at the job of a run directory, from its last committed epoch that was made durable.

    ConfigError, with no attempt counted, when it is none, is in use, or what is needed to go on is gone.
    """
    _check_is_run_directory(run_dir)
    by_value.use_kept(run_dir)
    attempts = Attempts(run_dir)
    try:
        _check_is_no_clusters(run_dir, attempts)
        job = _on_own_hosts(check_job(str(run_dir / TOPOLOGY), (), faults, faults_file), hosts)
        return _begin(job, run_dir, attempts, hosts)
    except BaseException:
        attempts.close()
        raise


def _on_own_hosts(job: CheckedJob, hosts: Sequence[OwnHost]) -> CheckedJob:
    return on_hosts(job, {host.name: host.labels for host in hosts or (this_host(),)})


def make_directory_of(job: CheckedJob, out: str | None) -> Path:
    """The run directory of a job that starts for the first time, with its plan; ConfigError for a bad `out`."""
    run_dir = make_run_directory(out, job.topology.job, job.topology.to_dict(), job.columns)
    if job.plan is not None:
        write_plan(run_dir, job.plan)
    return run_dir


def _begin(job: CheckedJob, run_dir: Path, attempts: Attempts, hosts: Sequence[OwnHost]) -> Start:
    check_is_same(job, run_dir, attempts)
    before = committed_epochs(job, run_dir)
    if any(before):
        _check_can_go_on(job, run_dir, attempts)
    attempt = attempts.begin(before, job=identity_of(job))
    servers = servers_of_run(job.topology, run_dir, attempt.run)
    return Start(job, run_dir, attempt, servers, attempts, hosts=tuple(hosts))


def identity_of(job: CheckedJob) -> dict[str, Any]:
    """The facts that the states of a job rest on: its next attempt takes them over only where all are the same."""
    topology = job.topology
    return {
        "stages": {
            name: [stage.parallelism, topology.scheme_of(name)["scheme"]] for name, stage in topology.stages.items()
        },
        "edges": [[edge.upstream, edge.downstream, edge.partitioning, edge.feedback] for edge in topology.edges],
        "micro_batch": topology.micro_batch,
        "items": job.items,
    }


def check_is_same(job: CheckedJob, run_dir: Path, attempts: Attempts) -> None:
    """ConfigError where the topology or the input has become another since the job was begun."""
    began = attempts.job or {}
    now = identity_of(job)
    for name in [name for name in now if name in began and began[name] != now[name]]:
        raise ConfigError(
            f"--resume {run_dir}: it is another job than the one that was begun there: its {name} are now"
            f" {to_json(now[name])}, and were {to_json(began[name])}",
            f"put {TOPOLOGY} and the input back as they were, or run the job from the start",
        )


def committed_epochs(job: CheckedJob, run_dir: Path) -> list[int]:
    """The last epoch that each sink has committed."""
    committed = Committed(run_dir, sum(job.topology.stages[stage].parallelism for stage in job.topology.sinks))
    committed.refresh()
    return committed.epochs


def _check_is_run_directory(run_dir: Path) -> None:
    if not (run_dir / TOPOLOGY).is_file():
        raise ConfigError(
            f"--resume {run_dir}: not a run directory", "name one that `riprap run` made; it holds topology.yaml"
        )
    if not (run_dir / ATTEMPTS).is_file():
        raise ConfigError(
            f"--resume {run_dir}: it has no {ATTEMPTS}, so it is not known what was started there",
            "put the file back, or run the job from the start",
        )


def _check_is_no_clusters(run_dir: Path, attempts: Attempts) -> None:
    if attempts.servers is not None:
        raise ConfigError(
            f"--resume {run_dir}: its job was submitted to a cluster, which keeps its states",
            f"go on with: {submit_again_command(str(run_dir), None)}",
        )


def _check_can_go_on(job: CheckedJob, run_dir: Path, attempts: Attempts) -> None:
    """Without the sink's state a job that has committed epochs could only begin again, and repeat them."""
    why = job.unprotected
    storages = [server.storage for server in servers_of_run(job.topology, run_dir, attempts.run)]
    folders = [storage for storage in storages if "://" not in storage]
    if not why and folders and not any(Path(folder).is_dir() for folder in folders):
        why = f"the backup storage is gone: {', '.join(folders)}"
    if why:
        refuse_to_resume(run_dir, why, f"run it from the start: riprap run {quote(str(run_dir / TOPOLOGY))}")


def refuse_to_resume(run_dir: Path, why: str, remedy: str) -> None:
    """Raise the ConfigError of a job that has committed epochs and cannot go on behind them."""
    raise ConfigError(
        f"--resume {run_dir}: the job has committed epochs and its sink cannot be restored; {why}", remedy
    )
