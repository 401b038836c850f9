"""Heavy hitters in Bytewax: a record is an array of packets, and the state a NumPy count-min sketch."""

from importlib.metadata import version
from typing import Any

import bytewax.operators as op
import harness
import numpy as np
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

WIDTH_BITS, BLOCK = 13, 65536
WIDTH = 1 << WIDTH_BITS
ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
SHIFT = np.uint64(64 - WIDTH_BITS)

args = harness.arguments()
hashes = np.empty(BLOCK, np.uint64)
packets = harness.shards(args.data)
State = tuple[int, np.ndarray]  # the window and its sketch


class Blocks(StatelessSourcePartition):
    """(window, memory-mapped packets)."""

    def __init__(self) -> None:
        self.blocks = (
            (window, shard[first : first + BLOCK])
            for window in range(args.passes)
            for shard in packets
            for first in range(0, len(shard), BLOCK)
        )

    def next_batch(self) -> list[Any]:
        harness.begin()
        return [next(self.blocks)]


class Shards(DynamicSource):
    """All shards, by one worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Blocks:
        return Blocks()


def add(state: State | None, record: tuple[int, np.ndarray]) -> tuple[State, tuple[int, np.ndarray]]:
    """The sketch of the window with these packets; the flows of them whose estimate is above the threshold."""
    window, block = record
    last, counts = state or (window, np.zeros((len(ODD), WIDTH)))
    if last != window:
        counts = np.zeros((len(ODD), WIDTH))
    flows, sizes = block["flow"].copy(), block["payload"].astype(float)
    columns = hashes[: len(block)].view(np.int64)
    for row, odd in enumerate(ODD):
        np.multiply(flows, odd, out=hashes[: len(block)])  # multiply-shift hashing
        hashes[: len(block)] >>= SHIFT
        counts[row] += np.bincount(columns, sizes, WIDTH)
    candidates = np.unique(flows[(counts[-1] > args.threshold)[columns]])
    columns = ((candidates * ODD[:, np.newaxis]) >> SHIFT).view(np.int64)
    above = np.take_along_axis(counts, columns, axis=1).min(axis=0) > args.threshold
    return (window, counts), (window, candidates[above])


found: list[Any] = []
flow = Dataflow("flows")
blocks = op.key_on("key", op.input("packets", flow, Shards()), lambda _: "sketch")
op.output("heavy", op.stateful_map("add", blocks, add), TestingSink(found))
run_main(flow)
harness.end()
flows = {flow for _, (window, heavy) in found if window == args.passes - 1 for flow in heavy.tolist()}
items = sum(map(len, packets)) * args.passes
harness.report(items, {"flows": sorted(flows)}, f"Bytewax {version('bytewax')}, a NumPy batch a record")
