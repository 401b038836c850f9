"""Heavy hitters in Bytewax: a record is a packet; each flow's bytes in a window are state under its key."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import bytewax.operators as op
import harness
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

args = harness.arguments()
packets = harness.shards(args.data)
State = tuple[int, int]  # the window and its bytes


class Packets(StatelessSourcePartition):
    """(flow, (window, bytes)) of each packet."""

    def __init__(self) -> None:
        self.blocks = self.read()

    def read(self) -> Iterator[list[Any]]:
        for window in range(args.passes):
            for shard in packets:
                for first in range(0, len(shard), 1000):
                    block = shard[first : first + 1000]
                    sizes = [(window, size) for size in block["payload"].tolist()]
                    yield list(zip(map(str, block["flow"].tolist()), sizes))

    def next_batch(self) -> list[Any]:
        harness.begin()
        return next(self.blocks)


class Shards(DynamicSource):
    """All shards, by one worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Packets:
        return Packets()


def add(state: State | None, packet: tuple[int, int]) -> tuple[State, tuple[int, ...]]:
    """The bytes of a flow in the window of its last packet; the window when they just crossed the threshold."""
    window, size = packet
    last, total = state or (window, 0)
    before = total if last == window else 0
    crossed = before <= args.threshold < before + size
    return (window, before + size), (window,) if crossed else ()


found: list[Any] = []
flow = Dataflow("flows")
heavy = op.stateful_flat_map("add", op.input("packets", flow, Shards()), add)
op.output("heavy", heavy, TestingSink(found))
run_main(flow)
harness.end()
flows = sorted({int(flow) for flow, window in found if window == args.passes - 1})
items = sum(map(len, packets)) * args.passes
harness.report(items, {"flows": flows}, f"Bytewax {version('bytewax')}, a packet a record")
