"""Exp#8 (AFX 6.2): how L and Theta affect the time to converge.

python -m bench.afstream.exp8_thresholds [--runs N] [--quick]
"""

from __future__ import annotations

from typing import Any

from bench.afstream.convergence import DATA, ITEMS, THETA, compare, stream
from bench.afstream.jobs import arguments, keep
from bench.afstream.settings import NONE, approximate
from bench.streamlec import figures

THETAS = (0.01, 0.1, 1.0)
LIMITS = (0.0, 500.0, 2000.0)


def main() -> None:
    """Measure, print, draw and save."""
    options = arguments(__doc__ or "", runs=2)
    tables, kept, pictures = {}, {}, []
    for name in DATA:
        job, found = stream(name, options.quick)
        cases = {"none": job.under(NONE)}
        cases |= {f"Theta {THETA:g}, L {limit:g}": job.under(approximate(THETA, limit)) for limit in LIMITS}
        cases |= {f"Theta {theta:g}, L {ITEMS:g}": job.under(approximate(theta, ITEMS)) for theta in THETAS}
        shown, kept[name], curves = compare(f"exp8 {name}", cases, "none", options.runs, {})
        tables[f"{found.about}, no failures; medians of {options.runs}"] = shown
        picture = f"afstream_exp8_{name}"
        if not options.quick:
            pictures.append(figures.lines(picture, f"Exp#8, {name}", "seconds", "L1 norm of a step", curves))
    content: dict[str, Any] = {"pictures": pictures, **kept}
    keep(options, "afstream_exp8", "AF-Stream Exp#8: thresholds and convergence", tables, content)


if __name__ == "__main__":
    main()
