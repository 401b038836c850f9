"""Heavy hitters in Pathway: a record is an array of packets, which a subscriber adds to a NumPy count-min sketch."""

from typing import Any

import harness
import numpy as np
import pathway as pw

WIDTH_BITS, BLOCK = 13, 65536
WIDTH = 1 << WIDTH_BITS
ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
SHIFT = np.uint64(64 - WIDTH_BITS)

args = harness.arguments()
hashes = np.empty(BLOCK, np.uint64)
packets = harness.shards(args.data)


class Blocks(pw.io.python.ConnectorSubject):
    """Flows and sizes of many packets; Pathway's arrays are of int64 or of float64."""

    deletions_enabled = False

    def run(self) -> None:
        harness.begin()
        for window in range(args.passes):
            for shard in packets:
                for first in range(0, len(shard), BLOCK):
                    block = shard[first : first + BLOCK]
                    self.next(window=window, flow=block["flow"].view(np.int64).copy(), size=block["payload"] * 1.0)


class Block(pw.Schema):
    """Many packets of a window."""

    window: int
    flow: np.ndarray
    size: np.ndarray


class Sketches:
    """A sketch of each window, and the heavy flows of it."""

    def __init__(self) -> None:
        self.counts = [np.zeros((len(ODD), WIDTH)) for _ in range(args.passes)]
        self.heavy: list[set[int]] = [set() for _ in range(args.passes)]

    def add(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """The packets of a record."""
        counts, flows = self.counts[row["window"]], row["flow"].view(np.uint64)
        columns = hashes[: len(flows)].view(np.int64)
        for number, odd in enumerate(ODD):
            np.multiply(flows, odd, out=hashes[: len(flows)])  # multiply-shift hashing
            hashes[: len(flows)] >>= SHIFT
            counts[number] += np.bincount(columns, row["size"], WIDTH)
        candidates = np.unique(flows[(counts[-1] > args.threshold)[columns]])
        columns = ((candidates * ODD[:, np.newaxis]) >> SHIFT).view(np.int64)
        above = np.take_along_axis(counts, columns, axis=1).min(axis=0) > args.threshold
        self.heavy[row["window"]].update(candidates[above].tolist())


sketches = Sketches()
blocks = pw.io.python.read(Blocks(), schema=Block, max_backlog_size=10)  # else all of them wait in memory
pw.io.subscribe(blocks, sketches.add)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
items = sum(map(len, packets)) * args.passes
result = {"flows": sorted(sketches.heavy[-1])}
harness.report(items, result, f"Pathway {pw.__version__}, a NumPy batch a record")
