"""Processes of a rival's cluster: each in a session of its own, its output in a file, killed at the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.005


class Processes:
    """A context; leaving it leaves no process behind."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for process in self._started:
            end_session(process.pid)
            process.wait()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start in the background; its output goes to NAME.txt in the folder of logs."""
        with open(self._logs / f"{name}.txt", "wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True
            )
        self._started.append(process)
        return process


@contextmanager
def workspace(home: Path) -> Iterator[tuple[Processes, Path]]:
    """Processes of a rival, and a folder in `home` for all that they write; neither is left behind."""
    folder = tempfile.TemporaryDirectory(prefix="rival-", dir=home, ignore_cleanup_errors=True)
    with folder as name, Processes(Path(name)) as processes:
        yield processes, Path(name)


def end_session(leader: int) -> None:
    """Kill all processes of the session of that leader, whatever process groups they made."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def find(leader: int, part: str) -> list[int]:
    """The pids in the session of that leader whose command line has that part, eldest first."""
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.getsid(pid) == leader and part.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except (ProcessLookupError, PermissionError, FileNotFoundError):
            continue
    return found


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(question: Callable[[], T | None], timeout_s: float, what: str) -> T:
    """Ask until the answer is true, and return it. TimeoutError names the thing waited for."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        answer = question()
        if answer:
            return answer
        time.sleep(POLL_S)
    raise TimeoutError(f"no {what} within {timeout_s:g} s")
