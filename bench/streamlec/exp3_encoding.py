"""Exp#3 (LEC V-B): incremental encoding against encoding a micro-batch when all of it is there.

    python -m bench.streamlec.exp3_encoding [--rounds N] [--rate MBIT] [--namespaces] [--quick]

As in the paper a micro-batch has 100,000 items, and a source that has emitted it waits for its commit (Algorithm 1,
lines 14 to 17). It is cut into several stripe rows, so that parity of the first can leave while the last is read; with
one row, as the shipped topologies have it, and with a second micro-batch under way, the knob hardly acts: these stand
below as the controls. Of r parity blocks per k data blocks the extra bytes alone impose a drop of r / (k + r) where the
source's link is the bottleneck; what goes beyond is the cost of encoding.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from bench.rounds import await_quiet
from bench.runs import median, ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import ABOUT, MICRO_BATCH, PAPER_DROPS, ROWS

CODES = {"EC(5,1)": (5, 1), "EC(4,2)": (4, 2)}
CONFIG = "configs/logistic_regression_kdd12.yaml"
STRIPE_ROWS = 4
WAYS = {"afterwards": "false", "incremental": "true"}
EPOCHS = {"one host": 100, "namespaces": 50}
Runs = Mapping[str, Sequence[dict[str, Any]]]


def case(
    items: int, k: int, r: int, *more: str, stripe_rows: int = STRIPE_ROWS, window: int = 1
) -> tuple[str, list[str]]:
    """The topology and its overrides."""
    scheme = f"fault_tolerance={{scheme: erasure, code: gf256, k: {k}, r: {r}, rows: {stripe_rows}}}"
    stream = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=100", f"input.limit={items}"]
    return CONFIG, [*stream, scheme, f"links.window_epochs={window}", *more]


def cases(items: int) -> dict[str, tuple[str, list[str]]]:
    """EC(6,0), and both codes with and without incremental encoding; the controls last."""
    made = {"EC(6,0)": case(items, 6, 0)}
    for way, incremental in WAYS.items():
        knob = f"fault_tolerance.incremental={incremental}"
        for name, (k, r) in CODES.items():
            made[f"{name} {way}"] = case(items, k, r, knob)
        made[f"EC(4,2) {way}, one row"] = case(items, 4, 2, knob, stripe_rows=1)
        made[f"EC(4,2) {way}, two epochs under way"] = case(items, 4, 2, knob, window=2)
    return made


def rows_of(found: Runs) -> list[list[Any]]:
    """A row per case: its speed, its drop, and the effect of the knob on speed and latency."""
    base, rows = found["EC(6,0)"], []
    for name, runs in found.items():
        code, _, rest = name.partition(" ")
        way, _, control = rest.partition(", ")
        speed = median(places.speeds(runs)) / 1e6
        latency = median(run["epoch_latency_ms"]["median"] for run in runs)
        cpu = median(sum(run["cpu_seconds"].values()) / run["items"] * 1e6 for run in runs)
        row = [name, median(run["rows"] / run["epochs"] for run in runs), speed, latency, cpu]
        if code not in CODES:
            rows.append([*row, "", "", "", "", ""])
            continue
        k, r = CODES[code]
        drop = "" if control else f"{(1 - places.ratio_of(runs, base).median) * 100:.1f} %"
        paper = "" if control else f"{PAPER_DROPS[code][list(WAYS).index(way)] * 100:.1f} %"
        other = found[name.replace("incremental", "afterwards")]
        gain = str(places.ratio_of(runs, other)) if way == "incremental" else ""
        latency_gain = _latency_ratio(runs, other) if way == "incremental" else ""
        rows.append([*row, drop, f"{r / (k + r) * 100:.1f} %", paper, gain, latency_gain])
    return rows


def _latency_ratio(ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> float:
    return median(a["epoch_latency_ms"]["median"] / b["epoch_latency_ms"]["median"] for a, b in zip(ours, others))


HEADING = [
    "encoding", "stripe rows an epoch", "M items/s", "epoch latency ms", "CPU s/M items", "drop from EC(6,0)",
    "drop by the bytes alone", "paper's drop", "incremental / afterwards, throughput", "the same, latency",
]  # fmt: skip


def main() -> None:
    """Measure in each place, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--namespaces", action="store_true", help="also on hosts with shaped links (ten minutes more)")
    parser.add_argument("--quick", action="store_true", help="one round of few items, printed only")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    load = 0.0 if options.quick else await_quiet()
    tables, results, groups = {}, {}, {}
    for place, context in places.places(True, 8, options.rate):
        if "namespaces" in place and not options.namespaces:
            continue
        epochs = EPOCHS["namespaces" if "namespaces" in place else "one host"]
        found = places.measure(place, context, rounds, cases(epochs * MICRO_BATCH // (5 if options.quick else 1)))
        caption = f"{place}: logistic regression on KDD12, micro-batches of {MICRO_BATCH:,}, medians of {rounds}"
        tables[caption] = table(HEADING, rows_of(found))
        results[place] = {name: places.speeds(one) for name, one in found.items()}
        ratios = {name: places.ratio_of(one, found["EC(6,0)"]) for name, one in found.items()}
        groups[place] = {name: (one.median, (one.high - one.low) / 2) for name, one in ratios.items()}
    if options.quick:
        print("\n\n".join(tables.values()))
        return
    picture = figures.bars("streamlec_exp3", "Exp#3: incremental encoding", "throughput, EC(6,0) = 1", groups)
    content = {"pictures": [picture], **results}
    save(
        "streamlec_exp3", "StreamLEC Exp#3: incremental encoding", tables, content, data=ABOUT, rounds=rounds, load=load
    )


if __name__ == "__main__":
    main()
