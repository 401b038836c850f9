"""Starts, watches and kills the processes of a control plane; everything is awaited with a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import zmq

from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import CLIENT, CONTROLLER
from riprap.controller import messages
from riprap.controller.client import Client

PROGRAM = Path(__file__).with_name("controller_process.py")
PATIENCE_S = 120.0

T = TypeVar("T")


def await_that(what: str, check: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """The first true result of `check`; fails the test with `what` when there is none in time."""
    began = time.monotonic()
    deadline = began + patience_s
    while not (result := check()):
        now = time.monotonic()
        assert now < deadline, f"waited {patience_s:g} s for {what}"
        time.sleep(min(max(0.005, 3 * (now - began)), 0.2))  # looks that cost something take less of the time
        began = time.monotonic()
    return result


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def await_death(*pids: int) -> None:
    """All these processes end."""
    for pid in pids:
        await_that(f"the end of process {pid}", lambda pid=pid: not is_alive(pid))


def topology(processors: int = 3, **sections: Any) -> dict[str, Any]:
    """A source, processors and a sink of toy workers; deadlines as given under `cluster`."""
    stages = {"source": {"parallelism": 1}, "processor": {"parallelism": processors}, "sink": {"parallelism": 1}}
    return {"job": "toy", "stages": stages, "sinks": ["sink.0"], **sections}


class Cluster:
    """The processes of one test, on one ZooKeeper connect string."""

    def __init__(self, zookeeper: str, folder: Path) -> None:
        self.zookeeper = zookeeper
        self.run_dir = folder / "run"
        self._folder = folder
        self._logs: dict[int, Path] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """One client for the test."""
        if self._client is None:
            self._client = Client(self.zookeeper)
        return self._client

    def start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a controller, or the agent of a host; its output goes to a file in the test's folder."""
        path = self._folder / f"{role}{len(self._processes)}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), role, self.zookeeper, *arguments], stdout=log, stderr=log
            )
        self._processes.append(process)
        self._logs[process.pid] = path
        return process

    def await_agents(self, *hosts: str) -> None:
        """The leader can give work to these hosts."""
        await_that(f"agents {hosts}", lambda: self.client.agents().keys() == set(hosts))

    def start_both(self, host: str = "h1") -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """A controller and an agent."""
        return self.start("controller"), self.start("agent", host)

    def submit(self, wanted: dict[str, Any]) -> None:
        """Submit the job `toy`."""
        self.run_dir.mkdir(exist_ok=True)
        self.client.submit("toy", wanted, str(self.run_dir))

    def status(self) -> dict[str, Any]:
        """Of the job `toy`."""
        return self.client.status("toy")

    def until(
        self, what: str, holds: Callable[[dict[str, Any]], bool], patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The job's status, once it is as described."""

        def check() -> dict[str, Any] | None:
            status = self.status()
            return status if holds(status) else None

        return await_that(what, check, patience_s)

    def run(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Submit, and await that every worker is up and has counted items."""
        self.submit(wanted)
        return self.until(
            "RUNNING", lambda s: s["phase"] == "RUNNING" and all(w["items"] for w in s["workers"].values())
        )

    def finish(self) -> dict[str, Any]:
        """Let the sink be done; the status of the completed job."""
        (self.run_dir / "finish").touch()
        return self.client.wait("toy", timeout_s=PATIENCE_S)

    def log_of(self, process: subprocess.Popen[bytes]) -> Path:
        """What a controller or agent of this test prints."""
        return self._logs[process.pid]

    def status_at(self, endpoint: str) -> dict[str, Any]:
        """The job's status from a controller asked directly, as when ZooKeeper does not say who leads."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            call_as(dealer, CLIENT, CONTROLLER)
            dealer.connect(endpoint)
            dealer.send(messages.pack({"type": "status", "job": "toy", "id": 1}))
            assert dealer.poll(PATIENCE_S * 1000), "the controller does not answer"
            return dict(messages.unpack(dealer.recv())["result"])

    def seconds_worked(self, endpoint: str, worker: str) -> float:
        """Since the worker's first item."""
        return float(self.status_at(endpoint)["workers"][worker]["stats"]["seconds"])

    def events(self, name: str) -> list[dict[str, Any]]:
        """The job's logged events of that name."""
        lines = (self.run_dir / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def kill(self, pid: int, signum: int = signal.SIGKILL) -> float:
        """Signal a process of this test; when that was."""
        at = time.monotonic()
        os.kill(pid, signum)
        return at

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        if self._client is not None:
            self._client.close()
        for process in self._processes:
            process.kill()
            process.wait()
