"""One cluster for the jobs of many tests: where services stay up, a job costs its own work alone."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from cli_harness import TRANSPORT, Cli, await_that, write_modules, write_shards, write_topology

from riprap.controller.session import disconnect, open_client

STAGINGS = 3
"""How often a job runs at most until all of its faults have happened."""


class SharedCluster:
    """`riprap up` in a directory; the modules that its jobs name stand there, beside the topologies too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._cli, self._numbers = Cli(directory), itertools.count()
        write_modules(directory)
        self._cli.ask("up", "--standby", "0")
        self.zookeeper = str(json.loads(self._cli.ask("up", "--json"))["zookeeper"])

    def job(self, file: Path, out: Path, *words: str) -> dict[str, Any]:
        """Run a job to its end under a name of its own; its summary. Its faults hit workers alone.

        Where a recovery took longer than what was left of the stream, the next fault had no moment any more:
        on a machine that has other things to do. What was to be seen has not happened then, and the job runs again.
        """
        for _ in range(STAGINGS - 1):
            summary = self.finish(self.start(file, out, *words), out)
            if not summary["faults_not_injected"]:
                return summary
            shutil.rmtree(out)
        return self.finish(self.start(file, out, *words), out)

    def start(self, file: Path, out: Path, *words: str) -> str:
        """Submit a job; the name that it was given."""
        name = f"job{next(self._numbers)}"
        transport = ("--set", f"links.transport={TRANSPORT}") if TRANSPORT else ()
        there = Cli(file.parent)
        there.environment = self._cli.environment
        there.ask("submit", str(file), "--out", str(out), *transport, *words, "--set", f"job={name}")
        return name

    def finish(self, name: str, out: Path) -> dict[str, Any]:
        """The summary of a job, once it has completed."""
        written = out / "summary.json"
        try:
            await_that(written.exists, 120, lambda: self.ask("status", name))
        except AssertionError:
            self._cli.call("cancel", name)
            raise
        summary: dict[str, Any] = json.loads(written.read_text())
        assert summary["completed"], self.ask("status", name)
        return summary

    def ask(self, *arguments: str) -> str:
        """What a command says of the cluster; it must succeed."""
        return self._cli.ask(*arguments)

    def chroot(self, name: str) -> str:
        """A part of the ensemble for a run with services of its own, which no job of this cluster sees."""
        client = open_client(self.zookeeper)
        try:
            client.ensure_path(f"/{name}")
        finally:
            disconnect(client)
        return f"{self.zookeeper}/{name}"

    def close(self) -> None:
        """End it; nothing may be left."""
        try:
            self._cli.ask("down")
            self._cli.await_no_process()
        finally:
            self._cli.kill_all()


def undisturbed_model(cluster: SharedCluster, directory: Path, *sets: str) -> dict[str, np.ndarray]:
    """The model of the whole job of `write_topology`, by name, when nothing happens."""
    write_shards(directory / "shards")
    cluster.job(write_topology(directory / "job.yaml"), directory / "out", *sets)
    return dict(np.load(directory / "out" / "model.npz"))
