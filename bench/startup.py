"""From `riprap run` to the first item emitted, for 20, 60 and 120 processors on this machine.

    python -m bench.startup [--rounds N]

The cases alternate. The job is one epoch of logistic regression without fault tolerance.
"""

from __future__ import annotations

import argparse

from bench.runs import median, ready, run, save, table

CONFIG = "configs/logistic_regression_higgs.yaml"
PROCESSORS = (20, 60, 120)


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    base = [f"input.path={ready('higgs', 100_000)}", "fault_tolerance={scheme: none}", "micro_batch=90000"]
    found: dict[int, list[float]] = {count: [] for count in PROCESSORS}
    run(CONFIG, base)  # warms the caches of files
    for _ in range(options.rounds):
        for count, seconds in found.items():
            summary = run(CONFIG, [*base, f"stages.processor.parallelism={count}"]).summary
            seconds.append(summary["startup_seconds"])
    rows = [[count, median(seconds), min(seconds), max(seconds)] for count, seconds in found.items()]
    caption = f"Embedded ZooKeeper included; {options.rounds} rounds"
    heading = ["processors", "median s", "least s", "most s"]
    save("startup", "Start-up", {caption: table(heading, rows)}, {"seconds": found})


if __name__ == "__main__":
    main()
