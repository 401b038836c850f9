"""The agent's side of its zygote: start it, order workers, learn of their exits, replace it when it dies."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from riprap.codec.errors import ConfigError
from riprap.controller import channel
from riprap.controller.processes import SINGLE_THREADED, kill_by_pidfd, tie_to_this_process

START_TIMEOUT_S = 60.0  # to import the workers' code, on a slow disk
END_TIMEOUT_S = 1.0
STARTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Started:
    """The process of an order exists; `pidfd` is the receiver's to close."""

    order: int
    pid: int
    pidfd: int


@dataclass(frozen=True, slots=True)
class Exited:
    """A worker's process has ended; `status` is its exit code, or minus a signal."""

    pid: int
    status: int


class Spawner:
    """One zygote at a time, a child of this process that dies with it. Used on the main thread only."""

    def __init__(self, entry: str, spares: int) -> None:
        self._entry = entry
        self.spares = spares
        self._orders = 0
        self._start_zygote()

    def fileno(self) -> int:
        """Readable when `events` has something to say."""
        return self._channel.fileno()

    @property
    def pid(self) -> int:
        """The zygote's process."""
        return self._process.pid

    def start(self, log: str, worker_end: socket.socket) -> int:
        """Order a worker that gets this end of its channel; the number of the order, which `Started` will name.

        Closes the end here. When the zygote has just died, `events` will say so.
        """
        self._orders += 1
        with worker_end, contextlib.suppress(OSError):
            channel.send(self._channel, {"type": "start", "id": self._orders, "log": log}, (worker_end.fileno(),))
        return self._orders

    def keep_spares(self, count: int) -> None:
        """Have that many interpreters wait for orders from now on, as soon as no order waits for one."""
        if count != self.spares:
            self.spares = count
            with contextlib.suppress(OSError):
                channel.send(self._channel, {"type": "spares", "count": count})

    def events(self, wait_s: float = 0.0) -> list[Started | Exited] | None:
        """The zygote's events, waiting for the first at most `wait_s`; None when it is dead."""
        said: list[Started | Exited] = []
        while _readable(self._channel, 0.0 if said else wait_s):
            received = channel.receive(self._channel)
            if received is None:
                return said or None
            message, fds = received
            if message["type"] == "started":
                said.append(Started(message["id"], message["pid"], fds[0]))
            elif message["type"] == "exited":
                said.append(Exited(message["pid"], message["status"]))
        return said

    def replace(self) -> None:
        """Start another zygote after the death of the last, whose workers died with it."""
        self.close()
        self._start_zygote()

    def close(self) -> None:
        """End the zygote and with it every worker; returns when the zygote is gone."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _start_zygote(self) -> None:
        """Again where it is killed while it starts; ConfigError when it cannot be."""
        for _ in range(STARTS_MAX):
            self._launch_zygote()
            received = channel.receive(self._channel) if _readable(self._channel, START_TIMEOUT_S) else None
            if received is not None and received[0]["type"] == "ready":
                return
            was_killed = received is None and _is_killed(self._process)
            self.close()
            if not was_killed:
                why = (
                    received[0].get("error", "") if received else f"it ended, or was not ready in {START_TIMEOUT_S:g} s"
                )
                raise ConfigError(
                    f"the workers' code {self._entry} cannot be imported: {why}",
                    "correct the error, or rebuild with `make build`",
                )
        raise ConfigError(
            f"the process that imports the workers' code {self._entry} was killed {STARTS_MAX} times",
            "see with `dmesg` if memory is short here",
        )

    def _launch_zygote(self) -> None:
        self._channel, theirs = channel.pair()
        path = os.pathsep.join(entry for entry in sys.path if entry)
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "riprap.controller.zygote",
                    str(theirs.fileno()),
                    self._entry,
                    str(self.spares),
                ],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **SINGLE_THREADED, "PYTHONPATH": path},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=tie_to_this_process(),
            )


def _is_killed(process: subprocess.Popen[bytes]) -> bool:
    """True for a process that SIGKILL is ending; whoever has closed its channel has little left to do."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(END_TIMEOUT_S) == -signal.SIGKILL
    return False


def _readable(end: socket.socket, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def await_end(pidfds: list[int], timeout_s: float) -> bool:
    """Kill those processes and wait until all have ended; False when some have not in time."""
    deadline = time.monotonic() + timeout_s
    for pidfd in pidfds:
        kill_by_pidfd(pidfd)
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    remaining = set(pidfds)
    while remaining and time.monotonic() < deadline:
        for pidfd, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            poll.unregister(pidfd)
            remaining.discard(pidfd)
    return not remaining
