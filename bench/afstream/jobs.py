"""Runs the jobs of the experiments through the command line, interleaved, and keeps all that they leave behind."""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import riprap, save

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """A topology with overrides and faults."""

    config: str
    sets: Sequence[str] = ()
    faults: Sequence[str] = ()

    def under(self, scheme: str, *faults: str) -> Job:
        """The same job with another fault_tolerance section, and with faults."""
        return Job(self.config, [*self.sets, f"fault_tolerance={scheme}"], faults)


@dataclass(frozen=True)
class Outcome:
    """The results of a completed job: summary, results and epochs of each destination's task, events."""

    summary: dict[str, Any]
    results: list[Arrays]
    epochs: list[list[dict[str, float]]]
    events: list[dict[str, Any]]

    @property
    def rate(self) -> float:
        """Items a second."""
        return float(self.summary["items_per_second"])

    @property
    def kills(self) -> int:
        """The number of workers killed and restored."""
        return sum(failure["restored_ms"] is not None for failure in self.summary["failures"])


class Case(Found[Outcome]):
    """The outcomes of one job, round by round, and the messages of its runs that did not complete."""

    @property
    def outcomes(self) -> list[Outcome]:
        """The rounds that completed."""
        return self.done

    @property
    def rate(self) -> float:
        """Median items a second; NaN when no run completed."""
        return statistics.median(one.rate for one in self.outcomes) if self.outcomes else float("nan")

    def figures(self) -> dict[str, Any]:
        """The figures of it that are kept in the results."""
        return {
            "items_per_second": [one.rate for one in self.outcomes],
            "backups": [one.summary["backups"] for one in self.outcomes],
            "kills": [one.kills for one in self.outcomes],
            "failed": self.failed,
        }


def run(job: Job) -> Outcome:
    """One run; RuntimeError when it does not complete."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        out = Path(folder) / "run"
        words = ["run", job.config, "--json", "--out", str(out)]
        words += [word for value in job.sets for word in ("--set", value)]
        words += [word for spec in job.faults for word in ("--fault", spec)]
        summary = json.loads(riprap(*words))
        results = [dict(np.load(file)) for file in sorted(out.glob("model*.npz"), key=_task)]
        epochs = [_epochs(file) for file in sorted(out.glob("epochs*.csv"), key=_task)]
        with open(out / "events.jsonl") as file:
            events = [json.loads(line) for line in file]
    return Outcome(summary, results, epochs, events)


def _task(file: Path) -> int:
    """The index of a task in the name of its file, NAME.INDEX.SUFFIX; 0 where there is one task only."""
    parts = file.name.split(".")
    return int(parts[1]) if len(parts) > 2 else 0


def _epochs(file: Path) -> list[dict[str, float]]:
    with open(file) as lines:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]


def interleave(title: str, cases: Mapping[str, Job], rounds: int) -> dict[str, Case]:
    """Run all cases in turn, in an order that changes from round to round; failed runs are kept as such."""
    found = alternate(title, cases, run, rounds)
    return {name: Case(case.rounds, case.failed) for name, case in found.items()}


def loss(case: Case, base: Case) -> float:
    """The part of the throughput that a case loses against another: the median over rounds where both completed."""
    return 1 - ratio(case, base, lambda one: one.rate).median


def losses(case: Case, base: Case) -> str:
    """The same with its interval, for a table."""
    found = ratio(case, base, lambda one: one.rate)
    if found.median != found.median:
        return "-"
    return f"{percent(1 - found.median)} ({percent(1 - found.high)} to {percent(1 - found.low)}; {found.n_of_n})"


def system_failures(stages: Mapping[str, int], count: int) -> list[str]:
    """Kills of all workers at `count` moments, evenly spread over the stream (AFX 6.1.2)."""
    workers = [f"{stage}.{index}" for stage, tasks in stages.items() for index in range(tasks)]
    moments = [100 * (number + 1) / (count + 1) for number in range(count)]
    return [f"kill:{worker}@{moment:.4g}%" for moment in moments for worker in workers]


def median(values: Iterable[float]) -> float:
    """The median; NaN of nothing."""
    numbers = list(values)
    return statistics.median(numbers) if numbers else float("nan")


def keep(options: argparse.Namespace, name: str, title: str, tables: dict[str, str], figures: dict[str, Any]) -> None:
    """Print and save the measurements; those of a quick look are printed only."""
    if not options.quick:
        save(name, title, tables, figures, data=str(figures["data"]), rounds=options.runs, load=options.load)
        return
    for caption, text in tables.items():
        print(f"\n{caption}\n\n{text}", flush=True)


def percent(part: float) -> str:
    """A fraction for a table; a dash for NaN."""
    return "-" if part != part else f"{100 * part:.1f} %"


def arguments(doc: str, runs: int = 5) -> argparse.Namespace:
    """`--runs N` and `--quick`, by which every experiment ends within seconds; `load` is what the machine bears.

    It is waited for until the machine is quiet, unless a quick look will do.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--quick", action="store_true", help="one round with few items, to see that it works")
    options = parser.parse_args()
    options.runs = 1 if options.quick else options.runs
    options.load = 0.0 if options.quick else await_quiet()
    return options
