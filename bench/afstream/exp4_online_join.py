"""Exp#4 (AFX 6.1.2): the join of two packet streams by sampling; throughput, and its error after ten system failures.

python -m bench.afstream.exp4_online_join [--runs N] [--quick]
"""

from __future__ import annotations

import math

import numpy as np

from bench.afstream import data
from bench.afstream.jobs import Job, Outcome, arguments
from bench.afstream.settings import PAPER_JOIN, PAPER_JOIN_UNDISTURBED
from bench.afstream.tradeoff import Study, measure
from riprap.operators.inputs.job_input import open_input

STAGES = {"left": 1, "right": 1, "join": 2}
WINDOWS = 40
OTHERS = {"mini_batch": 0.89 / 6.96, "upstream_backup": 0.87 / 6.96}
Z_95 = 1.96


def pairs_of(left: str, right: str, passes: int) -> float:
    """The number of pairs of packets with the same destination and second, in `passes` passes over both streams."""
    counts: list[dict[bytes, int]] = []
    for path in (left, right):
        stream = open_input(path)
        packets = stream.read(0, stream.items)[0]
        keys = np.empty(len(packets), [("second", "<i8"), ("destination", "u1", (16,))])
        keys["second"], keys["destination"] = packets["time_ns"] // 1_000_000_000, packets["destination"]
        found, numbers = np.unique(keys.view("V24"), return_counts=True)
        counts.append(dict(zip((key.tobytes() for key in found), numbers.tolist(), strict=True)))
    return float(sum(count * counts[1].get(key, 0) for key, count in counts[0].items())) * passes**2


def accuracy(outcome: Outcome, truth: float) -> dict[str, float]:
    """The relative error of the estimate, and 1 when the 95 % interval holds the truth."""
    estimate = sum(float(part["estimate"][0]) for part in outcome.results)
    reach = Z_95 * math.sqrt(sum(float(part["variance"][0]) for part in outcome.results))
    return {
        "relative error": abs(estimate - truth) / truth,
        "half width of the interval": reach / truth,
        "truth within the interval": float(abs(estimate - truth) <= reach),
    }


def main() -> None:
    """Measure, print and save."""
    options = arguments(__doc__ or "")
    left, right = data.cities(100_000 if options.quick else 2_000_000)
    repeat = 10 if options.quick else 15
    sets = [
        f"input.path={left.path}", f"input.repeat={repeat}",
        f"stages.right.input.path={right.path}", f"stages.right.input.repeat={repeat}",
        f"micro_batch={left.rows * repeat // WINDOWS}",
    ]  # fmt: skip
    sets += [f"stages.{stage}.parallelism={tasks}" for stage, tasks in STAGES.items()]
    truth = pairs_of(left.path, right.path, repeat)
    study = Study(
        name="afstream_exp4",
        title="AF-Stream Exp#4: online join",
        unit="packets",
        job=Job("configs/online_join.yaml", sets),
        stages=STAGES,
        pairs=((1e5, 1e3), (1e4, 1e2)),
        window="none",
        accuracy=lambda outcome: accuracy(outcome, truth),
        paper=PAPER_JOIN,
        paper_undisturbed=PAPER_JOIN_UNDISTURBED,
        paper_table=OTHERS,
    )
    measure(study, options, {"data": f"{left.about}, {truth:,.0f} pairs", "pairs": truth})


if __name__ == "__main__":
    main()
