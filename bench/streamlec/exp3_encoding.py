"""Exp#3 (LEC V-B): incremental encoding against encoding a micro-batch when all of it is there.

    python -m bench.streamlec.exp3_encoding [--runs N] [--rate MBIT] [--quick]

Of r parity blocks per k data blocks the extra bytes alone impose a drop of r / (k + r) where the source's link is the
bottleneck; what goes beyond is the cost of encoding.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.runs import median, ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import PAPER_DROPS, ROWS, SCHEMES
from bench.streamlec.statistics import summarise

CODES = {"EC(5,1)": (5, 1), "EC(4,2)": (4, 2)}


def cases(items: int) -> dict[str, tuple[str, list[str]]]:
    """EC(6,0), and both codes with and without incremental encoding."""
    sets = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=100", f"input.limit={items}"]
    config = "configs/logistic_regression_kdd12.yaml"
    made = {"EC(6,0)": (config, sets + SCHEMES["EC(6,0)"])}
    for name in CODES:
        made[f"{name} incremental"] = (config, sets + SCHEMES[name])
        made[f"{name} afterwards"] = (config, [*sets, *SCHEMES[name], "fault_tolerance.incremental=false"])
    return made


def rows_of(found: dict[str, list[dict[str, Any]]]) -> list[list[Any]]:
    """A row per code and way of encoding."""
    speed = {name: summarise(places.speeds(runs)) for name, runs in found.items()}
    latency = {name: median(run["epoch_latency_ms"]["median"] for run in runs) for name, runs in found.items()}
    rows: list[list[Any]] = [["EC(6,0)", speed["EC(6,0)"].median / 1e6, latency["EC(6,0)"], "", "", "", ""]]
    for name, (k, r) in CODES.items():
        for number, way in enumerate(("afterwards", "incremental")):
            one = f"{name} {way}"
            drop = 1 - speed[one].median / speed["EC(6,0)"].median
            bytes_alone = r / (k + r)
            beyond = (drop - bytes_alone) * 100
            rows.append([
                one, speed[one].median / 1e6, latency[one], f"{drop * 100:.1f} %", f"{bytes_alone * 100:.1f} %",
                f"{beyond:+.1f}", f"{PAPER_DROPS[name][number] * 100:.1f} %",
            ])  # fmt: skip
    return rows


def main() -> None:
    """Measure in each place, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="one run of few items")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    heading = ["encoding", "M items/s", "epoch latency ms", "drop from EC(6,0)", "drop by the bytes alone"]
    heading += ["points beyond that (asked: 10)", "paper's drop"]
    tables, results, groups = {}, {}, {}
    for place, context in places.places(True, 8, options.rate):
        items = 1_000_000 if "namespaces" in place else 10_000_000
        found = places.measure(place, context, runs, cases(items // (4 if options.quick else 1)))
        tables[f"{place}: logistic regression on KDD12, medians of {runs}"] = table(heading, rows_of(found))
        results[place] = {name: places.speeds(one) for name, one in found.items()}
        base = summarise(places.speeds(found["EC(6,0)"])).median
        groups[place] = {
            name: (summarise(places.speeds(one)).median / base, summarise(places.speeds(one)).half_width / base)
            for name, one in found.items()
        }
    picture = figures.bars("streamlec_exp3", "Exp#3: incremental encoding", "throughput, EC(6,0) = 1", groups)
    save("streamlec_exp3", "StreamLEC Exp#3: incremental encoding", tables, {"pictures": [picture], **results})


if __name__ == "__main__":
    main()
