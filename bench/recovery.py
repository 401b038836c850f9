"""From kill -9 to detected, restored and caught up; and what the death does to the latency of its micro-batch.

python -m bench.recovery [--kills N]
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.runs import SCHEMES, Run, median, ready, run, save, table

MEASURED = ("erasure (5,1)", "erasure (4,2)", "replication 2x", "replication 3x")
PHASES = ("detected_ms", "restored_ms", "caught_up_ms")


def measure(scheme: str, kills: int, shards: str, items: int) -> dict[str, Any]:
    """One run with a kill each so many epochs, always of another processor."""
    epochs = items // 100_000
    every = epochs // (kills + 1)
    faults = [f"kill:processor.{n % 6}@epoch={(n + 1) * every}" for n in range(kills)]
    sets = [f"input.path={shards}", f"input.limit={items}", "input.repeat=1000", *SCHEMES[scheme]]
    job = run("configs/logistic_regression_kdd12.yaml", sets, faults)
    failures = [failure for failure in job.summary["failures"] if failure["action"] == "kill"]
    return {
        "kills": len(failures),
        **{phase: [f[phase] for f in failures if f[phase] is not None] for phase in PHASES},
        "latency_ratio": _latency_ratios(job),
        "latency_ms": median(latency for _, _, latency, _ in job.epochs),
        "decoded_items": job.summary["decoded_items"],
    }


def _latency_ratios(job: Run) -> list[float]:
    """Latency of the epoch in which each kill fell, over that of the epoch before."""
    ratios = []
    for failure in job.summary["failures"]:
        if failure["action"] != "kill":
            continue
        hit = next((i for i, row in enumerate(job.epochs) if row[3] >= failure["injected_at"]), None)
        if hit:
            ratios.append(job.epochs[hit][2] / job.epochs[hit - 1][2])
    return ratios


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--items", type=int, default=60_000_000)
    options = parser.parse_args()
    shards = ready("kdd12", 2_000_000)
    figures = {}
    for scheme in MEASURED:
        print(f"{scheme}: {options.kills} kills", flush=True)
        figures[scheme] = measure(scheme, options.kills, shards, options.items)
    rows = [
        [name, f["kills"], *(median(f[phase]) for phase in PHASES), max(f["detected_ms"]), f["latency_ms"],
         median(f["latency_ratio"]), sorted(f["latency_ratio"])[len(f["latency_ratio"]) * 9 // 10]]
        for name, f in figures.items()
    ]  # fmt: skip
    heading = ["scheme", "kills", "detected ms", "restored ms", "caught up ms", "slowest detection ms"]
    heading += ["epoch latency ms", "latency of the epoch hit / before, median", "90th percentile"]
    caption = "kill -9 of a processor, micro-batches of 100,000; milliseconds since the kill, medians"
    save("recovery", "Recovery and stall after kill -9", {caption: table(heading, rows)}, figures)


if __name__ == "__main__":
    main()
