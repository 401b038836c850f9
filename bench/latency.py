"""Gaps between commits of a job with small micro-batches, and the time of an epoch from first emission to commit.

python -m bench.latency
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bench.runs import SCHEMES, median, ready, run, save, table

EPOCHS = 2000
MICRO_BATCH = 1000


def measure(scheme: str, shards: str) -> dict[str, Any]:
    """Percentiles in milliseconds; the first tenth of the epochs is warm-up."""
    sets = [f"input.path={shards}", f"input.limit={EPOCHS * MICRO_BATCH}", "input.repeat=10"]
    job = run("configs/logistic_regression_kdd12.yaml", [*sets, f"micro_batch={MICRO_BATCH}", *SCHEMES[scheme]])
    epochs = job.epochs[EPOCHS // 10 :]
    gaps = sorted((after[3] - before[3]) * 1000 for before, after in pairwise(epochs))
    latencies = sorted(latency for _, _, latency, _ in epochs)
    return {
        "between_commits_ms": {"p50": median(gaps), "p99": gaps[len(gaps) * 99 // 100]},
        "latency_ms": {"p50": median(latencies), "p99": latencies[len(latencies) * 99 // 100]},
        "decoded_items": job.summary["decoded_items"],
    }


def main() -> None:
    """Print and save."""
    shards = ready("kdd12", 2_000_000)
    figures = {scheme: measure(scheme, shards) for scheme in SCHEMES}
    rows = [
        [name, f["between_commits_ms"]["p50"], f["between_commits_ms"]["p99"], f["latency_ms"]["p50"],
         f["latency_ms"]["p99"], f["decoded_items"]]
        for name, f in figures.items()
    ]  # fmt: skip
    heading = ["scheme", "between commits p50 ms", "p99", "epoch latency p50 ms", "p99", "decoded items"]
    caption = f"micro-batches of {MICRO_BATCH} items, {EPOCHS} epochs, two epochs under way"
    save("latency", "Latency with small micro-batches", {caption: table(heading, rows)}, figures)


if __name__ == "__main__":
    main()
