"""The cost of `riprap run --profile`: items per second, and CPU time of the workers, with and without it in turn.

    python -m bench.profile_cost [--rounds N] [--items N]

One job moves large blocks, as it comes; the other small ones, so that there are more spans a second. On a machine that
others use, too, the CPU time is the better measure.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.runs import median, ready, riprap, save, table

CONFIG = "configs/logistic_regression_kdd12.yaml"
ROWS = 2_000_000
JOBS = {"blocks of 256 KiB": 262_144, "blocks of 8 KiB": 8192}
WAYS = {"plain": [], "with --profile": ["--profile"]}


def one_run(sets: Sequence[str], words: Sequence[str]) -> dict[str, float]:
    """Items per second, CPU seconds of all workers, and the bytes of the page (0 when there is none)."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        out = Path(folder) / "run"
        options = [word for value in sets for word in ("--set", value)]
        summary = json.loads(riprap("run", CONFIG, "--json", "--out", str(out), *options, *words))
        page = out / "profile.html"
        return {
            "items_per_second": summary["items_per_second"],
            "cpu_seconds": sum(summary["cpu_seconds"].values()),
            "page_bytes": page.stat().st_size if page.exists() else 0,
        }


def measure(rounds: int, items: int) -> dict[str, dict[str, Any]]:
    """Per job the medians of either way, those of the ratios round by round, and the size of the page."""
    shards = ready("kdd12", ROWS)
    found = {}
    for name, block_bytes in JOBS.items():
        sets = [f"input.path={shards}", f"input.limit={items}", f"input.repeat={items // ROWS + 2}"]
        sets.append(f"links.block_bytes={block_bytes}")
        runs: list[dict[str, dict[str, float]]] = []
        for number in range(rounds):
            print(f"{name}: round {number + 1} of {rounds}", flush=True)
            runs.append({way: one_run(sets, words) for way, words in WAYS.items()})
        plain, profiled = WAYS
        found[name] = {
            "items_per_second": {way: median(run[way]["items_per_second"] for run in runs) for way in WAYS},
            "ratios": {
                figure: median(run[profiled][figure] / run[plain][figure] for run in runs)
                for figure in ("items_per_second", "cpu_seconds")
            },
            "page_bytes": max(run[profiled]["page_bytes"] for run in runs),
            "runs": runs,
        }
    return found


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=10_000_000)
    options = parser.parse_args()
    found = measure(options.rounds, options.items)
    rows = [
        [
            name,
            *(speed / 1e6 for speed in job["items_per_second"].values()),
            *job["ratios"].values(),
            job["page_bytes"] / 1e6,
        ]
        for name, job in found.items()
    ]
    heading = ["erasure (4,2), 11 attributes", *(f"M items/s {way}" for way in WAYS)]
    heading += ["ratio", "ratio of the CPU time", "MB of the page"]
    caption = f"Medians of {options.rounds} rounds of {options.items / 1e6:g} M items, micro-batches of 100,000"
    save("profile_cost", "What profiling costs", {caption: table(heading, rows)}, found)


if __name__ == "__main__":
    main()
