"""Ten times the items: the time and the memory that they take.

python -m bench.scale [--items N]
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.runs import median, ready, run, save, table


def measure(items: int, shards: str, rounds: int) -> dict[str, Any]:
    """Median seconds and the largest memory of any worker."""
    sets = [f"input.path={shards}", f"input.limit={items}", "input.repeat=1000"]
    summaries = [run("configs/logistic_regression_kdd12.yaml", sets).summary for _ in range(rounds)]
    peaks = [s["peak_rss_mb"] for s in summaries]
    return {
        "items": items,
        "seconds": median(s["seconds"] for s in summaries),
        "peak_rss_mb": {worker: median(peak[worker] for peak in peaks) for worker in peaks[0]},
    }


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000_000)
    options = parser.parse_args()
    shards = ready("kdd12", 2_000_000)
    small, large = measure(options.items, shards, 5), measure(options.items * 10, shards, 3)
    rows = [[f["items"], f["seconds"], max(f["peak_rss_mb"].values())] for f in (small, large)]
    ratio = large["seconds"] / small["seconds"]
    caption = f"erasure (4,2), logistic regression; ten times the items took {ratio:.2f} times as long"
    save("scale", "Scale of work", {caption: table(["items", "seconds", "peak MB of a worker"], rows)},
         {"small": small, "large": large, "ratio": ratio})  # fmt: skip


if __name__ == "__main__":
    main()
