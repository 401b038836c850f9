"""Stragglers: throughput with a slow and with a stopped processor, and the decoding when nothing is wrong.

    python -m bench.streamlec.stragglers [--runs N] [--items N]

EC(4,2) on six processors, one of which gets 10 % of a CPU, or none, from the fifth epoch on; beside it EC(4,1) on five
processors, which is what k + r - 1 healthy ones do. A stopped processor is not replaced before the job's end.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.runs import median, ready, run, save, table
from bench.streamlec import figures
from bench.streamlec.settings import ROWS
from bench.streamlec.statistics import summarise

FIVE = ["stages.processor.parallelism=5", "fault_tolerance={scheme: erasure, code: gf256, k: 4, r: 1}"]
CASES: dict[str, tuple[list[str], list[str]]] = {
    "six healthy processors": ([], []),
    "five healthy processors, EC(4,1)": (FIVE, []),
    "one of six at 10 % of a CPU": ([], ["slow:processor.2@epoch=5,for=300s,cpu=0.1"]),
    "one of six stopped": (["cluster.heartbeat_timeout_s=10"], ["stop:processor.2@epoch=5,for=300s"]),
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--items", type=int, default=10_000_000)
    options = parser.parse_args()
    sets = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=100", f"input.limit={options.items}"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for number in range(options.runs):
        for name, (more, faults) in CASES.items():
            summary = run("configs/logistic_regression_kdd12.yaml", [*sets, *more], faults).summary
            found[name].append(summary)
            print(f"round {number + 1}: {name}: {summary['items_per_second'] / 1e6:.3f} M items/s", flush=True)
    speed = {name: summarise([run["items_per_second"] / 1e6 for run in runs]) for name, runs in found.items()}
    five = speed["five healthy processors, EC(4,1)"].median
    rows = [
        [name, speed[name].median, speed[name].median / five,
         median(run["epoch_latency_ms"]["median"] for run in runs),
         f"{sum(run['decoded_rows'] for run in runs)} of {sum(run['rows'] for run in runs)}",
         100 * sum(run["decoded_rows"] for run in runs) / sum(run["rows"] for run in runs)]
        for name, runs in found.items()
    ]  # fmt: skip
    heading = ["processors", "M items/s", "of five healthy ones (asked: 1)", "epoch latency ms", "rows decoded"]
    caption = f"KDD12, {options.items:,} items, one host, medians of {options.runs}"
    groups = {name: {"throughput": one[:2]} for name, one in speed.items()}
    picture = figures.bars("streamlec_stragglers", "Stragglers, EC(4,2)", "M items/s", groups)
    tables = {caption: table([*heading, "% of rows (asked of healthy ones: < 0.1)"], rows)}
    results = {name: one.runs for name, one in speed.items()}
    save("streamlec_stragglers", "Stragglers", tables, {"pictures": [picture], **results})


if __name__ == "__main__":
    main()
