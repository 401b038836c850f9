"""Heavy hitters in NumPy: a count-min sketch of 4 rows of 8192 counters, updated by np.bincount."""

import harness
import numpy as np

WIDTH_BITS, BLOCK = 13, 65536
WIDTH = 1 << WIDTH_BITS
ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
SHIFT = np.uint64(64 - WIDTH_BITS)

args = harness.arguments()
hashes = np.empty(BLOCK, np.uint64)
packets = harness.shards(args.data)
harness.begin()
items = 0
for _ in range(args.passes):
    counts = np.zeros((len(ODD), WIDTH))
    candidates = []
    for shard in packets:
        for first in range(0, len(shard), BLOCK):
            block = shard[first : first + BLOCK]
            flows, sizes = block["flow"].copy(), block["payload"].astype(float)
            columns = hashes[: len(block)].view(np.int64)
            for row, odd in enumerate(ODD):
                np.multiply(flows, odd, out=hashes[: len(block)])  # multiply-shift hashing
                hashes[: len(block)] >>= SHIFT
                counts[row] += np.bincount(columns, sizes, WIDTH)
            above = (counts[-1] > args.threshold)[columns]
            candidates.append(flows[above])
        items += len(shard)
    found = np.unique(np.concatenate(candidates))
    columns = ((found * ODD[:, np.newaxis]) >> SHIFT).view(np.int64)
    heavy = found[np.take_along_axis(counts, columns, axis=1).min(axis=0) > args.threshold]
harness.end()
harness.report(items, {"flows": heavy.tolist()}, f"NumPy {np.__version__}")
