"""Exp#8 (AFX 6.2): how L and Theta affect the time to converge.

    python -m bench.afstream.exp8_thresholds [--runs N] [--quick]

The local workers stand behind the source, as the paper's do: in a source the thresholds act on nothing, and all curves
are one. The smallest Theta is the control that must cost something, the infinite one that which must cost nothing.
"""

from __future__ import annotations

from typing import Any

from bench.afstream.convergence import ABOUT, DATA, ITEMS, compare, stream
from bench.afstream.jobs import arguments, keep
from bench.afstream.settings import NONE, approximate
from bench.streamlec import figures

THETA = 100.0
THETAS = (0.01, THETA, 1e4, float("inf"))
LIMITS = (0.0, 500.0)
ITERATION = {"kdd12": 200_000, "higgs": 100_000}
ITERATIONS = 60


def main() -> None:
    """Measure, print, draw and save."""
    options = arguments(__doc__ or "")
    tables, kept, pictures = {}, {}, []
    for name in DATA:
        job, found = stream(name, options.quick, iteration=ITERATION[name], iterations=ITERATIONS, staged=True)
        cases = {"none": job.under(NONE)}
        cases |= {f"Theta {THETA:g}, L {limit:g}": job.under(approximate(THETA, limit)) for limit in LIMITS}
        cases |= {f"Theta {theta:g}, L {ITEMS:g}": job.under(approximate(theta, ITEMS)) for theta in THETAS}
        shown, kept[name], curves = compare(f"exp8 {name}", cases, "none", options.runs, {})
        tables[f"{found.about}, no failures; medians of {options.runs}"] = shown
        picture = f"afstream_exp8_{name}"
        if not options.quick:
            pictures.append(figures.lines(picture, f"Exp#8, {name}", "seconds", "L1 norm of a step", curves))
    content: dict[str, Any] = {"data": ABOUT, "pictures": pictures, **kept}
    keep(options, "afstream_exp8", "AF-Stream Exp#8: thresholds and convergence", tables, content)


if __name__ == "__main__":
    main()
