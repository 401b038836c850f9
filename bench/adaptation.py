"""The output while a replica moves from one task to another (PPA V-C: described there, and not built).

    python -m bench.adaptation [--rounds N] [--keys N]

A paced stream through two tasks that keep large maps, of which the first has a replica; in the middle that one ends and
the other's begins, from its task's checkpoint. The longest gap between two commits from then on, beside the same run
without a change, and beside one in which the task without a replica is killed: with a state so large that must show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.measures import longest_gap_ms
from bench.rounds import Found, alternate, await_quiet
from bench.runs import median, save, table
from riprap.controller.client import Client
from riprap.controller.processes import tie_to_this_process
from riprap.engine.run_directory.directory import read_events

RATE, WINDOW_S = 25_000, 0.04
BEFORE, AFTER = 150, 250
"""Windows of a run before the change and behind it."""
WAIT_S = 60.0
JOB = """\
job: adaptation
input: {{path: {lines}, rate: {rate}, repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 1}}
  map: {{operator: "bench.large_map:PassingMap", parallelism: 2, options: {{keys: {keys}}}}}
  count: {{operator: "bench.large_map:Counted", parallelism: 1}}
edges:
  - {{from: read, to: map, partitioning: split}}
  - {{from: map, to: count, partitioning: merge}}
fault_tolerance: {{scheme: partially_active, checkpoint_s: 2, adapt: true, replicate: [map.0]}}
"""
CASES = {
    "its replica moves": lambda client: client.adapt("adaptation", ["map.1"]),
    "nothing changes": lambda client: None,
    "who has none is killed (control)": lambda client: client.kill("adaptation", "map.1"),
}
COLUMNS = ("in the middle", "longest gap ms", "in windows", "worst", "until the old one ends, s", "runs")
Change = Callable[[Client], Any]


class Changed(NamedTuple):
    """One run."""

    gap_ms: float
    moved_s: float | None
    """From the request until the old replica ends; None where none does."""


def measure(keys: int, change: Change) -> Changed:
    """One run with its change. RuntimeError where it does not complete, or counts an item not once."""
    batch = int(RATE * WINDOW_S)
    items = (BEFORE + AFTER) * batch
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job, out = Path(folder, "lines.txt"), Path(folder, "job.yaml"), Path(folder, "run")
        lines.write_text("x\n" * 100_000)
        job.write_text(JOB.format(lines=lines, rate=RATE, limit=items, batch=batch, keys=keys))
        command = [sys.executable, "-m", "riprap.engine.cli.main", "run", str(job), "--json", "--out", str(out)]
        launcher = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=tie_to_this_process()
        )
        try:
            at = _at_window(out, launcher, change)
            said, error = launcher.communicate(timeout=WAIT_S)
        finally:
            launcher.terminate()
            launcher.wait()
        if launcher.returncode:
            raise RuntimeError(error)
        if json.loads(said)["items"] != items:
            raise RuntimeError(f"{json.loads(said)['items']} items of {items}")
        ends = [float(event["monotonic"]) for event in read_events(out) if event["event"] == "replica_ends"]
        return Changed(longest_gap_ms(_commits(out), at, at + AFTER * WINDOW_S), ends[0] - at if ends else None)


def _at_window(out: Path, launcher: subprocess.Popen[str], change: Change) -> float:
    """Wait for the middle, and make the change; its moment."""
    deadline = time.monotonic() + WAIT_S
    while len(_commits(out)) < BEFORE:
        if launcher.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the job has not come to its middle")
        time.sleep(WINDOW_S / 4)
    started = next(event for event in read_events(out) if event["event"] == "cluster_started")
    with Client(str(started["zookeeper"])) as client:
        client.status("adaptation")  # what a first request needs is there
        at = time.monotonic()
        change(client)
    return at


def _commits(out: Path) -> Sequence[float]:
    file = out / "epochs.csv"
    lines = file.read_text().splitlines() if file.exists() else []
    at = lines[0].split(",").index("committed_at") if lines else 0
    return [float(line.split(",")[at]) for line in lines[1:] if line.count(",") >= at]


def row(name: str, found: Found[Changed]) -> list[Any]:
    """A line of the table."""
    gaps = [run.gap_ms for run in found.done]
    moved = [run.moved_s for run in found.done if run.moved_s is not None]
    windows = median(gaps) / (WINDOW_S * 1000)
    return [name, median(gaps), windows, max(gaps), median(moved) if moved else "-", found.n_of_n]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=6_250_000, help="of each task, 16 bytes each; 100 MB unless told")
    options = parser.parse_args()
    load = await_quiet()
    found = alternate("adaptation", CASES, partial(measure, options.keys), options.rounds)
    rows = [row(name, case) for name, case in found.items() if case.done]
    caption = (
        f"two tasks with {options.keys:,} keys each, {options.keys * 16 / 1e6:.0f} MB; windows of"
        f" {WINDOW_S * 1000:.0f} ms, {RATE:,} items/s; asked: no gap over 1.5 windows"
    )
    figures = {
        name: {"runs": [one._asdict() for one in case.done], "failed": case.failed} for name, case in found.items()
    }
    data = "synthesized: one update an item, of keys that follow from its number"
    save(
        "adaptation",
        "Replicas that move",
        {caption: table(COLUMNS, rows)},
        figures,
        data=data,
        rounds=options.rounds,
        load=load,
    )


if __name__ == "__main__":
    main()
