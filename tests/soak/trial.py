"""Runs one schedule of faults on a training job, and compares its model."""

from __future__ import annotations

import csv
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from attempts import Trial
from cli_harness import write_shards
from schedules import EPOCHS, HYBRID, ITEMS, MICRO_BATCH, PROCESSORS, SCHEMES, Schedule

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
            trial = Training(self.directory, Schedule(0, 0, scheme, ()), None)
            trial.run()
            self._models[scheme] = trial.model
        return self._models[scheme]

    def run(self, schedule: Schedule) -> dict[str, Any]:
        """Run a schedule; the summary of a job that ended as it must. Wrong says what was wrong."""
        return Training(self.directory, schedule, self.model(schedule.scheme)).run()


class Training(Trial):
    """One schedule of a training job. `truth`: the model that it must come to; None: whichever comes out."""

    def __init__(self, directory: Path, schedule: Schedule, truth: Model | None) -> None:
        algorithm = "random_features" if schedule.scheme == HYBRID else "logistic_regression"
        words = {"SCHEME": SCHEMES[schedule.scheme], "ALGORITHM": algorithm}
        super().__init__(
            directory, schedule, reduce(lambda text, word: text.replace(word, words[word]), words, TOPOLOGY)
        )
        self._truth, self._alike = truth, _is_close if schedule.scheme == HYBRID else np.array_equal
        self.model: Model = {}
        """What came out."""

    def check(self, summary: dict[str, Any]) -> None:
        with (self.out / "epochs.csv").open() as file:
            rows = [(int(row["epoch"]), int(row["items"])) for row in csv.DictReader(file)]
        self.expect(rows, [(epoch, MICRO_BATCH) for epoch in range(1, EPOCHS + 1)], "epochs.csv")
        self.expect(summary["items"], ITEMS, "items")
        with np.load(self.out / "model.npz") as arrays:
            self.model = dict(arrays)
        if self._truth is not None:
            unlike = [name for name in self._truth if not self._alike(self.model[name], self._truth[name])]
            self.expect((self.model.keys(), unlike), (self._truth.keys(), []), "the model")


def _is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Up to the rounding of a code over the real numbers."""
    return np.allclose(found, expected, rtol=1e-8, atol=1e-10)
