"""How many packets a second the count-min sketch takes, hashing included: `python -m bench.count_min`."""

from __future__ import annotations

import statistics
import time

import numpy as np

from bench.runs import save, table
from operators.dataflow.count_min import CountMin

PACKETS = 2_000_000
REPEATS = 9
RECORD = np.dtype({"names": ["size", "flow"], "formats": ["<u4", "<u8"], "offsets": [48, 56], "itemsize": 64})


def packets(flows: str) -> np.ndarray:
    """Records as long as those of packet shards, with Zipf-distributed or always different flows."""
    rng = np.random.default_rng(1)
    records = np.zeros(PACKETS, RECORD)
    ranks = rng.zipf(1.1, PACKETS) if flows == "Zipf 1.1" else rng.permutation(PACKETS)
    records["flow"] = ranks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    records["size"] = rng.integers(40, 1501, PACKETS)
    return records


def pass_over(records: np.ndarray, theta: float) -> tuple[float, int]:
    """(seconds, backups) of one window."""
    sketch, first, backups = CountMin(limit=5e6), 0, 0
    sketch.theta = theta
    began = time.perf_counter()
    while first < len(records):
        first = sketch.add(records, first)
        if sketch.exceeded:
            sketch.backup_state()
            backups += 1
    return time.perf_counter() - began, backups


def main() -> None:
    """Print and save."""
    rows, rates = [], {}
    for flows in ("Zipf 1.1", "all different"):
        records = packets(flows)
        for theta in (float("inf"), 1e6, 1e5):
            seconds, backups = zip(*(pass_over(records, theta) for _ in range(REPEATS)), strict=True)
            rate = PACKETS / statistics.median(seconds) / 1e6
            rows.append((flows, f"{theta:g}", rate, backups[0]))
            rates[f"{flows}, theta {theta:g}"] = rate
    caption = f"4 rows of 8,000 counters, one core, {PACKETS:,} packets of 64 bytes, medians of {REPEATS}"
    heading = ["flows", "theta (bytes)", "M packets/s", "backups made"]
    save("count_min", "Count-min sketch", {caption: table(heading, rows)}, rates)


if __name__ == "__main__":
    main()
