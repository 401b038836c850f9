"""Checkpoints of a large state of which little changes: bytes, pauses and durations, and the cost of a kill.

    python -m bench.large_state [--keys N] [--rounds N] [--seconds N]

A map of int64 keys and values, 16 bytes an entry in a backup, under `barrier` with a checkpoint a second, in which one
entry of a hundred changes. The control saves all of it each time. The first checkpoints, which hold it whole, count
apart. At half time the worker that has the map is killed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.rounds import alternate, await_quiet
from bench.runs import median, riprap, save, table
from riprap.engine.run_directory.checkpoints import Checkpoint, read_checkpoints
from riprap.engine.schemes.parts.copies import SLICES

ENTRY_BYTES = 16
INTERVAL_MS = 1000
SHARE = 0.01
JOB = """\
job: large_state
input: {{path: {lines}, rate: {rate}, repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 1}}
  map: {{operator: "bench.large_map:{operator}", parallelism: 1, options: {{keys: {keys}}}}}
edges:
  - {{from: read, to: map, partitioning: full}}
fault_tolerance: {{scheme: barrier, interval_ms: {interval_ms}}}
"""
CASES = {"changes and slices": "LargeMap", "whole each time (control)": "SavedWhole"}
COLUMNS = (
    "state", "checkpoints", "MB each, median", "of changes and slices", "pause ms, median", "pause ms, p99",
    "took ms, median", "all of it: MB", "its pause ms", "restored ms after the kill",
)  # fmt: skip


class Ended(NamedTuple):
    """A run that completed with the right result."""

    checkpoints: list[Checkpoint]
    restored_ms: float


def measure(operator: str, keys: int, seconds: int) -> Ended:
    """One run. AssertionError where an item is not counted once."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, out, job = Path(folder, "lines.txt"), Path(folder, "run"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 1_000_000)
        rate = int(keys * SHARE * 1000 / INTERVAL_MS)
        values = {"lines": lines, "rate": rate, "limit": seconds * rate, "batch": max(1, rate // 20), "keys": keys}
        job.write_text(JOB.format(**values, operator=operator, interval_ms=INTERVAL_MS))
        summary = json.loads(riprap("run", str(job), "--json", "--out", str(out), "--fault", "kill:map.0@50%"))
        with np.load(next(out.glob("model*.npz"))) as found:
            assert found["items"].tolist() == [seconds * rate] * 2 and found["keys"] == keys + 1, dict(found)
        made = [one for one in read_checkpoints(out) if one.state == "completed"]
    return Ended(made, float(summary["failures"][0]["restored_ms"]))


def row(name: str, runs: Sequence[Ended], keys: int) -> list[Any]:
    """The checkpoints of all runs: those that hold all of the map, and the others behind the first of these."""
    all_bytes, changed_bytes = keys * ENTRY_BYTES, keys * SHARE * ENTRY_BYTES
    sizes = [(one.nbytes or 0, one) for run in runs for one in run.checkpoints]
    whole = [one for size, one in sizes if size >= all_bytes]
    rest = [one for size, one in sizes if changed_bytes / 2 < size < all_bytes] or whole
    each, pauses = median(one.nbytes or 0 for one in rest), sorted(one.copy_ms or 0 for one in rest)
    return [
        name, len(rest), each / 1e6, each / (changed_bytes + all_bytes / SLICES), median(pauses),
        pauses[int(0.99 * (len(pauses) - 1))], median(one.duration_ms or 0 for one in rest), all_bytes / 1e6,
        median(one.copy_ms or 0 for one in whole), median(run.restored_ms for run in runs),
    ]  # fmt: skip


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=62_500_000, help="16 bytes each; 1 GB unless told")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=60, help="of the stream")
    options = parser.parse_args()
    load = await_quiet()
    found = alternate(
        "large state", CASES, lambda operator: measure(operator, options.keys, options.seconds), options.rounds, False
    )
    rows = [row(name, case.done, options.keys) for name, case in found.items()]
    figures = {
        name: {
            "rounds": case.n_of_n,
            "restored_ms": [one.restored_ms for one in case.done],
            "checkpoints": [[made.fields() for made in one.checkpoints] for one in case.done],
            "failed": case.failed,
        }
        for name, case in found.items()
    }
    tables = {f"A map of {options.keys:,} keys, one of a hundred changed between checkpoints": table(COLUMNS, rows)}
    data = "one update an item, of keys that follow from its number"
    save("large_state", "Checkpoints of a large state", tables, figures, data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
