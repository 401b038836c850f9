"""Exp#9 (AFX 6.2): convergence under BSP, SSP-5, SSP-10 and ASP.

python -m bench.afstream.exp9_consistency [--runs N] [--quick]
"""

from __future__ import annotations

from typing import Any

from bench.afstream.convergence import ABOUT, DATA, ITEMS, THETA, compare, stream
from bench.afstream.jobs import Job, arguments, keep
from bench.afstream.settings import approximate
from bench.streamlec import figures

MODELS = {"BSP": ("bsp", 0), "SSP-5": ("ssp", 5), "SSP-10": ("ssp", 10), "ASP": ("asp", 0)}
FEEDBACK = "{{from: global, to: local, feedback: true, consistency: {0}, staleness: {1}}}"


def main() -> None:
    """Measure, print, draw and save."""
    options = arguments(__doc__ or "")
    tables, kept, pictures = {}, {}, []
    for name in DATA:
        job, found = stream(name, options.quick)
        cases = {}
        for model, (consistency, staleness) in MODELS.items():
            edges = "[{from: local, to: global, partitioning: merge}, " + FEEDBACK.format(consistency, staleness) + "]"
            cases[model] = Job(job.config, [*job.sets, f"edges={edges}"]).under(approximate(THETA, ITEMS))
        shown, kept[name], curves = compare(f"exp9 {name}", cases, "BSP", options.runs, {})
        tables[f"{found.about}, Theta {THETA:g}, L {ITEMS:g}, no failures; medians of {options.runs}"] = shown
        picture = f"afstream_exp9_{name}"
        if not options.quick:
            pictures.append(figures.lines(picture, f"Exp#9, {name}", "seconds", "L1 norm of a step", curves))
    content: dict[str, Any] = {"data": ABOUT, "pictures": pictures, **kept}
    keep(options, "afstream_exp9", "AF-Stream Exp#9: consistency models", tables, content)


if __name__ == "__main__":
    main()
