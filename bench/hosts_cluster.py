"""A whole cluster on hosts of `bench.namespaces`: ZooKeeper and a controller on the hub, an agent on each host.

The last hosts may have a backup server each in an agent's place, so that what is saved crosses limited links too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from bench.namespaces import HUB_ADDRESS, Hosts
from riprap.controller.client import Client
from riprap.controller.phases import TERMINAL
from riprap.controller.zookeeper import EmbeddedZooKeeper
from riprap.engine.run.summary import Facts, compose
from riprap.engine.run_directory.epochs import Committed, EpochRow, EpochTail

RIPRAP = [sys.executable, "-m", "riprap.engine.cli.main"]
JOB_TIMEOUT_S = 300.0
BACKUP_PORT = 7070


class HostsCluster:
    """Services on `hosts`, with logs in `folder`; jobs run one after another. The last `backups` hosts save."""

    def __init__(self, hosts: Hosts, folder: Path, backups: int = 0) -> None:
        self.hosts, self.folder = hosts, folder
        self._workers, self._backups = hosts.count - backups, backups
        self._server = EmbeddedZooKeeper(folder / "zookeeper", address=HUB_ADDRESS)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._agents: dict[int, subprocess.Popen[bytes]] = {}
        self._jobs = 0
        self._backup = ["backup.servers=0"]

    @property
    def zookeeper(self) -> str:
        """The address that clients connect to."""
        return self._server.connect_string

    def __enter__(self) -> HostsCluster:
        self._server.start()
        self._start("controller", [*RIPRAP, "controller", "--zookeeper", self.zookeeper, "--address", HUB_ADDRESS])
        for host in range(self._workers):
            self.start_agent(host)
        if self._backups:
            self._start_backups()
        self.await_agents()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._server.stop()

    def await_agents(self) -> None:
        """Wait until every host can be given work; TimeoutError after a minute."""
        deadline = time.monotonic() + 60
        with Client(self.zookeeper, timeout_s=30) as client:
            while len(client.agents()) < self._workers:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"only the agents of {sorted(client.agents())} have joined")
                time.sleep(0.05)

    def start_agent(self, host: int) -> None:
        """Start the agent of a host; its end takes the host's workers along."""
        words = ["agent", "--zookeeper", self.zookeeper, "--host", f"h{host}", "--address", self.hosts.address(host)]
        self._agents[host] = self._start(f"agent{host}", self.hosts.command(host, *RIPRAP, *words))

    def kill_agent(self, host: int) -> None:
        """SIGKILL the agent of a host."""
        self._agents[host].kill()

    def _start_backups(self) -> None:
        """Jobs use these backup servers, a host each."""
        addresses = []
        for host in range(self._workers, self.hosts.count):
            addresses.append(f"tcp://{self.hosts.address(host)}:{BACKUP_PORT}")
            words = ["backup", "--listen", addresses[-1], "--storage", str(self.folder / f"backup{host}")]
            self._start(f"backup{host}", self.hosts.command(host, *RIPRAP, *words))
        self._backup = [f"backup.servers=[{', '.join(addresses)}]"]

    def submit(self, config: str, sets: list[str]) -> tuple[str, Path]:
        """Submit a job; returns its name and run directory."""
        sets = [*self._backup, *sets]
        self._jobs += 1
        name, out = f"job{self._jobs}", self.folder / f"job{self._jobs}"
        words = ["submit", config, "--zookeeper", self.zookeeper, "--out", str(out), "--set", f"job={name}"]
        done = subprocess.run(
            [*RIPRAP, *words, *(word for value in sets for word in ("--set", value))], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return name, out

    def run_killing(
        self, config: str, sets: list[str], kills: Mapping[int, Sequence[str]]
    ) -> tuple[dict[str, Any], list[EpochRow], list[float]]:
        """Run a job, killing workers once enough epochs are committed; returns summary, epochs, and times of kills."""
        name, out = self.submit(config, sets)
        tail, moments = EpochTail(out / "epochs.csv"), []
        deadline = time.monotonic() + JOB_TIMEOUT_S
        with Client(self.zookeeper, timeout_s=30) as client:
            for epoch, workers in sorted(kills.items()):
                while tail.epoch < epoch:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{name} has committed {tail.epoch} epochs and not {epoch}")
                    time.sleep(0.001)
                    tail.refresh()
                moments.append(time.monotonic())
                for worker in workers:
                    client.kill(name, worker)
        summary = self.wait(name, out)
        tail.refresh()
        return summary, tail.rows(), moments

    def wait(self, name: str, out: Path) -> dict[str, Any]:
        """Wait for a job's end; returns its summary. RuntimeError when it did not complete."""
        deadline = time.monotonic() + JOB_TIMEOUT_S
        with Client(self.zookeeper, timeout_s=30) as client:
            while (status := client.status(name))["phase"] not in TERMINAL and time.monotonic() < deadline:
                time.sleep(0.1)
        if status["phase"] != "COMPLETED":
            raise RuntimeError(f"{name} is {status['phase']}: {status['error']}")
        sinks = sum(worker.startswith("sink.") for worker in status["workers"])
        committed = Committed(out, sinks)
        committed.refresh()
        return compose(Facts(name, "", status, committed.between([0] * sinks)))

    def run(self, config: str, sets: list[str], slow: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
        """Submit and wait; the links of the workers in `slow` are limited to that many Mbit/s for this job."""
        name, out = self.submit(config, sets)
        hosts = {self.host_of(name, worker): rate for worker, rate in slow.items()}
        for host, rate in hosts.items():
            self.hosts.reshape(host, rate)
        try:
            return self.wait(name, out)
        finally:
            for host in hosts:
                self.hosts.reshape(host, self.hosts.rate_mbit or 0)

    def host_of(self, name: str, worker: str) -> int:
        """The host that runs a worker of a job; TimeoutError when it has none for half a minute."""
        deadline = time.monotonic() + 30
        with Client(self.zookeeper, timeout_s=30) as client:
            while not (host := client.status(name)["workers"].get(worker, {}).get("host")):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{worker} of {name} has no host")
                time.sleep(0.02)
        return int(host.removeprefix("h"))

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        tied = [*command, "--die-with-parent", str(os.getpid())]
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(tied, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)
        return process
