"""The cost of approximate fault tolerance when nothing fails: each workload with and without it, in pairs of runs.

python -m bench.afstream.overhead [--runs N] [--only WORKLOAD] [--quick]

The two runs of a pair follow each other, in an order that changes from round to round; ratios are taken within pairs.
CPU seconds are those of the workers, their threads for backups included; the backup server's own come on top.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.afstream import data
from bench.afstream.jobs import Case, Job, Outcome, keep, median, percent, run
from bench.afstream.settings import NONE, approximate
from bench.rounds import await_quiet
from bench.runs import table

WINDOWS = 60


@dataclass(frozen=True)
class Workload:
    """A shipped topology on a stream of some seconds, its fault tolerance, and the loss that is allowed for."""

    job: Job
    scheme: str
    target: float
    about: str


def workloads(quick: bool) -> dict[str, Workload]:
    """By name; the last one is the control, which must lose."""
    few = 10 if quick else 1
    text, links, (left, right) = data.text(800_000), data.links(1_000_000), data.cities(1_000_000)
    grep, words = stream("grep", text, 120 // few), stream("word_count", text, 15 // few)
    join = stream("online_join", left, 40 // few)
    passes = f"stages.right.input.repeat={40 // few}"
    join = Job(join.config, [*join.sets, f"stages.right.input.path={right.path}", passes])
    higgs, kdd12 = iterations("higgs", 1_000_000 // few), iterations("kdd12", 2_000_000 // few)
    heavy, clicks = stream("heavy_hitters", links, 800 // few), data.clicks(2_000_000)
    online = stream("online_logistic", clicks, max(1, 8_000_000 // few // clicks.rows))
    cities, sketched = approximate(1e5, 1e3), approximate(1e5, 1e3, window="hopping")
    return {
        "grep": Workload(grep, approximate(1e4, 1e3), 0.01, text.about),
        "word count": Workload(words, approximate(1e4, 1e3), 0.02, text.about),
        "heavy hitters": Workload(heavy, sketched, 0.01, links.about),
        "online join": Workload(join, cities, 0.02, left.about),
        "HIGGS, BSP": Workload(higgs, approximate(0.01, 2e3), 0.01, data.dense("higgs", 2_000_000).about),
        "KDD12, BSP": Workload(kdd12, approximate(0.01, 2e3), 0.01, data.dense("kdd12", 2_000_000).about),
        "sparse LR, Theta 10": Workload(online, approximate(10, 1e3), 0.01, clicks.about),
        "sparse LR, Theta 1": Workload(online, approximate(1, 1e2), 0.03, clicks.about),
        CONTROL: Workload(words, approximate(1, 1), float("nan"), text.about),
    }


CONTROL = "control: word count, Theta 1"


def stream(name: str, found: data.Data, repeat: int) -> Job:
    """A shipped topology over `repeat` passes of a stream."""
    window = max(1, found.rows * repeat // WINDOWS)
    return Job(f"configs/{name}.yaml", [f"input.path={found.path}", f"input.repeat={repeat}", f"micro_batch={window}"])


def iterations(name: str, size: int) -> Job:
    """Descent by windows of that size, on "higgs" or "kdd12"."""
    found, items = data.dense(name, 2_000_000), size * WINDOWS
    sets = [f"input.path={found.path}", f"input.repeat={-(-items // found.rows)}", f"input.limit={items}"]
    return Job(f"configs/convergence_{name}.yaml", [*sets, f"micro_batch={size}"])


@dataclass(frozen=True)
class Pair:
    """One run without and one with fault tolerance."""

    without: Outcome
    protected: Outcome

    @property
    def loss(self) -> float:
        """The part of the throughput that is lost."""
        return 1 - self.protected.rate / self.without.rate

    @property
    def cpu(self) -> float:
        """The CPU seconds more that an item takes, as a part of those without."""
        return cpu_of_item(self.protected) / cpu_of_item(self.without) - 1


def cpu_of_item(outcome: Outcome) -> float:
    """CPU seconds of the workers for each item."""
    return float(sum(outcome.summary["cpu_seconds"].values())) / float(outcome.summary["items"])


def measure(chosen: Mapping[str, Workload], rounds: int) -> dict[str, list[Pair]]:
    """The pairs of each workload. RuntimeError when a run does not complete."""
    pairs: dict[str, list[Pair]] = {name: [] for name in chosen}
    for number in range(rounds):
        for name, workload in chosen.items():
            schemes = [NONE, workload.scheme] if number % 2 == 0 else [workload.scheme, NONE]
            outcomes = {scheme: run(workload.job.under(scheme)) for scheme in schemes}
            pair = Pair(outcomes[NONE], outcomes[workload.scheme])
            pairs[name].append(pair)
            seconds = pair.without.summary["seconds"]
            said = f"{seconds:.1f} s, loss {percent(pair.loss)}, CPU {percent(pair.cpu)}"
            print(f"round {number + 1}: {name}: {said}", flush=True)
    return pairs


HEADING = (
    "workload", "s without", "loss of throughput", "its quartiles", "target", "more CPU", "its quartiles",
    "records a window", "kB a window",
)  # fmt: skip


def report(chosen: Mapping[str, Workload], pairs: Mapping[str, Sequence[Pair]]) -> str:
    """A row for each workload."""
    rows: list[list[Any]] = []
    for name, workload in chosen.items():
        found = pairs[name]
        losses, cpu = [pair.loss for pair in found], [pair.cpu for pair in found]
        saved = [pair.protected.summary["backups"] for pair in found]
        seconds = median(pair.without.summary["seconds"] for pair in found)
        row = [name, seconds, percent(median(losses)), span(losses), percent(workload.target)]
        row += [percent(median(cpu)), span(cpu), median(one["records"] for one in saved) / WINDOWS]
        rows.append([*row, median(one["record_bytes"] for one in saved) / WINDOWS / 1e3])
    return table(HEADING, rows)


def span(values: Sequence[float]) -> str:
    """The quartiles of the values."""
    if len(values) < 2:
        return "-"
    low, _, high = statistics.quantiles(values, n=4)
    return f"{percent(low)} to {percent(high)}"


def kept(found: Sequence[Pair]) -> dict[str, Any]:
    """The figures of a workload's pairs that are kept in the results."""
    without, protected = Case([pair.without for pair in found]), Case([pair.protected for pair in found])
    ratios = {"loss": [pair.loss for pair in found], "cpu": [pair.cpu for pair in found]}
    return {"none": without.figures(), "approximate": protected.figures(), **ratios}


def main() -> None:
    """Measure, print and save; `--only` prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="pairs of each workload")
    parser.add_argument("--only", action="append", help="the workloads whose names begin so; nothing is saved")
    parser.add_argument("--quick", action="store_true", help="one round with few items, to see that it works")
    options = parser.parse_args()
    options.runs = 1 if options.quick else options.runs
    chosen = workloads(options.quick)
    if options.only:
        chosen = {name: one for name, one in chosen.items() if name.startswith(tuple(options.only))}
    options.load = 0.0 if options.quick or options.only else await_quiet()
    pairs = measure(chosen, options.runs)
    options.quick = options.quick or bool(options.only)
    tables = {f"Medians of ratios over {options.runs} pairs of runs, {WINDOWS} windows": report(chosen, pairs)}
    about = {name: workload.about for name, workload in chosen.items()}
    figures = {
        "data": "; ".join(dict.fromkeys(about.values())),
        "about": about,
        "workloads": {name: kept(found) for name, found in pairs.items()},
    }
    keep(options, "afstream_overhead", "What approximate fault tolerance costs", tables, figures)


if __name__ == "__main__":
    main()
