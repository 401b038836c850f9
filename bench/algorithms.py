"""Items a second of the operators of the join and of online learning: `python -m bench.algorithms`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from bench.runs import save, table
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.joins.ripple_join import RippleJoin, SamplePackets
from riprap.operators.learning.gradient import LocalGradient
from riprap.operators.learning.online_logistic import LocalModel

ITEMS, BLOCK, REPEATS = 1_000_000, 8192, 5
PACKET = np.dtype(
    {"names": ["time_ns", "destination"], "formats": ["<i8", ("u1", (16,))], "offsets": [0, 24], "itemsize": 64}
)
SPARSE = np.dtype([("label", "<f4"), ("impressions", "<u4"), ("indexes", "<u4", (11,)), ("values", "<f4", (11,))])


class Kept:
    """An outlet that keeps its blocks."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[np.ndarray], int]] = []

    def send(self, arrays: list[np.ndarray], count: int, to: int | None = None, stage: str | None = None) -> None:
        self.sent.append((arrays, count))


def blocks(array: np.ndarray, stage: str = "") -> list[Items]:
    """Consecutive blocks of a stream."""
    parts = [array[begin : begin + BLOCK] for begin in range(0, len(array), BLOCK)]
    return [Items(1, stage, 0, len(part), (part,)) for part in parts]


def rate(make: Callable[[], DataflowOperator], stream: list[Items], theta: float) -> tuple[float, int]:
    """(millions of items a second, median; backups made)."""
    seconds, backups = [], 0
    for _ in range(REPEATS):
        operator, out, backups = make(), Kept(), 0
        state = operator.state
        assert state is not None
        state.theta = theta
        began = time.perf_counter()
        for items in stream:
            first = 0
            while first < items.count:
                first = operator.process_data(items, first, out)  # type: ignore[arg-type]
                if state.exceeded:
                    state.backup_state()
                    backups += 1
        seconds.append(time.perf_counter() - began)
    return sum(items.count for items in stream) / statistics.median(seconds) / 1e6, backups


def opened(operator: DataflowOperator, context: Context) -> DataflowOperator:
    """The operator, started."""
    operator.open(context)
    return operator


def sparse_items(rng: np.random.Generator) -> np.ndarray:
    """As KDD12's: 11 features of 2^20, Zipf-distributed, and 4 % clicks."""
    records = np.zeros(ITEMS, SPARSE)
    ranks = rng.zipf(1.2, (ITEMS, 11)).astype(np.uint64)
    records["indexes"] = (ranks * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)
    records["values"], records["label"] = 1, rng.random(ITEMS) < 0.04
    return records


def packets(rng: np.random.Generator) -> np.ndarray:
    """A minute of packets to Zipf-distributed destinations."""
    records = np.zeros(ITEMS, PACKET)
    records["time_ns"] = np.sort(rng.integers(0, 60 * 10**9, ITEMS))
    records["destination"] = rng.zipf(1.3, ITEMS).astype("<u8").view(np.uint8).reshape(-1, 8).repeat(2, axis=1)
    return records


def main() -> None:
    """Print and save."""
    rng = np.random.default_rng(1)
    trace, higgs = packets(rng), rng.normal(0, 1, (ITEMS, 29))
    higgs[:, 0] = rng.random(ITEMS) < 0.5
    source = Context(downstream={"join": 9})
    kept = Kept()
    sampler = opened(SamplePackets(1.0), Context())
    sampler.process_data(Items(1, "", 0, ITEMS, (trace,)), 0, kept)  # type: ignore[arg-type]
    keys, sides = kept.sent[0][0][0], {"left": 1, "right": 1}
    join = [item for pair in zip(blocks(keys, "left"), blocks(keys, "right"), strict=True) for item in pair]
    cases: list[tuple[str, Callable[[], DataflowOperator], list[Items], tuple[float, ...]]] = [
        ("LocalModel, 2^20 parameters", LocalModel, blocks(sparse_items(rng)), (np.inf, 10.0, 1.0)),
        ("SamplePackets, 10 %", lambda: opened(SamplePackets(), source), blocks(trace), (np.inf, 1e5)),
        ("RippleJoin (sampled packets)", lambda: opened(RippleJoin(), Context(upstream=sides)), join, (np.inf, 1e5)),
        ("LocalGradient, 28 features", LocalGradient, blocks(higgs), (np.inf, 1.0, 0.01)),
    ]
    rows, rates = [], {}
    for name, make, stream, thetas in cases:
        for theta in thetas:
            millions, backups = rate(make, stream, theta)
            rows.append((name, f"{theta:g}", millions, backups))
            rates[f"{name}, theta {theta:g}"] = millions
    caption = f"one core, blocks of {BLOCK} items, medians of {REPEATS}"
    heading = ["operator", "theta", "M items/s", "backups made"]
    save("algorithms", "Online join and learning", {caption: table(heading, rows)}, rates)


if __name__ == "__main__":
    main()
