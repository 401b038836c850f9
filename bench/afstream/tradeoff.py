"""The base of experiments 3 to 5 (AFX 6.1.2): throughput undisturbed, accuracy after ten failures of all workers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.afstream.jobs import Case, Job, Outcome, interleave, keep, losses, median, percent, system_failures
from bench.afstream.settings import MINI_BATCH, NONE, UPSTREAM_BACKUP, approximate
from bench.runs import table

FAILURES = 10
Pair = tuple[float, float]


@dataclass(frozen=True)
class Study:
    """An algorithm, its job, and the paper's results; `pairs` are (Theta, L), `stages` the tasks of each stage."""

    name: str
    title: str
    unit: str
    job: Job
    stages: Mapping[str, int]
    pairs: Sequence[Pair]
    window: str
    accuracy: Callable[[Outcome], dict[str, float]]
    """By name, the accuracy that the paper gives first."""
    paper: Mapping[Pair, tuple[float, float]]
    paper_undisturbed: float
    paper_table: Mapping[str, float] = field(default_factory=dict)
    """Throughput under other schemes as a part of that without fault tolerance (AFX Table 5)."""
    paper_measure: str = ""
    """The paper's measure of accuracy, where it is not the first of ours."""
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The accuracy of models that have learned nothing, by their names."""
    shown: Callable[[float], str] = percent
    """The text of an accuracy in the table."""


def cases(study: Study) -> dict[str, Job]:
    """All jobs by the name of the scheme; those with failures end in "failing"."""
    killed = system_failures(study.stages, FAILURES)
    schemes = {"none": NONE, "mini_batch": MINI_BATCH, "upstream_backup": UPSTREAM_BACKUP}
    pairs = {label(theta, items): approximate(theta, items, window=study.window) for theta, items in study.pairs}
    made = {}
    for name, scheme in (schemes | pairs).items():
        made[name] = study.job.under(scheme)
        if name in pairs:
            made[f"{name}, failing"] = study.job.under(scheme, *killed)
    return made


def label(theta: float, items: float) -> str:
    """The name of a pair of thresholds."""
    return f"Theta {theta:g}, L {items:g}"


def measure(study: Study, options: argparse.Namespace, about: Mapping[str, Any]) -> None:
    """Run, print and save; `about` describes the data."""
    found = interleave(study.name, cases(study), options.runs)
    accuracies = {name: [study.accuracy(one) for one in case.outcomes] for name, case in found.items()}
    figures = {name: case.figures() | {"accuracy": accuracies[name]} for name, case in found.items()}
    items = max((one.summary["items"] for case in found.values() for one in case.outcomes), default=0)
    caption = f"{about['data']}; {items:,} items, medians of {options.runs}"
    tables = {
        f"Throughput without failures; {caption}": _throughputs(study, found),
        f"Accuracy, after up to {FAILURES} failures of all workers; {caption}": _accuracies(study, found, accuracies),
    }
    keep(options, study.name, study.title, tables, {**about, "cases": figures})


def _throughputs(study: Study, found: Mapping[str, Case]) -> str:
    paper = {**study.paper_table, **{label(*pair): 1 - lost for pair, (lost, _) in study.paper.items()}}
    rows = []
    for name, case in found.items():
        if not name.endswith("failing"):
            backups = [one.summary["backups"] for one in case.outcomes]
            saved = [sum(of[kind] for kind in ("state_backup_bytes", "item_backup_bytes")) / 1e6 for of in backups]
            states = median(of["state_backups"] for of in backups)
            lost, papers = losses(case, found["none"]), percent(1 - paper.get(name, float("nan")))
            rows.append([name, case.rate / 1e6, lost, papers, f"{states:.0f}", median(saved), case.n_of_n])
    heading = ["scheme", f"M {study.unit}/s", "loss", "paper's loss", "state backups", "MB saved", "runs completed"]
    return table(heading, rows)


def _accuracies(study: Study, found: Mapping[str, Case], accuracies: Mapping[str, list[dict[str, float]]]) -> str:
    names = list(next((values[0] for values in accuracies.values() if values), {}))
    rows: list[list[Any]] = []
    paper = {"none": study.paper_undisturbed} | {f"{label(*p)}, failing": a for p, (_, a) in study.paper.items()}
    for name, case in found.items():
        if name == "none" or name.endswith("failing"):
            values = [median(one[kind] for one in accuracies[name]) for kind in names]
            kills = median(one.kills for one in case.outcomes)
            papers = percent(paper.get(name, float("nan")))
            rows.append([name, *map(study.shown, values), papers, f"{kills:.0f}", case.n_of_n])
    for name, one in study.baselines.items():
        rows.append([name, *(study.shown(one[kind]) for kind in names), "-", "-", "-"])
    measure = study.paper_measure or (names[0] if names else "")
    return table(["scheme", *names, f"paper's {measure}", "workers restored", "runs completed"], rows)
