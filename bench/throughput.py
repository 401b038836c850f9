"""Items per second of each scheme beside the single-thread NumPy loop on the same shards, in one run.

    python -m bench.throughput [--rounds N] [--items N]

The rounds take turns (loop, scheme, scheme, ...), so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.numpy_loop import run as numpy_loop
from bench.runs import SCHEMES, median, ready, run, save, table

MICRO_BATCH = 100_000
DATA = {"kdd12": 11, "higgs": 28}
PAPER = {"erasure (5,1)": ("replication 2x", 1.23), "erasure (4,2)": ("replication 3x", 1.55)}


def measure(data: str, rounds: int, items: int, rows: int) -> dict[str, Any]:
    """Medians of one data set: the loop's speed, and per scheme the speed, bytes per item and CPU time."""
    shards = ready(data, rows)
    sets = [f"input.path={shards}", f"input.limit={items}", f"input.repeat={-(-items // (rows * 9 // 10)) + 1}"]
    loop: list[float] = []
    summaries: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMES}
    for number in range(rounds):
        print(f"{data}: round {number + 1} of {rounds}", flush=True)
        passes = -(-items // (rows * 9 // 10)) + 1
        loop.append(numpy_loop(shards, "logistic_regression", MICRO_BATCH, items, passes)["items_per_second"])
        for name, scheme in SCHEMES.items():
            job = run(f"configs/logistic_regression_{data}.yaml", sets + scheme)
            summaries[name].append(job.summary)
    return {
        "attributes": DATA[data],
        "loop_items_per_second": median(loop),
        "schemes": {name: _medians(found) for name, found in summaries.items()},
    }


def _medians(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    last = summaries[-1]
    cpu = {
        worker: median(s["cpu_seconds"][worker] / s["items"] * 1e6 for s in summaries) for worker in last["cpu_seconds"]
    }
    return {
        "items_per_second": median(s["items_per_second"] for s in summaries),
        "runs": [s["items_per_second"] for s in summaries],
        "bytes_per_item": {edge: n / last["items"] for edge, n in last["bytes_sent"].items()},
        "cpu_seconds_per_million_items": cpu,
        "peak_rss_mb": {worker: max(s["peak_rss_mb"][worker] for s in summaries) for worker in last["peak_rss_mb"]},
        "decoded_items": sum(s["decoded_items"] for s in summaries),
    }


def _table(found: dict[str, Any]) -> str:
    rows = []
    for name, scheme in found["schemes"].items():
        speed = scheme["items_per_second"]
        rival, asked = PAPER.get(name, ("", 0.0))
        against = speed / found["schemes"][rival]["items_per_second"] if rival else ""
        cpu = scheme["cpu_seconds_per_million_items"]
        sent = scheme["bytes_per_item"]
        rows.append([
            name, speed / 1e6, speed / found["loop_items_per_second"], against, asked or "",
            *(sent.get(edge, 0.0) for edge in ("source->processor", "processor->sink")),
            cpu["source.0"], sum(n for w, n in cpu.items() if w.startswith("processor")), cpu["sink.0"],
            max(scheme["peak_rss_mb"].values()),
        ])  # fmt: skip
    heading = ["scheme", "M items/s", "of the loop", "of its replication", "paper's gain", "B/item source->processor"]
    heading += ["B/item processor->sink", "CPU s/M items: source", "all processors", "sink", "peak MB of a worker"]
    return table(heading, rows)


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=20_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    figures = {data: measure(data, options.rounds, options.items, options.rows) for data in DATA}
    tables = {
        f"{data}: {found['attributes']} attributes; the NumPy loop: {found['loop_items_per_second'] / 1e6:.1f} M "
        f"items/s; medians of {options.rounds} rounds of {options.items / 1e6:g} M items": _table(found)
        for data, found in figures.items()
    }
    save("throughput", "Throughput beside the single-thread NumPy loop (logistic regression)", tables, figures)


if __name__ == "__main__":
    main()
