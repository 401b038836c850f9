"""Heavy hitters in Pathway: packets read by its CSV connector, grouped by window and flow, and filtered."""

import os
from typing import Any

os.environ["PATHWAY_THREADS"] = "2"  # pays here, where no Python runs per packet

import harness
import pathway as pw

args = harness.arguments()
packets = harness.shards(args.data)
with open(args.scratch / "packets.csv", "w") as file:
    file.write("window,flow,size\n")
    for window in range(args.passes):
        for shard in packets:
            pairs = zip(shard["flow"].tolist(), shard["payload"].tolist())
            file.writelines(f"{window},f{flow},{size}\n" for flow, size in pairs)


class Packet(pw.Schema):
    """A flow is a string, because Pathway's integers are signed."""

    window: int
    flow: str
    size: int


stream = pw.io.csv.read(args.scratch / "packets.csv", schema=Packet, mode="static")
totals = stream.groupby(pw.this.window, pw.this.flow).reduce(
    pw.this.window, pw.this.flow, size=pw.reducers.sum(pw.this.size)
)
found: set[int] = set()


def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
    """A flow of a window that is heavy, or is so no more."""
    if row["window"] == args.passes - 1:
        (found.add if is_addition else found.discard)(int(row["flow"][1:]))


pw.io.subscribe(totals.filter(pw.this.size > args.threshold), on_change)
harness.begin()
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
items = sum(map(len, packets)) * args.passes
harness.report(items, {"flows": sorted(found)}, f"Pathway {pw.__version__}, a packet a record")
