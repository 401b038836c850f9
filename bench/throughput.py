"""Items per second of each scheme beside the single-thread NumPy loop on the same shards, in one run.

    python -m bench.throughput [--rounds N] [--items N]

The rounds take turns (loop, scheme, scheme, ...), so that a machine that slows down slows all of them. The bound is
what the cores could do if nothing but kernels ran: the gradient of each item, and under erasure its parity, each
measured on one core over the same mapped shards. The streams last seconds, so that their first and last epochs, and the
start of the workers in the CPU figures, weigh little.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from bench.measures import bytes_per_item
from bench.numpy_loop import run as numpy_loop
from bench.runs import SCHEMES, environment, median, ready, run, save, table
from riprap.codec.codes import make_code
from riprap.operators.inputs.shards import open_shards
from riprap.operators.learning import blockmath

MICRO_BATCH = 100_000
DATA = {"kdd12": 11, "higgs": 28}
EDGES = ("source->processor", "processor->sink")
SOCKETS = "links.transport=zeromq"
CASES = SCHEMES | {f"{name}, sockets": [*SCHEMES[name], SOCKETS] for name in ("none", "erasure (4,2)")}
CASES |= {"none, two processors": [*SCHEMES["none"], "stages.processor.parallelism=2"]}
ASKED = {"none": 1.2, "none, two processors": 1.2, "erasure (4,2)": 0.5, "erasure (4,2), sockets": 0.24}
"""The speed asked of each scheme, as a multiple of the loop's on KDD12."""
SOCKETS_SHARE = 5
"""Jobs over sockets are so many times slower, and get so many times fewer items."""
PAPER = {"erasure (5,1)": ("replication 2x", 1.23), "erasure (4,2)": ("replication 3x", 1.55)}


def measure(data: str, rounds: int, items: int, rows: int) -> dict[str, Any]:
    """Medians of one data set: the loop's speed, and per scheme the speed, bytes per item and CPU time."""
    shards = ready(data, rows)
    sets = [f"input.path={shards}", f"input.repeat={-(-items // (rows * 9 // 10)) + 1}"]
    loop: list[float] = []
    summaries: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for number in range(rounds):
        print(f"{data}: round {number + 1} of {rounds}", flush=True)
        passes = -(-items // (rows * 9 // 10)) + 1
        loop.append(numpy_loop(shards, "logistic_regression", MICRO_BATCH, items, passes)["items_per_second"])
        for name, scheme in CASES.items():
            limit = f"input.limit={items // SOCKETS_SHARE if SOCKETS in scheme else items}"
            job = run(f"configs/logistic_regression_{data}.yaml", [*sets, limit, *scheme])
            summaries[name].append(job.summary)
    return {
        "attributes": DATA[data],
        "loop_items_per_second": median(loop),
        "loop_runs": loop,
        "kernels": median_kernels(shards, rounds),
        "schemes": {name: _medians(found) for name, found in summaries.items()},
    }


def median_kernels(shards: str, rounds: int) -> dict[str, float]:
    """Items per second of one core: the gradient, and the encoding of two parities for four blocks."""
    matrix = open_shards(shards)
    block = MICRO_BATCH // 4
    starts = range(0, matrix.rows - MICRO_BATCH, MICRO_BATCH)
    state, label = np.zeros(len(matrix.columns) + 1), matrix.columns.index(matrix.label)
    code = make_code("gf256", 4, 2)
    memory = [np.empty((block, len(matrix.columns))) for _ in range(code.r)]

    def gradient(row: list[np.ndarray]) -> None:
        for items in row:
            blockmath.linear_result(blockmath.LOGISTIC, items, state, label)

    def encode(row: list[np.ndarray]) -> None:
        code.encode(row, memory)

    found: dict[str, list[float]] = {"gradient": [], "encode": []}
    for _ in range(rounds):
        for name, work in (("gradient", gradient), ("encode", encode)):
            began = time.perf_counter()
            for start in starts:
                work([matrix.read(first, first + block) for first in range(start, start + MICRO_BATCH, block)])
            found[name].append(len(starts) * MICRO_BATCH / (time.perf_counter() - began))
    return {name: median(speeds) for name, speeds in found.items()}


def bound(name: str, kernels: dict[str, float], cores: int) -> float:
    """Items per second if all cores did nothing but kernels."""
    copies = int(name.split()[1][0]) if name.startswith("replication") else 1
    seconds = copies / kernels["gradient"]
    if name.startswith("erasure"):
        seconds += 1 / kernels["encode"] * (0.5 if "(5,1)" in name else 1.0)
    return cores / seconds


def _medians(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    last = summaries[-1]
    cpu = {
        worker: median(s["cpu_seconds"][worker] / s["items"] * 1e6 for s in summaries) for worker in last["cpu_seconds"]
    }
    return {
        "items_per_second": median(s["items_per_second"] for s in summaries),
        "runs": [s["items_per_second"] for s in summaries],
        "bytes_per_item": {edge: bytes_per_item(last, edge) for edge in EDGES},
        "cpu_seconds_per_million_items": cpu,
        "peak_rss_mb": {worker: max(s["peak_rss_mb"][worker] for s in summaries) for worker in last["peak_rss_mb"]},
        "decoded_items": sum(s["decoded_items"] for s in summaries),
    }


def _table(found: dict[str, Any]) -> str:
    rows = []
    of_loop = ASKED if found["attributes"] == DATA["kdd12"] else {}
    cores = environment()["cores"]
    for name, scheme in found["schemes"].items():
        speed = scheme["items_per_second"]
        rival, asked = PAPER.get(name, ("", 0.0))
        against = speed / found["schemes"][rival]["items_per_second"] if rival else ""
        cpu = scheme["cpu_seconds_per_million_items"]
        sent = scheme["bytes_per_item"]
        rows.append([
            name, speed / 1e6, speed / found["loop_items_per_second"], of_loop.get(name, ""),
            speed / bound(name, found["kernels"], cores), against, asked or "",
            *(" + ".join(f"{n:.3g}" for n in sent[edge]) for edge in EDGES),
            cpu["source.0"], sum(n for w, n in cpu.items() if w.startswith("processor")), cpu["sink.0"],
            max(scheme["peak_rss_mb"].values()),
        ])  # fmt: skip
    heading = [
        "scheme",
        "M items/s",
        "of the loop",
        "asked",
        "of the bound",
        "of its replication",
        "paper's gain",
        "B/item source->processor (copied + by reference)",
    ]
    heading += ["B/item processor->sink", "CPU s/M items: source", "all processors", "sink", "peak MB of a worker"]
    return table(heading, rows)


def _caption(data: str, found: dict[str, Any], options: argparse.Namespace) -> str:
    loop, kernels = found["loop_items_per_second"], found["kernels"]
    return (
        f"{data}: {found['attributes']} attributes; the NumPy loop: {loop / 1e6:.1f} M items/s; one core computes the "
        f"gradient of {kernels['gradient'] / 1e6:.0f} M and encodes {kernels['encode'] / 1e6:.0f} M items/s; "
        f"medians of {options.rounds} rounds of {options.items / 1e6:g} M items, over sockets a fifth"
    )


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=300_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    figures = {data: measure(data, options.rounds, options.items, options.rows) for data in DATA}
    tables = {_caption(data, found, options): _table(found) for data, found in figures.items()}
    save("throughput", "Throughput beside the single-thread NumPy loop (logistic regression)", tables, figures)


if __name__ == "__main__":
    main()
