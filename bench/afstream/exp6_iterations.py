"""Exp#6 (AFX 6.2): the cost of fault tolerance, against the number of items in an iteration.

python -m bench.afstream.exp6_iterations [--runs N] [--quick]
"""

from __future__ import annotations

import statistics
from typing import Any

from bench.afstream.convergence import ABOUT, DATA, ITEMS, ITERATION, ITERATIONS, stream
from bench.afstream.jobs import Job, arguments, interleave, keep, loss, percent
from bench.afstream.settings import NONE, PAPER_ITERATION_LOSS, approximate
from bench.runs import table

SIZES = (0.5, 1.0, 1.5)
"""Sizes of an iteration, as multiples of the paper's usual one."""
THETAS = (0.1, 1.0, 10.0)


def main() -> None:
    """Measure, print and save."""
    options = arguments(__doc__ or "")
    tables: dict[str, str] = {}
    kept: dict[str, Any] = {}
    for name in DATA:
        cases: dict[str, Job] = {}
        for size in SIZES:
            iteration = int(size * ITERATION[name])
            job, found = stream(name, options.quick, iteration=iteration, iterations=int(ITERATIONS / size))
            cases[f"{size} none"] = job.under(NONE)
            cases |= {f"{size} {theta}": job.under(approximate(theta, ITEMS)) for theta in THETAS}
        measured = interleave(f"exp6 {name}", cases, options.runs)
        rows: list[list[Any]] = []
        for size in SIZES:
            base = measured[f"{size} none"]
            losses = [loss(measured[f"{size} {theta}"], base) for theta in THETAS]
            mean = percent(statistics.mean(losses))
            paper = percent(PAPER_ITERATION_LOSS[name])
            iteration = int(size * ITERATION[name])
            rows.append([f"{iteration:,}", base.rate / 1e6, *map(percent, losses), mean, paper])
        heading = ["items an iteration", "M items/s without", *(f"loss, Theta {theta:g}" for theta in THETAS)]
        heading += ["mean loss", "paper's mean loss"]
        tables[f"{found.about}, BSP, L {ITEMS:g}; medians of {options.runs}"] = table(heading, rows)
        kept[name] = {case: one.figures() for case, one in measured.items()}
    kept["data"] = ABOUT
    keep(options, "afstream_exp6", "AF-Stream Exp#6: fault tolerance and iteration size", tables, kept)


if __name__ == "__main__":
    main()
