"""Exp#7 (AFX 6.2): convergence when four or eight of eight local workers are killed after a tenth of the items.

python -m bench.afstream.exp7_failures [--runs N] [--quick]
"""

from __future__ import annotations

from typing import Any

from bench.afstream.convergence import ABOUT, DATA, ITEMS, THETA, compare, stream
from bench.afstream.jobs import arguments, keep
from bench.afstream.settings import PAPER_DELAY, approximate
from bench.streamlec import figures

TASKS = 8
FAILURES = (0, 4, 8)


def main() -> None:
    """Measure, print, draw and save."""
    options = arguments(__doc__ or "")
    tables, kept, pictures = {}, {}, []
    for name in DATA:
        job, found = stream(name, options.quick, TASKS)
        section = approximate(THETA, ITEMS)
        cases = {
            f"{count} failures": job.under(section, *(f"kill:local.{index}@10%" for index in range(count)))
            for count in FAILURES
        }
        paper = {f"{count} failures": delay for count, delay in PAPER_DELAY[name].items()}
        shown, kept[name], curves = compare(f"exp7 {name}", cases, "0 failures", options.runs, paper)
        tables[f"{found.about}, {TASKS} local workers, Theta {THETA:g}, L {ITEMS:g}; medians of {options.runs}"] = shown
        picture = f"afstream_exp7_{name}"
        if not options.quick:
            pictures.append(figures.lines(picture, f"Exp#7, {name}", "seconds", "L1 norm of a step", curves))
    content: dict[str, Any] = {"data": ABOUT, "pictures": pictures, **kept}
    keep(options, "afstream_exp7", "AF-Stream Exp#7: convergence under failures", tables, content)


if __name__ == "__main__":
    main()
