"""The stall of a kill where a replica takes over, beside recovery from a checkpoint (PPA, Fig. 6 and 10).

    python -m bench.takeover [--kills N] [--rounds N] [--keys N]

A paced stream through a task that keeps a large map, killed again and again; always the copy that sends, or at a
destination the one that writes. The control is the same scheme without a replica: with a state so large its recovery
must take longer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.rounds import Found, alternate, await_quiet
from bench.runs import median, save, table
from bench.streamlec.killing import Killed, on_this_host

RATE, WINDOW_S = 50_000, 0.02
APART = 250
"""Windows between two kills."""
JOB = """\
job: takeover
input: {{path: {lines}, rate: {rate}, repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 1}}
  map: {{operator: "bench.large_map:{operator}", parallelism: 1, options: {{keys: {keys}}}}}
{behind}edges:
  - {{from: read, to: map, partitioning: full}}
{edge}fault_tolerance: {scheme}
"""
COUNT, TO_COUNT = (
    '  count: {operator: "bench.large_map:Counted", parallelism: 1}\n',
    "  - {from: map, to: count, partitioning: full}\n",
)
REPLICA = "{scheme: partially_active, checkpoint_s: 2, replicate: [map]}"
CHECKPOINT = "{scheme: partially_active, checkpoint_s: 2}"


class Case(NamedTuple):
    """A scheme, and whether the task that is killed is the destination, or the one before it."""

    scheme: str
    is_destination: bool = False

    def job(self, **fields: Any) -> str:
        """The topology, as text."""
        if self.is_destination:
            return JOB.format(scheme=self.scheme, operator="LargeMap", behind="", edge="", **fields)
        return JOB.format(scheme=self.scheme, operator="PassingMap", behind=COUNT, edge=TO_COUNT, **fields)


CASES = {
    "partially_active, a replica": Case(REPLICA),
    "partially_active, its checkpoint (control)": Case(CHECKPOINT),
    "partially_active, source replay of 2 s": Case("{scheme: partially_active, checkpoint_s: null, replay_s: 2}"),
    "partially_active, source replay of 6 s": Case("{scheme: partially_active, checkpoint_s: null, replay_s: 6}"),
    "upstream_backup": Case("{scheme: upstream_backup}"),
    "barrier, 1 s": Case("{scheme: barrier, interval_ms: 1000}"),
    "a destination: partially_active, a replica": Case(REPLICA, is_destination=True),
    "a destination: partially_active, its checkpoint (control)": Case(CHECKPOINT, is_destination=True),
}
COLUMNS = (
    "scheme", "usual gap ms", "stall ms, median", "longest", "kills", "detected ms", "restored ms",
    "CPU seconds per million items",
)  # fmt: skip


def measure(kills: int, keys: int, case: Case) -> Killed:
    """One run. RuntimeError where it does not complete, or counts an item not once."""
    victims = ("map.0", "map.0~1") if case.scheme == REPLICA else ("map.0",)
    windows = (kills + 1) * APART
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 100_000)
        batch = int(RATE * WINDOW_S)
        job.write_text(case.job(lines=lines, rate=RATE, limit=windows * batch, batch=batch, keys=keys))
        order = {(number + 1) * APART: [victims[number % len(victims)]] for number in range(kills)}
        done = on_this_host(str(job), [], order)
    if not done.summary["completed"] or done.summary["items"] != windows * batch:
        raise RuntimeError(f"{done.summary['items']} items of {windows * batch}")
    return done


def row(name: str, runs: Sequence[Killed]) -> list[Any]:
    """All kills of a case."""
    stalls = [stall for run in runs for stall in run.stalls_ms]
    cells: list[Any] = [name, median(run.usual_gap_ms for run in runs), median(stalls), max(stalls), len(stalls)]
    for part in ("detected", "restored"):
        known = [ms for run in runs for ms in run.parts_ms()[part] if ms is not None]
        cells.append(median(known) if known else "-")
    cpu = [sum(run.summary["cpu_seconds"].values()) / run.summary["items"] * 1e6 for run in runs]
    return [*cells, median(cpu)]


def figures_of(found: Mapping[str, Found[Killed]]) -> dict[str, Any]:
    """The figures that are kept."""
    return {
        name: {
            "rounds": case.n_of_n,
            "failed": case.failed,
            "kills": [one.figures() | one.parts_ms() for one in case.done],
        }
        for name, case in found.items()
    }


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=4, help="of a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=6_250_000, help="16 bytes each; 100 MB unless told")
    options = parser.parse_args()
    load = await_quiet()
    found = alternate("takeover", CASES, partial(measure, options.kills, options.keys), options.rounds)
    rows = [row(name, case.done) for name, case in found.items() if case.done]
    caption = (
        f"kill -9 of a task with {options.keys:,} keys, {options.keys * 16 / 1e6:.0f} MB; windows of"
        f" {WINDOW_S * 1000:.0f} ms, {RATE:,} items/s; milliseconds"
    )
    tables = {caption: table(COLUMNS, rows)}
    data = "synthesized: one update an item, of keys that follow from its number"
    save("takeover", "Takeover by a replica", tables, figures_of(found), data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
