"""Eager against lazy attachment in training: bytes, throughput, and both beside the single-thread NumPy loop.

python -m bench.streamlec.attachment [--runs N] [--items N]
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.numpy_loop import run as numpy_loop
from bench.runs import ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import DATA, MICRO_BATCH, ROWS
from bench.streamlec.statistics import summarise

ATTACHMENTS = ("eager", "lazy")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--items", type=int, default=10_000_000)
    options = parser.parse_args()
    tables, results, groups = {}, {}, {}
    for data, attributes in DATA.items():
        shards = ready(data, ROWS)
        passes = -(-options.items // (ROWS * 9 // 10)) + 1
        sets = [f"input.path={shards}", f"input.repeat={passes}", f"input.limit={options.items}"]
        loop: list[float] = []
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ATTACHMENTS}
        for number in range(options.runs):
            one = numpy_loop(shards, "logistic_regression", MICRO_BATCH, options.items, passes)
            loop.append(one["items_per_second"])
            cases = {
                name: (f"configs/logistic_regression_{data}.yaml", [*sets, f"fault_tolerance.attachment={name}"])
                for name in ATTACHMENTS
            }
            for name, runs in places.measure(f"{data}, {number + 1}", places.this_host(), 1, cases).items():
                found[name] += runs
        tables[f"{data}: {attributes} attributes, EC(4,2), one host, medians of {options.runs}"] = _table(found, loop)
        results[data] = {"loop": loop} | {name: places.speeds(runs) for name, runs in found.items()}
        groups[data] = {name: summarise([v / 1e6 for v in places.speeds(runs)])[:2] for name, runs in found.items()}
    picture = figures.bars("streamlec_attachment", "Attachment in training, EC(4,2), one host", "M items/s", groups)
    save("streamlec_attachment", "Eager and lazy attachment", tables, {"pictures": [picture], **results})


def _table(found: dict[str, list[dict[str, Any]]], loop: list[float]) -> str:
    rows = []
    for name, runs in found.items():
        speed, last = summarise(places.speeds(runs)), runs[-1]
        sent = places.bytes_cells(last, ["source->processor", "processor->sink", ""])
        rows.append([name, speed.median / 1e6, speed.median / summarise(loop).median, *sent])
    heading = ["attachment", "M items/s", "of the NumPy loop (asked of lazy: 0.12)", "B/item source->processor"]
    return table([*heading, "B/item processor->sink", "B/item in all (copied + by reference)"], rows)


if __name__ == "__main__":
    main()
