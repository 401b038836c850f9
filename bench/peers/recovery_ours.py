"""Riprap when a processor is killed, under each scheme: the outputs are the micro-batches in epochs.csv."""

from __future__ import annotations

from typing import NamedTuple

from bench.afstream.jobs import Job, Outcome, run
from bench.peers.recovery_times import Output
from bench.peers.workloads import books, true_counts
from bench.runs import ready

LOGISTIC = "configs/logistic_regression_kdd12.yaml"
WORDS = "configs/word_count.yaml"
PASSES = 12


class Case(NamedTuple):
    """A topology under a scheme (its own where none is given), and the worker to kill."""

    config: str
    scheme: str
    victims: tuple[str, ...]


PROCESSORS = tuple(f"processor.{number}" for number in range(6))
COUNTERS = ("count.0", "count.1")
CASES = {
    "none": Case(LOGISTIC, "{scheme: none}", PROCESSORS),
    "erasure (4,2)": Case(LOGISTIC, "{scheme: erasure, code: gf256, k: 4, r: 2}", PROCESSORS),
    "replication 3x": Case(LOGISTIC, "{scheme: replication, copies: 3}", PROCESSORS),
    "reactive": Case(LOGISTIC, "{scheme: reactive}", PROCESSORS),
    "barrier, 1 s": Case(LOGISTIC, "{scheme: barrier, interval_ms: 1000}", PROCESSORS),
    "barrier, 100 ms": Case(LOGISTIC, "{scheme: barrier, interval_ms: 100}", PROCESSORS),
    "approximate": Case(WORDS, "", COUNTERS),
    "mini_batch": Case(WORDS, "{scheme: mini_batch}", COUNTERS),
    "upstream_backup": Case(WORDS, "{scheme: upstream_backup}", COUNTERS),
}


class Disturbed(NamedTuple):
    """A run with kills: outputs and moments on one clock, in seconds; items, or words, due and counted."""

    outputs: list[Output]
    kills: list[float]
    noticed: list[float]
    due: int
    counted: int


def disturb(case: Case, kills: int, items: int, micro_batch: int) -> Disturbed:
    """One run with kills at equal distances. RuntimeError when it does not complete."""
    shares = [100 * (number + 1) / (kills + 1) for number in range(kills)]
    faults = [f"kill:{case.victims[n % len(case.victims)]}@{share:.4g}%" for n, share in enumerate(shares)]
    sets, due = _logistic(items) if case.config == LOGISTIC else _words()
    scheme = [f"fault_tolerance={case.scheme}"] if case.scheme else []
    job = run(Job(case.config, [*sets, f"micro_batch={micro_batch}", *scheme], faults))
    failures = [failure for failure in job.summary["failures"] if failure["action"] == "kill"]
    noticed = [f["injected_at"] + f["detected_ms"] / 1000 for f in failures if f["detected_ms"] is not None]
    moments = [failure["injected_at"] for failure in failures]
    return Disturbed(committed(job.epochs), moments, noticed, due, _counted(job, case))


def _logistic(items: int) -> tuple[list[str], int]:
    return [f"input.path={ready('kdd12', 2_000_000)}", "input.repeat=1000", f"input.limit={items}"], items


def _words() -> tuple[list[str], int]:
    folder = books(few=False)
    due = int(true_counts(str(folder))["words"]) * PASSES
    return [f"input.path={folder}", f"input.repeat={PASSES}", "stages.split.options.ascii=true"], due


def _counted(job: Outcome, case: Case) -> int:
    if case.config == WORDS:
        return sum(int(result["counts"].sum()) for result in job.results)
    return int(sum(row["items"] for rows in job.epochs for row in rows))


def committed(tasks: list[list[dict[str, float]]]) -> list[Output]:
    """The moments when each epoch was committed by all tasks of the destination, in the order of time."""
    latest: dict[int, float] = {}
    for row in (row for rows in tasks for row in rows):
        epoch = int(row["epoch"])
        latest[epoch] = max(latest.get(epoch, 0.0), row["committed_at"])
    everywhere = [epoch for epoch in latest if all(any(row["epoch"] == epoch for row in rows) for rows in tasks)]
    return sorted((Output(epoch, latest[epoch]) for epoch in everywhere), key=lambda output: output.at)
