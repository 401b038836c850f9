"""From kill -9 to detected, restored and caught up; and the time for which nothing is committed.

    python -m bench.recovery [--kills N]

The stall of a kill is the longest gap between commits until the next one (bench/measures.py), and every kill has one.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.rounds import await_quiet
from bench.runs import SCHEMES, median, ready, save, table
from bench.streamlec.killing import PARTS, on_this_host

MEASURED = ("erasure (5,1)", "erasure (4,2)", "replication 2x", "replication 3x")


def measure(scheme: str, kills: int, shards: str, items: int) -> dict[str, Any]:
    """One run with kills at equal distances, always of another processor."""
    every = items // 100_000 // (kills + 1)
    victims = {(number + 1) * every: [f"processor.{number % 6}"] for number in range(kills)}
    sets = [f"input.path={shards}", f"input.limit={items}", "input.repeat=1000", *SCHEMES[scheme]]
    job = on_this_host("configs/logistic_regression_kdd12.yaml", sets, victims)
    return {**job.figures(), **job.parts_ms(), "decoded_items": job.summary["decoded_items"]}


def row(name: str, found: dict[str, Any], kills: int) -> list[Any]:
    """Medians, and the number of kills."""
    cells: list[Any] = [name]
    for part in PARTS:
        known = [ms for ms in found[part] if ms is not None]
        cells += [median(known) if known else "-", f"{len(known)} of {kills}"]
    ratios = sorted(stall / found["usual_gap_ms"] for stall in found["stalls_ms"])
    stalls = [median(found["stalls_ms"]), median(ratios), ratios[-1], f"{len(ratios)} of {kills}"]
    return [*cells, found["usual_gap_ms"], *stalls]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--items", type=int, default=60_000_000)
    options = parser.parse_args()
    load, shards = await_quiet(), ready("kdd12", 2_000_000)
    figures = {}
    for scheme in MEASURED:
        print(f"{scheme}: {options.kills} kills", flush=True)
        figures[scheme] = measure(scheme, options.kills, shards, options.items)
    rows = [row(name, found, options.kills) for name, found in figures.items()]
    heading = ["scheme", *(word for part in PARTS for word in (f"{part} ms", "of"))]
    heading += ["usual gap ms", "stall ms", "stall / usual gap", "longest / usual gap", "kills"]
    caption = "kill -9 of a processor, micro-batches of 100,000; milliseconds since the kill, medians"
    tables = {caption: table(heading, rows)}
    data = "synthesized: KDD Cup 2012, 2,000,000 rows again and again"
    save("recovery", "Recovery and stall after kill -9", tables, figures, data=data, rounds=1, load=load)


if __name__ == "__main__":
    main()
