"""Exp#3 (AFX 6.1.2): heavy hitters by count-min sketches; throughput, precision and recall after ten system failures.

python -m bench.afstream.exp3_heavy_hitters [--runs N] [--quick]

The sketches stand behind the source, as the paper's do: in a source the thresholds act on nothing. The largest Theta is
the control that must lose heavy flows when workers fail.
"""

from __future__ import annotations

import numpy as np

from bench.afstream import data
from bench.afstream.jobs import Job, Outcome, arguments
from bench.afstream.settings import PAPER_HEAVY_HITTERS, PAPER_HEAVY_HITTERS_UNDISTURBED
from bench.afstream.tradeoff import Study, measure
from riprap.operators.inputs.job_input import open_input

THRESHOLD = {False: 2.5e6, True: 5e5}  # of a quick look
STAGES = {"read": 2, "sketch": 2, "merge": 1}
SKETCHES = ("sketch", "merge")
PASSES = 1  # of the trace, in a window
WINDOWS = 60
OTHERS = {"mini_batch": 0.91 / 12.33, "upstream_backup": 0.89 / 12.33}


def truth(path: str, passes: int, threshold: float) -> set[int]:
    """The flows of more than the threshold of bytes in a window, which is `passes` passes over the trace."""
    trace = open_input(path)
    records = trace.read(0, trace.items)[0]
    flows, numbers = np.unique(records["flow"], return_inverse=True)
    sizes = np.bincount(numbers, weights=records["payload"]) * passes
    return set(flows[sizes > threshold].tolist())


def accuracy(outcome: Outcome, heavy: set[int]) -> dict[str, float]:
    """Precision and recall over the flows that were reported in all windows."""
    found = outcome.results[0]
    windows = outcome.summary["epochs"]
    right = sum(flow in heavy for flow in found["flow"].tolist())
    return {"precision": right / max(len(found["flow"]), 1), "recall": right / max(windows * len(heavy), 1)}


def main() -> None:
    """Measure, print and save."""
    options = arguments(__doc__ or "")
    trace = data.links(160_000 if options.quick else 1_000_000)
    threshold, repeat = THRESHOLD[options.quick], PASSES * (10 if options.quick else WINDOWS)
    sets = [f"input.path={trace.path}", f"input.repeat={repeat}", f"micro_batch={trace.rows * PASSES}"]
    sets += [f"stages.{stage}.parallelism={tasks}" for stage, tasks in STAGES.items()]
    sets += [f"stages.{stage}.options.threshold={threshold}" for stage in SKETCHES]
    heavy = truth(trace.path, PASSES, threshold)
    study = Study(
        name="afstream_exp3",
        title="AF-Stream Exp#3: heavy hitters",
        unit="packets",
        job=Job("configs/heavy_hitters_staged.yaml", sets),
        stages=STAGES,
        pairs=((1e5, 1e3), (1e4, 1e2), (1e8, 1e6)),
        window="hopping",
        accuracy=lambda outcome: accuracy(outcome, heavy),
        paper=PAPER_HEAVY_HITTERS,
        paper_undisturbed=PAPER_HEAVY_HITTERS_UNDISTURBED,
        paper_table=OTHERS,
    )
    about = f"{trace.about}, windows of {trace.rows * PASSES:,} packets with {len(heavy)} heavy flows"
    measure(study, options, {"data": about, "heavy_hitters": len(heavy)})


if __name__ == "__main__":
    main()
