"""The beginning of `riprap submit`: a job anew, or once more where an earlier attempt of it on a cluster ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.controller.client import Client
from riprap.controller.ensemble import file_in_use
from riprap.controller.faults import check_hosts_are_killed
from riprap.controller.phases import ENDED, TERMINAL, name_is_taken
from riprap.controller.victims import is_group
from riprap.engine.run.host_checks import asks_for_hosts, on_hosts
from riprap.engine.run.preflight import CheckedJob, check_job
from riprap.engine.run.start import (
    check_is_same,
    committed_epochs,
    identity_of,
    make_directory_of,
    refuse_to_resume,
)
from riprap.engine.run.window_output import check_output_is_free
from riprap.engine.run_directory.attempts import ATTEMPTS, Attempt, Attempts, resume_command, submit_again_command
from riprap.engine.run_directory.checkpoints import last_checkpoint
from riprap.engine.run_directory.directory import TOPOLOGY

FIRST_AGENT_S = 10.0
"""The wait for an agent, which may have been started a moment ago."""
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class ClusterStart:
    """A job that may be submitted; `servers` are the backup servers that keep what its workers save."""

    job: CheckedJob
    run_dir: Path
    attempt: Attempt
    servers: Sequence[str]

    @property
    def unprotected(self) -> str:
        """The reason why a lost sink would end the job, and it could not be resumed; empty when both can be done."""
        return self.job.unprotected or ("" if self.servers else "the cluster has no backup server")

    def submission(self, zookeeper: str | None) -> dict[str, Any]:
        """The controller's part of a submission besides the topology: the command that goes on with the job should it
        fail, and the data needed to sum the job up (`before`) and to inject faults."""
        name = self.job.topology.job
        resume = "" if self.unprotected else submit_again_command(name, zookeeper, file_in_use())
        attempt, checkpoint = self.attempt, last_checkpoint(self.run_dir)
        values = self.job.submission(attempt.run, attempt.number, self.servers, checkpoint)
        faults = [fault.fields() for fault in self.job.faults]
        return values | {"resume": resume, "before": [list(epochs) for epochs in self.attempt.before], "faults": faults}


def submit_anew(job: CheckedJob, out: str | None, servers: Sequence[str]) -> ClusterStart:
    """The first attempt at a job, with these backup servers unless it names its own; ConfigError for a bad `out`."""
    check_output_is_free(job.topology)
    run_dir = make_directory_of(job, out)
    wanted = job.topology.backup.servers
    chosen = (servers if wanted else ()) if isinstance(wanted, int) else wanted
    with Attempts(run_dir) as attempts:
        return ClusterStart(job, run_dir, attempts.begin((), chosen, identity_of(job)), chosen)


def submit_again(
    run_dir: Path, client: Client, faults: Sequence[str], faults_file: str | None, verify: bool
) -> ClusterStart:
    """The next attempt, from the run directory and the backup servers of the first one.

    ConfigError, with no attempt counted, when the job has not ended, is none of a cluster, or cannot be restored.
    """
    check_is_of_cluster(run_dir)
    with Attempts(run_dir) as attempts:
        job = check_job(str(run_dir / TOPOLOGY), (), faults, faults_file, verify=verify)
        check_faults(job)
        job = on_cluster(job, client)
        phase = client.jobs().get(job.topology.job, "CANCELLED")
        if phase not in ENDED:
            raise ConfigError(
                f"job {job.topology.job} is {phase}, so there is nothing to go on with yet",
                f"watch it with `riprap status {job.topology.job}`",
            )
        check_is_same(job, run_dir, attempts)
        servers = attempts.servers or ()
        before = committed_epochs(job, run_dir)
        why = job.unprotected or ("" if servers else "it was submitted without a backup server")
        why = "the job was forgotten, and with it its backups" if attempts.forgotten else why
        if any(before) and why:
            refuse_to_resume(run_dir, why, f"submit it anew: riprap submit {quote(str(run_dir / TOPOLOGY))}")
        return ClusterStart(job, run_dir, attempts.begin(before, servers, identity_of(job)), servers)


def check_faults(job: CheckedJob) -> None:
    """ConfigError for a fault in a service: agents hit none but their own workers, and themselves with all of them."""
    workers = {str(worker) for worker in job.topology.workers()}
    for fault in job.faults:
        check_hosts_are_killed(fault)
        if fault.target not in workers and not is_group(fault.target):
            raise ConfigError(
                f"fault '{fault}': in a job of a cluster only workers and hosts can be hit",
                "name a worker or a group of them, or use `riprap run`",
            )


def check_name_is_free(job: str, client: Client) -> None:
    """ConfigError while a job of that name runs: said before a run directory is made."""
    phase = client.jobs().get(job, "CANCELLED")
    if phase not in TERMINAL:
        raise name_is_taken(job, phase)


def on_cluster(job: CheckedJob, client: Client) -> CheckedJob:
    """The job beside the hosts of the cluster, as `on_hosts`; one that asks for hosts waits for a first agent."""
    deadline = time.monotonic() + (FIRST_AGENT_S if asks_for_hosts(job) else 0.0)
    while not (agents := client.agents()) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return on_hosts(job, {host: about["labels"] for host, about in agents.items()})


def find_run_directory(job: str, client: Client) -> Path:
    """The run directory that `job` is, or that the cluster knows of a job of that name."""
    if (Path(job) / TOPOLOGY).is_file() or "/" in job:
        return Path(job).resolve()
    return Path(client.status(job)["run_dir"])


def check_is_of_cluster(run_dir: Path) -> None:
    """ConfigError unless the attempts in the run directory were submitted to a cluster."""
    if not (run_dir / ATTEMPTS).is_file():
        raise ConfigError(
            f"--resume {run_dir}: not the run directory of a job that was submitted",
            "name a job of `riprap jobs`, or the directory that `riprap submit` made",
        )
    with Attempts(run_dir) as attempts:
        if attempts.servers is None:
            raise ConfigError(
                f"--resume {run_dir}: its job was started by `riprap run`", f"go on with: {resume_command(run_dir)}"
            )
