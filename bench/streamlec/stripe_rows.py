"""The cost of several stripe rows an epoch on one host, beside one row of four large blocks.

    python -m bench.streamlec.stripe_rows [--rounds N] [--quick]

Each row more is k + r messages more an epoch, and a message costs the same however little it carries. CPU seconds per
million items are the steadier figure where others use the machine.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import ready, run, save, table
from bench.streamlec.settings import ABOUT, DATA, MICRO_BATCH, ROWS

STRIPE_ROWS = (1, 2, 4, 8)
EPOCHS = 200
Case = tuple[str, list[str]]


def cases(data: str, epochs: int) -> dict[str, Case]:
    """The shipped topology with more and more rows an epoch."""
    stream = [f"input.path={ready(data, ROWS)}", "input.repeat=100", f"input.limit={epochs * MICRO_BATCH}"]
    config = f"configs/logistic_regression_{data}.yaml"
    return {f"{rows}": (config, [*stream, f"fault_tolerance.rows={rows}"]) for rows in STRIPE_ROWS}


def speed(summary: dict[str, Any]) -> float:
    """Items per second."""
    return float(summary["items_per_second"])


def cpu(summary: dict[str, Any]) -> float:
    """Seconds of all workers per million items."""
    return float(sum(summary["cpu_seconds"].values()) / summary["items"] * 1e6)


def rows_of(data: str, found: dict[str, Found[Any]]) -> list[list[Any]]:
    """A row per number of stripe rows, with its ratios to one."""
    base = found["1"]
    return [
        [data, DATA[data], name, one.median(lambda summary: speed(summary) / 1e6), str(ratio(one, base, speed)),
         one.median(cpu), str(ratio(one, base, cpu))]
        for name, one in found.items()
    ]  # fmt: skip


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of few epochs, printed only")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    load = 0.0 if options.quick else await_quiet()
    rows: list[list[Any]] = []
    for data in DATA:
        made = cases(data, EPOCHS // (5 if options.quick else 1))
        rows += rows_of(data, alternate(data, made, lambda case: run(*case).summary, rounds))
    heading = ["data", "attributes", "stripe rows an epoch", "M items/s", "of one row", "CPU s/M items", "of one row"]
    tables = {f"EC(4,2), one host, micro-batches of {MICRO_BATCH:,}, medians of {rounds}": table(heading, rows)}
    if options.quick:
        print("\n\n".join(tables.values()))
        return
    save("streamlec_stripe_rows", "Stripe rows an epoch", tables, {}, data=ABOUT, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
