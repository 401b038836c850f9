"""Heavy hitters in River: its count-min sketch, updated for every packet; an estimate of each finds the heavy flows."""

import harness
import river
from river import sketch

args = harness.arguments()
packets = harness.shards(args.data)
harness.begin()
items = 0
for _ in range(args.passes):
    counts, heavy = sketch.Counter(epsilon=2.718 / 8000, delta=0.0184, seed=1), set()
    for shard in packets:
        for flow, size in zip(shard["flow"].tolist(), shard["payload"].tolist()):
            counts.update(flow, size)
            if counts[flow] > args.threshold:
                heavy.add(flow)
        items += len(shard)
harness.end()
harness.report(items, {"flows": sorted(heavy)}, f"River {river.__version__}, sketch.Counter {counts.n_tables} rows")
