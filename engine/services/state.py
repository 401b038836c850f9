"""Remembers the cluster services that `riprap up` started on this host, from one command to the next."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from riprap.codec.errors import ConfigError
from riprap.codec.files import replace
from riprap.codec.json_text import to_json
from riprap.codec.trust.keys import home
from riprap.controller import ensemble
from riprap.engine.services.backup_servers import STORAGE

ZOOKEEPER_DATA = ".zookeeper"
LOCK = "up.lock"
PF_EXITING = 0x4  # <linux/sched.h>


@dataclass(frozen=True)
class ServiceState:
    """The supervisor of the services, and their place (`started_ticks` excludes a later process of the same pid).

    `backups` are the addresses of the backup servers among the services; `zookeeper_auth` is the file that says how the
    ensemble is entered, empty for an embedded server; `keys` is the id of those under which controllers and backup
    servers were started.
    """

    pid: int
    started_ticks: int
    zookeeper: str
    folder: str
    backups: list[str] = field(default_factory=list)
    zookeeper_auth: str = ""
    keys: str = ""


def state_folder() -> Path:
    """The directory of the state and of the services' logs: $XDG_RUNTIME_DIR/riprap, else ~/.riprap; ConfigError."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "riprap" if runtime else home() / ".riprap"


@contextlib.contextmanager
def locked(file: Path, refusal: ConfigError) -> Iterator[None]:
    """Hold a lock of the kernel's, which ends with the process; raises `refusal` while another process holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refusal from error
        yield
    finally:
        os.close(descriptor)


def alone(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Be the only one who has services in that folder, or removes what they left; ConfigError when another is."""
    refusal = ConfigError(
        "the services of this host are being started or stopped by another command",
        "wait for its end, and give this one again",
    )
    return locked(folder / LOCK, refusal)


def write_state(state: ServiceState) -> None:
    """Replace the state file in one step."""
    replace(state_folder() / "up.json", to_json(asdict(state)))


def read_state() -> ServiceState | None:
    """The services that run now; None when nothing does, whatever an old file says."""
    try:
        state = ServiceState(**json.loads((state_folder() / "up.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return state if started_ticks(state.pid) == state.started_ticks else None


def remove_state() -> None:
    """Forget the services."""
    (state_folder() / "up.json").unlink(missing_ok=True)


def forget_jobs(folder: Path) -> None:
    """Remove the remains of an unclean end: the jobs in an embedded ZooKeeper, and their states and items.

    With an ensemble of the user's nothing is removed: its jobs may go on elsewhere, or here later.
    """
    if (folder / ZOOKEEPER_DATA).exists():
        shutil.rmtree(folder / ZOOKEEPER_DATA, ignore_errors=True)
        shutil.rmtree(folder / STORAGE, ignore_errors=True)


def started_ticks(pid: int) -> int | None:
    """The start of a process, in clock ticks since boot (field 22 of proc_pid_stat(5)); None when it does not run.

    One that was killed is no zombie at once; its flags (field 9) say that it is about to be one.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" or int(fields[6]) & PF_EXITING else int(fields[19])


def find_backups(zookeeper: str | None) -> list[str]:
    """The backup servers that `riprap up` started for the ensemble that a command talks to."""
    state = read_state()
    return state.backups if state and zookeeper in (None, state.zookeeper) else []


def find_zookeeper(given: str | None) -> str:
    """The ensemble that a command talks to: the one given, else that of `riprap up`; ConfigError when there is none.

    That of `riprap up` is entered as it was there.
    """
    if given:
        return given
    state = read_state()
    if state is None:
        raise ConfigError("no cluster runs on this host", "start one with `riprap up`, or name it with --zookeeper")
    ensemble.remember(state.zookeeper_auth)
    return state.zookeeper
