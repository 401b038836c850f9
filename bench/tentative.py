"""An outage as its user sees it: first tentative output, exact output, amendment (PPA, Fig. 10).

    python -m bench.tentative [--rounds N] [--keys N]

A paced stream through two tasks that keep a large map each; both primaries are killed at once, once a run. Both, one
or none of them has a replica. The control is the job with one replica that shows nothing tentative: it must be silent
until the other task is back. In place, as in the paper, windows are closed without that task, and never made exact.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench.rounds import Found, alternate, await_quiet
from bench.runs import Run, median, run, save, table

RATE, WINDOW_S = 50_000, 0.02
BEFORE, AFTER, USUAL = 400, 400, 100
"""Windows of a run before the kill and behind it, and those before it whose latency is the usual one: when the maps are
filled, and what has waited for that is done."""
JOB = """\
job: tentative
input: {{path: {lines}, {pace}repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 1}}
  map: {{operator: "bench.large_map:PassingMap", parallelism: 2, options: {{keys: {keys}}}}}
  count: {{operator: "bench.large_map:Counted", parallelism: 1}}
edges:
  - {{from: read, to: map, partitioning: full}}
  - {{from: map, to: count, partitioning: full}}
fault_tolerance: {scheme}
"""
EXACT, SHOWS, AT_ONCE = "", ", tentative_after_ms: 100", ", tentative_after_ms: 1"
IN_PLACE = SHOWS + ", reconcile: false"
SCHEME = "{{scheme: partially_active, checkpoint_s: 2, replicate: [{replicas}]{shows}}}"


class Case(NamedTuple):
    """The tasks that have a replica, and the options of tentative output."""

    replicas: str
    shows: str = SHOWS

    @property
    def scheme(self) -> str:
        """The line of the topology."""
        return SCHEME.format(replicas=self.replicas, shows=self.shows)


CASES = {
    "both have a replica (PPA-1.0)": Case("map"),
    "one has a replica (PPA-0.5)": Case("map.1"),
    "one has a replica, shown as soon as the death is known": Case("map.1", AT_ONCE),
    "one has a replica, nothing tentative (control)": Case("map.1", EXACT),
    "one has a replica, in place as in the paper": Case("map.1", IN_PLACE),
    "none has a replica (PPA-0)": Case(""),
}
PAUSE_S, SOON_S = 0.2, 0.5
"""Without exact windows, so long: output was interrupted; by the kill, where that began so soon after it."""
VICTIMS = ("map.0", "map.1")
COLUMNS = (
    "case", "detected ms", "first tentative window ms", "first exact window ms", "amended by ms", "tentative windows",
    "completeness", "latency while tentative / before: median", "p99", "longest silence ms", "items left out", "rounds",
)  # fmt: skip


@dataclass(frozen=True)
class Outage:
    """The output of a destination around a kill; milliseconds from the kill, None where there was none."""

    detected_ms: float
    tentative_ms: float | None
    exact_ms: float | None
    """Until exact windows go on: the end of the first pause of more than PAUSE_S between them, None without one; in
    place the first window that lacks nothing."""
    amended_ms: float | None
    windows: int
    completeness: float | None
    latency: tuple[float, float] | None
    """Median and 99th percentile of the tentative windows' latency over the exact ones' before the kill."""
    silence_ms: float
    """The longest time without any output, exact or tentative."""
    left_out: int
    """The items that are in no window for good."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def outage_of(done: Run) -> Outage:
    """Read a run with its one kill."""
    kills = [failure for failure in done.summary["failures"] if failure["action"] == "kill"]
    at = min(failure["injected_at"] for failure in kills)
    commits = sorted(committed for _, _, _, committed in done.epochs)
    near = [(begin, end) for begin, end in pairwise(commits) if begin - SOON_S < at < end]
    resumed = next((end for begin, end in near if end - max(begin, at) > PAUSE_S), None)
    shown = sorted(float(line["shown_at"]) for line in done.tentative)
    amended = [float(line["amended_at"]) for line in done.tentative if line["amended_at"].strip()]
    shares = [float(line["completeness"]) for line in done.tentative if line["completeness"]]
    if shown and not amended:
        resumed = next((end for end in commits if end > shown[-1]), None)
    outputs = sorted([*commits, *shown])
    if shown and shown[0] < at:
        raise RuntimeError("tentative output before the kill")
    usual = [latency for _, _, latency, committed in done.epochs if committed < at][-USUAL:]
    latencies = [float(line["latency_ms"]) for line in done.tentative]
    return Outage(
        detected_ms=max(failure["detected_ms"] for failure in kills),
        tentative_ms=(shown[0] - at) * 1000 if shown else None,
        exact_ms=(resumed - at) * 1000 if resumed else None,
        amended_ms=(max(amended) - at) * 1000 if amended else None,
        windows=len(shown),
        completeness=sum(shares) / len(shares) if shares else None,
        latency=_beside(latencies, usual) if shown else None,
        left_out=done.summary["lost"]["items"],
        silence_ms=max(end - max(begin, at) for begin, end in pairwise(outputs) if end > at) * 1000,
    )


def _beside(latencies: Sequence[float], usual: Sequence[float]) -> tuple[float, float]:
    return median(latencies) / median(usual), percentile(latencies, 0.99) / percentile(usual, 0.99)


def speed_of(keys: int) -> float:
    """Items per second of the job when nothing paces it."""
    return float(_job(keys, CASES["none has a replica (PPA-0)"], pace="", faults=[]).summary["items_per_second"])


def measure(keys: int, case: Case) -> Outage:
    """One run with its kill. RuntimeError where it does not complete, or does not account for each item once."""
    faults = [f"kill:{victim}@epoch={BEFORE}" for victim in VICTIMS]
    return outage_of(_job(keys, case, pace=f"rate: {RATE}, ", faults=faults))


def _job(keys: int, case: Case, pace: str, faults: Sequence[str]) -> Run:
    batch = int(RATE * WINDOW_S)
    items = (BEFORE + AFTER) * batch
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 100_000)
        text = JOB.format(lines=lines, pace=pace, limit=items, batch=batch, keys=keys, scheme=case.scheme)
        job.write_text(text)
        done = run(str(job), [], faults)
    counted, lost = done.summary["items"], done.summary["lost"]["items"]
    if not done.summary["completed"] or counted + lost != items or (lost and case.shows != IN_PLACE):
        raise RuntimeError(f"{counted} items of {items}, {lost} of them lost")
    return done


def row(name: str, case: Found[Outage]) -> list[Any]:
    """The medians of a case."""

    def middle(values: Sequence[float | None]) -> Any:
        known = [value for value in values if value is not None]
        return median(known) if known else "-"

    runs = case.done
    cells: list[Sequence[float | None]] = [
        [one.detected_ms for one in runs],
        [one.tentative_ms for one in runs],
        [one.exact_ms for one in runs],
        [one.amended_ms for one in runs],
        [float(one.windows) for one in runs],
        [one.completeness for one in runs],
        [one.latency[0] if one.latency else None for one in runs],
        [one.latency[1] if one.latency else None for one in runs],
        [one.silence_ms for one in runs],
        [float(one.left_out) for one in runs],
    ]
    return [name, *map(middle, cells), case.n_of_n]


def figures_of(found: Mapping[str, Found[Outage]], speed: float) -> dict[str, Any]:
    """The figures that are kept; `busy` is the share of its speed that the job is fed at."""
    cases = {name: {"failed": case.failed, "runs": [vars(one) for one in case.done]} for name, case in found.items()}
    return {"items_per_second_unpaced": speed, "busy": RATE / speed, "cases": cases}


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=6_250_000, help="of each task, 16 bytes each; 100 MB unless told")
    options = parser.parse_args()
    load = await_quiet()
    speed = speed_of(options.keys)
    found = alternate("tentative", CASES, partial(measure, options.keys), options.rounds)
    caption = (
        f"kill -9 of both of two tasks with {options.keys:,} keys each, {options.keys * 16 / 1e6:.0f} MB; windows of"
        f" {WINDOW_S * 1000:.0f} ms, {RATE:,} items/s, which is {RATE / speed:.0%} of what the job does unpaced;"
        " milliseconds from the kill, medians"
    )
    tables = {caption: table(COLUMNS, [row(name, case) for name, case in found.items() if case.done])}
    data = "synthesized: one update an item, of keys that follow from its number"
    save("tentative", "Tentative output", tables, figures_of(found, speed), data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
