"""The cost of a look at all of a shard directory before a job: seconds and CPU seconds, by the faults looked for.

    python -m bench.verification DIRECTORY [--rounds 5]

The files are read once before, so that they are in the page cache; the cases alternate.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from riprap.operators.inputs.job_input import open_input
from riprap.operators.inputs.shard_checks import Checks, bad_rows, verify_all
from riprap.operators.inputs.shard_files import read_manifest
from riprap.operators.inputs.shards import open_shards


def cases(folder: str) -> dict[str, Callable[[], object]]:
    """The cases that are timed."""
    manifest = read_manifest(folder)
    files = [entry for shard in manifest["shards"] for entry in (shard, shard.get("offsets")) if entry]
    timed: dict[str, Callable[[], object]] = {
        "map only": lambda: open_input(folder, checks=Checks(False, "keep")),
        "checksums": lambda: verify_all(folder, files),
        "both, as a run does": lambda: open_input(folder, checks=Checks(True, "fail")),
    }
    if manifest["format"] == "riprap-shards":
        timed["finite numbers"] = lambda: look_for_bad_rows(folder, [shard["rows"] for shard in manifest["shards"]])
    return timed


def look_for_bad_rows(folder: str, sizes: list[int]) -> None:
    """In each shard, whatever the manifest says."""
    shards, start = open_shards(folder), 0
    for size in sizes:
        bad_rows(shards.read(start, start + size))
        start += size


def measure(act: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    timed, size = cases(args.directory), sum(path.stat().st_size for path in Path(args.directory).glob("*.npy"))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in timed}
    for round_number in range(args.rounds + 1):
        for name, act in timed.items():
            taken = measure(act)
            if round_number:  # the first warms up
                found[name].append(taken)
    print(f"{args.directory}: {size / 1e6:,.0f} MB, medians of {args.rounds} rounds")
    for name, taken_all in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*taken_all))
        print(f"  {name:<20} {wall:.3f} s, CPU {cpu:.3f} s")


if __name__ == "__main__":
    main()
