"""Packets a second that the count-min sketch takes, hashing included: `python -m bench.count_min`."""

from __future__ import annotations

import math
import statistics
import time
from typing import NamedTuple

import numpy as np

from bench.runs import save, table
from riprap.operators.packets.count_min import CountMin

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


LIMITS = [(math.inf, 0.0), (1e6, 0.0), (1e6, 1e5), (1e5, 0.0), (1e5, 1e4)]
"""Theta, and the difference up to which a counter stays out of a backup; in bytes."""


class Pass(NamedTuple):
    """The measurements of one window."""

    seconds: float
    backups: int
    saved_bytes: int


def pass_over(records: np.ndarray, theta: float, save_above: float) -> Pass:
    """One window."""
    sketch, first, backups, saved = CountMin(limit=5e6), 0, 0, 0
    sketch.theta, sketch.save_above = theta, save_above
    began = time.perf_counter()
    while first < len(records):
        first = sketch.add(records, first)
        if sketch.exceeded:
            saved += sum(array.nbytes for array in sketch.backup_state().arrays)
            backups += 1
    return Pass(time.perf_counter() - began, backups, saved)


def main() -> None:
    """Print and save."""
    rows, rates = [], {}
    for flows in ("Zipf 1.1", "all different"):
        records = packets(flows)
        turns = [[pass_over(records, *limits) for limits in LIMITS] for _ in range(REPEATS)]
        for (theta, save_above), passes in zip(LIMITS, zip(*turns, strict=True), strict=True):
            rate = PACKETS / statistics.median(one.seconds for one in passes) / 1e6
            beside = statistics.median(turn[0].seconds / one.seconds for turn, one in zip(turns, passes, strict=True))
            about = passes[0]
            each = about.saved_bytes // max(about.backups, 1)
            rows.append((flows, f"{theta:g}", f"{save_above:g}", rate, f"{beside:.3f}", about.backups, each))
            rates[f"{flows}, theta {theta:g}, save above {save_above:g}"] = rate
    caption = f"4 rows of 8,000 counters, one core, {PACKETS:,} packets of 64 bytes, medians of {REPEATS}"
    heading = ["flows", "theta (bytes)", "save above", "M packets/s", "beside no theta", "backups made", "bytes each"]
    save("count_min", "Count-min sketch", {caption: table(heading, rows)}, rates)


if __name__ == "__main__":
    main()
