"""Runs one schedule of faults on a real job, and checks its end and what it leaves behind."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from schedules import EPOCHS, HYBRID, ITEMS, MICRO_BATCH, PROCESSORS, SCHEMES, Schedule
from soaking import Wrong

from riprap.engine.run.losses import sentences
from riprap.engine.run_directory.directory import read_events

sys.path.append(str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import Cli, write_shards

DEADLINE_S = 60.0
GONE_S = 10.0
ROWS = 50_000
ATTRIBUTES = 11
TOPOLOGY = f"""\
job: JOB
input: {{path: shards, repeat: {ITEMS // ROWS}}}
micro_batch: {MICRO_BATCH}
stages:
  source: {{operator: "shard_source:ShardSource"}}
  processor: {{operator: "ALGORITHM:Gradient", parallelism: {PROCESSORS}}}
  sink: {{operator: "ALGORITHM:Model", options: {{learning_rate: 0.5}}}}
edges:
  - {{from: source, to: processor, partitioning: stripe}}
  - {{from: processor, to: sink, partitioning: merge}}
  - {{from: sink, to: processor, feedback: true}}
fault_tolerance: SCHEME
"""
Model = dict[str, np.ndarray]


class Arena:
    """A directory with shards, in which schedules run one after the other; it knows the undisturbed models."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        write_shards(directory / "shards", ROWS, [n - 5.0 for n in range(ATTRIBUTES)])
        self._models: dict[str, Model] = {}

    def model(self, scheme: str) -> Model:
        """The model that the scheme's job gives when nothing is done to it."""
        if scheme not in self._models:
            trial = Trial(self.directory, Schedule(0, 0, scheme, ()))
            trial.run(model=None)
            self._models[scheme] = trial.model
        return self._models[scheme]

    def run(self, schedule: Schedule) -> dict[str, Any]:
        """Run a schedule; the summary of a job that ended as it must. Wrong says what was wrong."""
        return Trial(self.directory, schedule).run(self.model(schedule.scheme))


class Trial:
    """One schedule, in a run directory of its own, with a job name that no other job on this machine has."""

    def __init__(self, directory: Path, schedule: Schedule) -> None:
        self.schedule = schedule
        self.cli = Cli(directory)
        self.job = f"soak-{self.cli.mark[:12]}"
        self.out = directory / self.job
        self.deadline = time.monotonic() + DEADLINE_S
        self.file = directory / f"{self.job}.yaml"
        algorithm = "random_features" if schedule.scheme == HYBRID else "logistic_regression"
        words = {"JOB": self.job, "SCHEME": SCHEMES[schedule.scheme], "ALGORITHM": algorithm}
        self.file.write_text(reduce(lambda text, word: text.replace(word, words[word]), words, TOPOLOGY))
        self.model: Model = {}
        """What came out."""

    def run(self, model: Model | None) -> dict[str, Any]:
        """Run all attempts, check all; the summary, with how many faults were `injected`.

        The run directory goes when all is well. `model` None: whichever comes out.
        """
        try:
            summary = self._attempts()
            self._check(summary, model)
            summary["injected"] = sum(event["event"] == "fault_injected" for event in read_events(self.out))
        finally:
            self.cli.kill_all()
        shutil.rmtree(self.out)
        self.file.unlink()
        return summary

    def _attempts(self) -> dict[str, Any]:
        out = ""
        for number, (faults, killed_at) in enumerate(self.schedule.attempts):
            words = ["--resume", str(self.out)] if number else [str(self.file), "--out", str(self.out)]
            words += [word for fault in faults for word in ("--fault", fault)]
            launcher = self.cli.start("run", "--json", *words)
            if killed_at is not None:
                self._kill(launcher, number, killed_at)
            out, err = self._output(launcher)
            if killed_at is None and launcher.returncode:
                raise Wrong(f"exit code {launcher.returncode}: {err[-1500:]}")
        summary: dict[str, Any] = json.loads(out)
        return summary

    def _kill(self, launcher: subprocess.Popen[str], number: int, epoch: int) -> None:
        """SIGKILL the launcher of an attempt at its epoch, if it gets there; everything that it started goes with it.

        Where the one before came further than that, it is killed as soon as it has begun.
        """
        self._await(lambda: self._is_at(number, epoch) or launcher.poll() is not None, "the launcher's end")
        launcher.kill()
        self._await(lambda: not self.cli.processes(), "the end of what a killed launcher had started")

    def _output(self, launcher: subprocess.Popen[str]) -> tuple[str, str]:
        try:
            return launcher.communicate(timeout=max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            launcher.kill()
            err = launcher.communicate()[1]
            raise Wrong(f"it hung; after {DEADLINE_S:.0f} s it said: {err[-1500:]}") from None

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            if time.monotonic() > self.deadline:
                raise Wrong(f"it hung: waited in vain for {what}")
            time.sleep(0.002)

    def _is_at(self, number: int, epoch: int) -> bool:
        """Whether an attempt, counted from 0, has begun, and so many epochs are committed."""
        begun, rows = _lines(self.out / "attempts.jsonl"), _lines(self.out / "epochs.csv")
        return begun > number and rows > epoch

    def _check(self, summary: dict[str, Any], model: Model | None) -> None:
        with (self.out / "epochs.csv").open() as file:
            rows = [(int(row["epoch"]), int(row["items"])) for row in csv.DictReader(file)]
        self._expect(rows, [(epoch, MICRO_BATCH) for epoch in range(1, EPOCHS + 1)], "epochs.csv")
        self._expect((summary["completed"], summary["items"]), (True, ITEMS), "the summary")
        self._expect(list(sentences(summary["lost"])), [], "losses")
        with np.load(self.out / "model.npz") as arrays:
            self.model = dict(arrays)
        if model is not None:
            alike = _is_close if self.schedule.scheme == HYBRID else np.array_equal
            unlike = [name for name in model if not alike(self.model[name], model[name])]
            self._expect((self.model.keys(), unlike), (model.keys(), []), "the model")
        gone_by = time.monotonic() + GONE_S
        while (left := self.cli.processes()) and time.monotonic() < gone_by:
            time.sleep(0.01)
        self._expect(left, [], "processes left behind")
        self._expect(self._left(), [], "traces left behind")

    def _left(self) -> list[str]:
        """Sockets of this job and its backup servers, shared memory, and data of services."""
        run = json.loads((self.out / "attempts.jsonl").read_text().splitlines()[0])["run"]
        sockets = Path("/proc/net/unix").read_text().split()
        left = [name for name in sockets if name.startswith("@riprap") and (self.job in name or run in name)]
        left += [name for name in os.listdir("/dev/shm") if self.job in name or run in name]
        return left + [str(path) for path in (self.out / "backup", self.out / "logs/.zookeeper") if path.exists()]

    def _expect(self, found: Any, expected: Any, what: str) -> None:
        if found != expected:
            raise Wrong(f"{what}: found {str(found)[:600]}, expected {str(expected)[:200]}; see {self.out}")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Up to the rounding of a code over the real numbers."""
    return np.allclose(found, expected, rtol=1e-8, atol=1e-10)
