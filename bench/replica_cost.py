"""Partially active replication while nobody dies: what order, checkpoints and replicas of all tasks cost (PPA, Fig. 9).

    python -m bench.replica_cost [--items N] [--rounds N] [--keys N]

Two sources, two tasks that keep a large map, and a destination, at full speed. CPU seconds are those of all workers,
with their start. The control is the case in which every task has a replica: it must cost more than the same without.
Beside it that job twice at once, which computes as much with nothing in common: by so much more than twice of one does
the machine do worse with twice the processes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import Run, run, save, table

BATCH = 50_000
JOB = """\
job: replica_cost
input: {{path: {lines}, repeat: 10000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 2}}
  map: {{operator: "bench.large_map:PassingMap", parallelism: 2, options: {{keys: {keys}}}}}
  count: {{operator: "bench.large_map:Counted", parallelism: 1}}
edges:
  - {{from: read, to: map, partitioning: full}}
  - {{from: map, to: count, partitioning: full}}
fault_tolerance: {scheme}
"""
NONE = "none"
UNSAVED, PASSIVE, ACTIVE = "no checkpoint", "a checkpoint every second", "the same, and replicas of all tasks"
TWICE = "two jobs at once with a checkpoint every second"


class Case(NamedTuple):
    """The scheme, and how many such jobs run at once."""

    scheme: str
    jobs: int = 1


CASES = {
    NONE: Case("{scheme: none}"),
    UNSAVED: Case("{scheme: partially_active, checkpoint_s: 86400, rebuild_after_s: null}"),
    PASSIVE: Case("{scheme: partially_active, checkpoint_s: 1}"),
    ACTIVE: Case("{scheme: partially_active, checkpoint_s: 1, replicate: [read, map, count]}"),
    TWICE: Case("{scheme: partially_active, checkpoint_s: 1}", jobs=2),
}
COLUMNS = ("case", "M items/s", "CPU s per million items", "copied bytes an item", "bytes by reference an item", "runs")
RATIOS = ("of", "against", "throughput", "CPU", "copied bytes")
PAIRS = (
    (UNSAVED, NONE), (PASSIVE, NONE), (PASSIVE, UNSAVED), (ACTIVE, PASSIVE), (TWICE, PASSIVE), (ACTIVE, TWICE),
)  # fmt: skip
Runs = list[Run]
"""Those of a round: jobs that ran at once, on an input each."""


def speed(done: Runs) -> float:
    """Items per second of a job."""
    return sum(one.summary["items_per_second"] for one in done) / len(done)


def cpu(done: Runs) -> float:
    """CPU seconds of all workers of all jobs for an item of each."""
    return _sum(done, "cpu_seconds")


def copied(done: Runs) -> float:
    """Bytes for an item that were sent as copies."""
    return _sum(done, "bytes_sent")


def shared(done: Runs) -> float:
    """Bytes for an item that were sent by reference."""
    return _sum(done, "bytes_shared")


def _sum(done: Runs, name: str) -> float:
    return sum(float(sum(one.summary[name].values())) / one.summary["items"] for one in done)


def measure(items: int, keys: int, case: Case) -> Runs:
    """One round. RuntimeError where a job does not complete, or counts an item not once."""
    with ThreadPoolExecutor(case.jobs) as pool:
        return list(pool.map(lambda _: _job(items, keys, case.scheme), range(case.jobs)))


def _job(items: int, keys: int, scheme: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 100_000)
        job.write_text(JOB.format(lines=lines, limit=items, batch=BATCH, keys=keys, scheme=scheme))
        done = run(str(job))
    if not done.summary["completed"] or done.summary["items"] != items:
        raise RuntimeError(f"{done.summary['items']} items of {items}")
    return done


def row(name: str, case: Found[Runs]) -> list[Any]:
    """A case in figures."""
    cells = [case.median(speed) / 1e6, case.median(cpu) * 1e6, case.median(copied), case.median(shared)]
    return [name, *cells, case.n_of_n]


def ratios(found: Mapping[str, Found[Runs]]) -> list[list[str]]:
    """The pairs that the costs are told by."""
    return [
        [one, base, *(str(ratio(found[one], found[base], value)) for value in (speed, cpu, copied))]
        for one, base in PAIRS
    ]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000, help="of each map, 16 bytes each")
    options = parser.parse_args()
    load = await_quiet()
    found = alternate("replica_cost", CASES, partial(measure, options.items, options.keys), options.rounds)
    caption = f"{options.items / 1e6:g} M items, windows of {BATCH:,}, {options.keys * 16 / 1e6:.0f} MB of state a task"
    tables = {
        caption: table(COLUMNS, [row(name, case) for name, case in found.items()]),
        "Ratios within a round": table(RATIOS, ratios(found)),
    }
    data = "synthesized: one update an item, of keys that follow from its number"
    figures = {
        name: {"failed": case.failed, "speed": [*map(speed, case.done)], "cpu": [*map(cpu, case.done)]}
        for name, case in found.items()
    }
    save("replica_cost", "Partially active replication while nobody dies", tables, figures, data=data,
         rounds=options.rounds, load=load)  # fmt: skip


if __name__ == "__main__":
    main()
