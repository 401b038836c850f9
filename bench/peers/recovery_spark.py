"""Spark Structured Streaming when an executor is killed: local-cluster, two executors of one core."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from bench.peers import setup
from bench.peers.processes import Processes, find
from bench.peers.recovery_times import Output, parse_outputs, spark_noticed

PROGRAM = Path(__file__).parent / "programs/spark_recovery.py"
BATCHES = 600


class Run:
    """A running query; its outputs, kills, and the deaths noticed."""

    def __init__(self, processes: Processes, folder: Path, shards: Path, micro_batch: int) -> None:
        self._output, self._folder = folder / "output.txt", folder
        words = [str(shards), str(micro_batch), str(BATCHES), str(self._output), str(folder)]
        command = [str(setup.interpreter("spark")), str(PROGRAM), *words]
        for work in setup.folder("spark").glob("venv/lib/*/site-packages/pyspark/work"):
            shutil.rmtree(work)  # logs of earlier executors
        self._session = processes.start("spark", command, {"SPARK_LOCAL_DIRS": str(folder)}).pid

    def outputs(self) -> list[Output]:
        """So far."""
        return parse_outputs(self._output.read_text()) if self._output.exists() else []

    def kill(self) -> float:
        """kill -9 the JVM of the eldest executor; returns the moment."""
        victim = find(self._session, "CoarseGrainedExecutorBackend")[0]
        at = time.time()
        os.kill(victim, signal.SIGKILL)
        return at

    def noticed(self) -> list[float]:
        """The moments when the driver removed executors."""
        lines = [line for file in (self._folder / "events").iterdir() for line in file.read_text().splitlines()]
        return spark_noticed(json.loads(line) for line in lines if line.endswith("}"))
