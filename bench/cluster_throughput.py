"""Exp#1 of StreamLEC (V-B) in small: every worker on a host of its own, the network the bottleneck.

    python -m bench.cluster_throughput [--rounds N] [--items N] [--rate MBIT]

Every block skipped is redundancy that a scheme did not give: its processor lagged too far to take part in the epoch.
Where copies are skipped the scheme sends less than it promises, and looks faster than it is.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from bench.hosts_cluster import HostsCluster
from bench.measures import bytes_per_item
from bench.namespaces import Hosts
from bench.runs import SCHEMES, median, ready, save, table
from bench.throughput import EDGES, PAPER

LIMITS = {"erasure (5,1)": 2 / 1.2, "erasure (4,2)": 3 / 1.5}  # by the bytes that leave the source


def measure(rounds: int, items: int, rate_mbit: int) -> dict[str, Any]:
    """Medians per scheme, and the CPU seconds of all workers per second."""
    shards = str(Path(ready("kdd12", 2_000_000)).resolve())
    sets = [f"input.path={shards}", f"input.limit={items}", "input.repeat=100"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMES}
    with (
        tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder,
        Hosts(8, rate_mbit) as hosts,
        HostsCluster(hosts, Path(folder)) as cluster,
    ):
        for number in range(rounds):
            for name, scheme in SCHEMES.items():
                summary = cluster.run("configs/logistic_regression_kdd12.yaml", sets + scheme)
                found[name].append(summary)
                print(f"round {number + 1}: {name}: {summary['items_per_second'] / 1e6:.3f} M items/s", flush=True)
    return {name: _medians(summaries) for name, summaries in found.items()}


def _medians(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    last = summaries[-1]
    return {
        "items_per_second": median(s["items_per_second"] for s in summaries),
        "runs": [s["items_per_second"] for s in summaries],
        "bytes_per_item": {edge: bytes_per_item(last, edge) for edge in EDGES},
        "cores_used": median(sum(s["cpu_seconds"].values()) / s["seconds"] for s in summaries),
        "decoded_items": sum(s["decoded_items"] for s in summaries),
        "skipped_blocks": [s["skipped_blocks"] for s in summaries],
        "latency_ms": median(s["epoch_latency_ms"]["median"] for s in summaries),
    }


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=4_000_000)
    parser.add_argument("--rate", type=int, default=300)
    options = parser.parse_args()
    figures = measure(options.rounds, options.items, options.rate)
    rows = []
    for name, f in figures.items():
        rival, paper = PAPER.get(name, ("", ""))
        gain = f["items_per_second"] / figures[rival]["items_per_second"] if rival else ""
        sent = f["bytes_per_item"]
        rows.append([
            name, f["items_per_second"] / 1e6, gain, paper, LIMITS.get(name, ""),
            *(sent[edge][0] for edge in EDGES), median(f["skipped_blocks"]), f["cores_used"], f["latency_ms"],
        ])  # fmt: skip
    heading = ["scheme", "M items/s", "gain over its replication", "paper's gain", "limit by the source's bytes"]
    heading += ["B/item source->processor", "B/item processor->sink", "blocks skipped in a run"]
    heading += ["cores used by workers", "epoch latency ms"]
    caption = f"KDD12, 8 hosts, links of {options.rate} Mbit/s, {options.items:,} items, medians of {options.rounds}"
    save("cluster_throughput", "Throughput on a cluster of namespaces", {caption: table(heading, rows)}, figures)


if __name__ == "__main__":
    main()
