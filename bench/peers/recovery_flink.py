"""Flink when a TaskManager is killed: a standalone session cluster on loopback, a chained job with checkpoints.

Two TaskManagers of one slot each, of which one is a spare. After a kill another is started before the next kill, not
while the job recovers, so that its start takes nothing from the recovery.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.peers import setup
from bench.peers.processes import Processes, free_port, wait_for
from bench.peers.recovery_times import Output, flink_noticed, parse_outputs

MANAGERS = 2
START_TIMEOUT_S = 90.0
INTERVAL = "execution.checkpointing.interval"
CHECKPOINTS = {INTERVAL: "1 s"}
TUNED = {
    "heartbeat.interval": "100 ms",
    "heartbeat.timeout": "1000 ms",
    "heartbeat.rpc-failure-threshold": "1",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "0 ms",
    "jobmanager.execution.failover-strategy": "region",
    "slot.request.timeout": "10000",
    "resourcemanager.taskmanager-registration.timeout": "10 s",
}
"""Those that make Flink quick."""

#: Settings of the cluster and the job: what Flink comes with, but for checkpoints; and what makes it quick.
SETTINGS: dict[str, dict[str, str]] = {
    "default": CHECKPOINTS,
    "tuned": {**CHECKPOINTS, **TUNED},
}
BASE = {
    "jobmanager.memory.process.size": "1000m",
    "taskmanager.memory.process.size": "1200m",
    "taskmanager.memory.managed.size": "32m",
    "taskmanager.memory.network.min": "32m",
    "taskmanager.memory.network.max": "32m",
    "taskmanager.numberOfTaskSlots": "1",
    "rest.bind-address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
}


class Cluster:
    """A JobManager and TaskManagers with these settings; their files are in a folder."""

    def __init__(self, processes: Processes, folder: Path, settings: dict[str, str]) -> None:
        self._processes, self._folder = processes, folder
        self._home = next(setup.folder("flink").glob("venv/lib/*/site-packages/pyflink"))
        self._rest = free_port()
        self._settings = {
            **BASE,
            **settings,
            "jobmanager.rpc.port": str(free_port()),
            "rest.port": str(self._rest),
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            "io.tmp.dirs": str(folder),
        }
        self._managers: dict[str, int] = {}
        self._names = map("manager-{}".format, count(1))
        self._env = {"FLINK_CONF_DIR": str(self._configuration()), "FLINK_LOG_DIR": str(folder)}

    def start(self) -> None:
        """Begin, and wait until all slots are there."""
        self._processes.start("jobmanager", self._command("jobmanager.sh", "start-foreground"), self._env)
        for _ in range(MANAGERS):
            self.add_manager()
        wait_for(lambda: self._slots() >= MANAGERS, START_TIMEOUT_S, "slot of Flink")

    def add_manager(self) -> None:
        """One more TaskManager."""
        name = next(self._names)
        command = self._command("taskmanager.sh", "start-foreground", "-D", f"taskmanager.resource-id={name}")
        self._managers[name] = self._processes.start(name, command, self._env).pid

    def submit(self, words: list[str]) -> str:
        """Run a class of the packed classes with these arguments; the job's id."""
        jar = str(setup.folder("flink") / "classes.jar")
        command = self._command("flink", "run", "-d", "-c", words[0], jar, *words[1:])
        submission = self._processes.start("submission", command, self._env)
        if submission.wait(START_TIMEOUT_S):
            raise RuntimeError((self._folder / "submission.txt").read_text()[-1000:])
        return str(self.ask("jobs")["jobs"][0]["id"])

    def kill_manager(self, job: str) -> float:
        """kill -9 the TaskManager that runs the job, once there is a spare; the moment of the kill."""
        while len(self._managers) < MANAGERS:
            self.add_manager()
        vertex = self.ask(f"jobs/{job}")["vertices"][0]["id"]
        name = self.ask(f"jobs/{job}/vertices/{vertex}/taskmanagers")["taskmanagers"][0]["taskmanager-id"]
        wait_for(self._has_spare, START_TIMEOUT_S, "spare TaskManager")
        at = time.time()
        os.kill(self._managers.pop(name), signal.SIGKILL)
        return at

    def cpu_seconds(self) -> float:
        """Seconds that the TaskManagers have computed."""
        return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self._managers.values()))

    def ask(self, path: str) -> dict[str, Any]:
        """The answer of the REST interface."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._rest}/{path}", timeout=10) as answer:
            return dict(json.load(answer))

    def _slots(self) -> int:
        try:
            return int(self.ask("overview")["slots-total"])
        except OSError:
            return 0

    def _has_spare(self) -> bool:
        there = {manager["id"] for manager in self.ask("taskmanagers")["taskmanagers"]}
        return there == set(self._managers) and self.ask("overview")["slots-available"] >= 1

    def _configuration(self) -> Path:
        folder = self._folder / "conf"
        folder.mkdir()
        for file in (self._home / "conf").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        opened = [line for line in (folder / "config.yaml").read_text().splitlines() if "all: --add" in line]
        lines = [f"env.java.opts.{opened[0].strip()}", *(f"{name}: {value}" for name, value in self._settings.items())]
        (folder / "config.yaml").write_text("\n".join(lines) + "\n")
        return folder

    def _command(self, script: str, *words: str) -> list[str]:
        return ["bash", str(self._home / "bin" / script), *words]


class Run:
    """A running job; its outputs, kills, and the failures noticed."""

    def __init__(self, processes: Processes, folder: Path, shards: Path, micro_batch: int, variant: str) -> None:
        self._output = folder / "output.txt"
        self._cluster = Cluster(processes, folder, SETTINGS[variant])
        self._cluster.start()
        files = sorted(map(str, shards.glob("part-*.npy")))
        columns = np.load(files[0], mmap_mode="r").shape[1]
        numbers = [columns, 400, micro_batch, 2.0]
        self._job = self._cluster.submit(["Disturbed", *map(str, numbers), str(self._output), *files])

    def outputs(self) -> list[Output]:
        """So far."""
        return parse_outputs(self._output.read_text()) if self._output.exists() else []

    def kill(self) -> float:
        """Kill the worker; returns the moment."""
        return self._cluster.kill_manager(self._job)

    def noticed(self) -> list[float]:
        """The moments when the JobManager saw failures."""
        return flink_noticed(self._cluster.ask(f"jobs/{self._job}/exceptions?maxExceptions=100"))
