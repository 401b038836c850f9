"""Runs pilots of a job: short streams under thresholds to be tried, with the same kills in each."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.engine.run.display import NoDisplay
from riprap.engine.run.execute import run_to_end
from riprap.engine.run.start import start_anew
from riprap.engine.tune.loss import Results, losses, sizes
from riprap.operators.inputs.job_input import open_input

PILOT_WINDOWS = 20
PILOT_ITEMS = 2_000_000
"""By default a pilot has PILOT_WINDOWS windows, or as many as hold this number of items, if that is fewer."""


@dataclass(frozen=True)
class PilotOutcome:
    """A pilot that completed: its summary, and the arrays that its destinations wrote."""

    summary: Mapping[str, Any]
    results: Results


@dataclass(frozen=True)
class Pilots:
    """Pilots of the topology in `file`, each in a run directory of its own below `folder`."""

    file: str
    topology: Topology
    folder: Path
    faults: tuple[str, ...]

    def run(self, name: str, section: Mapping[str, Any], items: int, disturbed: bool) -> PilotOutcome:
        """Run one to its end; JobFailed when it does not complete."""
        sets = [f"fault_tolerance={flow(section)}", "output=null", *_limits(self.topology, items)]
        faults, out = self.faults if disturbed else (), str(self.folder / name)
        start = start_anew(self.file, sets, faults, None, out, verify=False)  # the input was, once for all pilots
        summary, failure = run_to_end(start, NoDisplay(), None, 0)
        if failure is not None:
            raise failure
        return PilotOutcome(summary, _results(summary))


@dataclass(frozen=True)
class Quantity:
    """The measure of accuracy: a metric of the summary, an array of the results, or (None) all results."""

    name: str | None

    def sizes(self, outcome: PilotOutcome) -> dict[str, float]:
        """The absolute value of the metric, or the L1 norm of each array. ConfigError when there is no such thing, or
        it is no finite number, from which nothing has a distance."""
        found = self._sizes(outcome.summary["metrics"], sizes(outcome.results))
        if odd := [name for name, size in found.items() if not math.isfinite(size)]:
            raise ConfigError(
                f"{', '.join(odd)} of an undisturbed pilot is not finite, so no loss can be told by it",
                "name a metric or an array that is finite with --metric",
            )
        return found

    def _sizes(self, metrics: Mapping[Any, float | None], found: dict[str, float]) -> dict[str, float]:
        if self.name in metrics:
            return {str(self.name): abs(_number(metrics[self.name]))}
        if self.name is not None and self.name not in found:
            known = ", ".join([*metrics, *found]) or "nothing"
            raise ConfigError(f"--metric {self.name}: the job reports {known}", "name one of these")
        if not found:
            raise ConfigError("the job's destinations have no numbers as results", "name a metric with --metric")
        return {self.name: found[self.name]} if self.name is not None else found

    def loss(self, reference: PilotOutcome, found: PilotOutcome) -> float:
        """Share of it that was lost, relative to the undisturbed pilot; of several arrays the one that lost most."""
        before, after = reference.summary["metrics"], found.summary["metrics"]
        if self.name in before:
            there, here = before[self.name], _number(after.get(self.name, 0.0))
            if not math.isfinite(here):
                return math.inf
            return abs(here - there) / abs(there) if there else float(here != there)
        of = losses(reference.results, found.results)
        return of[self.name] if self.name is not None else max(of.values())


def pilot_items(asked: int | None, items: int, micro_batch: int, failures: int) -> int:
    """The items of a pilot's largest source. ConfigError when its windows are too few for that many kills."""
    usual = max(min(PILOT_WINDOWS * micro_batch, PILOT_ITEMS), (failures + 1) * micro_batch)
    chosen = min(items, asked or usual)
    windows = math.ceil(chosen / micro_batch)
    if windows <= failures:
        raise ConfigError(
            f"a pilot of {chosen:,} items has {windows} windows, too few for {failures} failures",
            "raise --pilot-items or input.repeat, or lower --failures or micro_batch",
        )
    return chosen


def kills(topology: Topology, windows: int, failures: int) -> tuple[str, ...]:
    """SPECs that kill workers drawn by the job's seed, different ones while there are any, at even distances."""
    draw = random.Random(topology.seed)  # noqa: S311 - to be drawn again alike
    workers: list[str] = []
    while len(workers) < failures:
        workers += draw.sample(every := [str(worker) for worker in topology.workers()], len(every))
    return tuple(
        f"kill:{worker}@epoch={max(1, n * windows // (failures + 1))}" for n, worker in enumerate(workers[:failures], 1)
    )


def _number(value: float | None) -> float:
    """The value of a metric, which a summary has as null where it is not finite."""
    return math.nan if value is None else value


def flow(section: Mapping[str, Any]) -> str:
    """A section on one line of YAML."""
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in section.items()) + "}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    return ".inf" if value == math.inf else f"{value:.15g}" if isinstance(value, float) else str(value)


def stream_items(topology: Topology) -> dict[str, int]:
    """Number of items that each source streams in all; DataError when an input cannot be read."""
    inputs = {stage: topology.input_of(stage) for stage in topology.sources}
    return {
        stage: open_input(one.path or "", 1 if one.repeat == "forever" else one.repeat, one.limit).items
        for stage, one in inputs.items()
    }


def _limits(topology: Topology, items: int) -> list[str]:
    """Options that cut the largest source off after `items` items, and the others at the same part of theirs."""
    totals = stream_items(topology)
    largest = max(totals.values())
    own = {stage: f"stages.{stage}.input" if topology.stages[stage].input else "input" for stage in totals}
    return [f"{own[stage]}.limit={max(1, -(-count * items // largest))}" for stage, count in totals.items()]


def _results(summary: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    model = summary["model"]
    files: Mapping[str, Any] = model.get("all") or ({"destination": model} if model.get("path") else {})
    return {worker: _arrays(file["path"]) for worker, file in files.items()}


def _arrays(path: str) -> dict[str, np.ndarray]:
    with np.load(path) as found:
        return dict(found)
