"""Counts the attempts at one job in its run directory, and lets one launcher at a time work there."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.files import append_whole, no_space, sync
from riprap.codec.json_text import from_json, to_json

ATTEMPTS = "attempts.jsonl"


@dataclass(frozen=True)
class Attempt:
    """One start of a job: the `number` counts them from 1, and `run` names the job apart from all of the same name.

    `before` says how many epochs each sink had committed when each attempt began, this one last.
    """

    number: int
    run: str
    before: tuple[tuple[int, ...], ...] = ()


class Attempts:
    """The file `attempts.jsonl`, one line an attempt; locked from the opening until it is closed or the process ends.

    `run` names the job apart from all of the same name. `servers` are the backup servers of a job that was submitted to
    a cluster, None where `riprap run` starts its own. The lock is the kernel's (flock(2)), so a launcher that was
    killed holds it no longer. ConfigError when another launcher holds it, or the file cannot be opened.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = path = run_dir / ATTEMPTS
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._lock(run_dir)
        except OSError as error:
            if full := no_space(error):
                raise full from error
            raise ConfigError(f"{path}: {error.strerror}", "name a run directory that you may write to") from error
        lines = os.pread(self._fd, os.fstat(self._fd).st_size, 0).splitlines()
        self._entries = [_entry(line) for line in lines]
        self.servers: list[str] | None = next((e["servers"] for e in self._entries if "servers" in e), None)
        self.job: Mapping[str, Any] | None = next((e["job"] for e in self._entries if "job" in e), None)
        """The facts that states rest on (engine/run/start.py), by the first attempt that told them; None: none has."""
        self.forgotten = any("forgotten" in entry for entry in self._entries)
        """True when its backup servers' records were deleted, so that the job cannot be resumed."""
        self.run = next((str(entry["run"]) for entry in self._entries if "run" in entry), uuid.uuid4().hex[:12])

    def begin(
        self,
        before: Sequence[int] = (),
        servers: Sequence[str] | None = None,
        job: Mapping[str, Any] | None = None,
    ) -> Attempt:
        """Count a new attempt at `job`, durable on return; `before` are the epochs that each sink has committed so
        far."""
        earlier = tuple(tuple(entry.get("before", ())) for entry in self._entries if "forgotten" not in entry)
        attempt = Attempt(len(earlier) + 1, self.run, (*earlier, tuple(before)))
        line = {"attempt": attempt.number, "run": self.run, "before": list(before)}
        line |= {"pid": os.getpid(), "wall": time.time()} | ({} if servers is None else {"servers": list(servers)})
        line |= {} if job is None else {"job": dict(job)}
        self._append(line)
        return attempt

    def forget(self) -> None:
        """Note that the job's backups are being deleted, durable on return."""
        self._append({"forgotten": time.time()})

    def close(self) -> None:
        """Let the next launcher in."""
        os.close(self._fd)

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _lock(self, run_dir: Path) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise ConfigError(
                f"the run directory {run_dir} is in use by another `riprap run`", "wait for its end, or interrupt it"
            ) from None

    def _append(self, line: Mapping[str, Any]) -> None:
        append_whole(self._fd, self._separator() + to_json(line).encode() + b"\n", self._path)
        sync(self._fd, self._path)

    def _separator(self) -> bytes:
        """A line that a crash cut short still counts, and ends before the next begins."""
        size = os.fstat(self._fd).st_size
        return b"\n" if size and os.pread(self._fd, 1, size - 1) != b"\n" else b""


def resume_command(run_dir: Path, zookeeper: str | None = None, auth: str = "") -> str:
    """The command that goes on with the job of a run directory; `auth` is the file of `--zookeeper-auth`."""
    return shlex.join(["riprap", "run", "--resume", str(run_dir), *_ensemble(zookeeper, auth)])


def submit_again_command(job: str, zookeeper: str | None, auth: str = "") -> str:
    """The command that goes on with a job of a cluster, by its name or run directory."""
    return shlex.join(["riprap", "submit", "--resume", job, *_ensemble(zookeeper, auth)])


def go_on_command(run_dir: Path) -> str:
    """The one of both that goes on with the job of a run directory, by what its attempts say. OSError."""
    entries = map(_entry, (run_dir / ATTEMPTS).read_bytes().splitlines())
    is_of_cluster = any("servers" in entry for entry in entries)
    return submit_again_command(str(run_dir), None) if is_of_cluster else resume_command(run_dir)


def _ensemble(zookeeper: str | None, auth: str) -> list[str]:
    if not zookeeper:
        return []
    return ["--zookeeper", zookeeper, *(["--zookeeper-auth", auth] if auth else [])]


def _entry(line: bytes) -> Mapping[str, Any]:
    """The fields of a line; none when it was cut short."""
    try:
        entry = from_json(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
