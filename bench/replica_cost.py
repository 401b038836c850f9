"""Partially active replication while nobody dies: what order, checkpoints and replicas of all tasks cost (PPA, Fig. 9).

    python -m bench.replica_cost [--items N] [--rounds N] [--keys N]

Two sources, two tasks that keep a large map, and a destination, at full speed. CPU seconds are those of all workers,
with their start; a destination has no replica. The control is the case in which every task has one: it must cost more
than the same without.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
CASES = {
    NONE: "{scheme: none}",
    UNSAVED: "{scheme: partially_active, checkpoint_s: 86400, rebuild_after_s: null}",
    PASSIVE: "{scheme: partially_active, checkpoint_s: 1}",
    ACTIVE: "{scheme: partially_active, checkpoint_s: 1, replicate: [read, map]}",
}
COLUMNS = ("case", "M items/s", "CPU s per million items", "copied bytes an item", "bytes by reference an item", "runs")
RATIOS = ("of", "against", "throughput", "CPU", "copied bytes")
PAIRS = ((UNSAVED, NONE), (PASSIVE, NONE), (PASSIVE, UNSAVED), (ACTIVE, PASSIVE))


def speed(done: Run) -> float:
    """Items per second."""
    return float(done.summary["items_per_second"])


def cpu(done: Run) -> float:
    """CPU seconds of all workers for an item."""
    return float(sum(done.summary["cpu_seconds"].values())) / done.summary["items"]


def copied(done: Run) -> float:
    """Bytes for an item that were sent as copies."""
    return float(sum(done.summary["bytes_sent"].values())) / done.summary["items"]


def shared(done: Run) -> float:
    """Bytes for an item that were sent by reference."""
    return float(sum(done.summary["bytes_shared"].values())) / done.summary["items"]


def measure(items: int, keys: int, scheme: str) -> Run:
    """One run. RuntimeError where it does not complete, or counts an item not once."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 100_000)
        job.write_text(JOB.format(lines=lines, limit=items, batch=BATCH, keys=keys, scheme=scheme))
        done = run(str(job))
    if not done.summary["completed"] or done.summary["items"] != items:
        raise RuntimeError(f"{done.summary['items']} items of {items}")
    return done


def row(name: str, case: Found[Run]) -> list[Any]:
    """A case in figures."""
    cells = [case.median(speed) / 1e6, case.median(cpu) * 1e6, case.median(copied), case.median(shared)]
    return [name, *cells, case.n_of_n]


def ratios(found: Mapping[str, Found[Run]]) -> list[list[str]]:
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
