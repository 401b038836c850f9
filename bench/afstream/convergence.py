"""The base of experiments 6 to 9 (AFX 6.2): descent by windows, the L1 norm of each step, and its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.afstream import data
from bench.afstream.jobs import Case, Job, Outcome, interleave, median, percent
from bench.rounds import Found, ratio
from bench.runs import table

DATA = ("kdd12", "higgs")
ABOUT = "synthesized: KDD Cup 2012 and HIGGS, 2,000,000 rows each, streamed again and again"
ITERATION = {"kdd12": 1_000_000, "higgs": 300_000}
ITERATIONS = 90
THETA, ITEMS = 0.01, 2000.0
TOLERANCE = 1.05
"""A run has converged when its L1 norm is at most this multiple of the last one of the undisturbed run."""


class Step(NamedTuple):
    """An iteration: seconds since the first one began, and the L1 norm of its change."""

    seconds: float
    l1_norm: float


class Stream(NamedTuple):
    """A job over one of the data sets, and the counts of these."""

    job: Job
    data: data.Data


def stream(
    name: str, quick: bool, tasks: int = 2, iteration: int = 0, iterations: int = ITERATIONS, staged: bool = False
) -> Stream:
    """A stream of iterations over "kdd12" or "higgs", of the paper's size unless another is given.

    `staged`: the local workers stand behind the source, as in the paper, so that Theta and L act on them.
    """
    found = data.dense(name, 100_000 if quick else 2_000_000)
    size = (iteration or ITERATION[name]) // (10 if quick else 1)
    items = size * (iterations // 3 if quick else iterations)
    sets = [
        f"input.path={found.path}",
        f"input.repeat={-(-items // found.rows)}",
        f"input.limit={items}",
        f"micro_batch={size}",
        f"stages.local.parallelism={tasks}",
    ]
    if staged:
        sets.append(f"stages.read.parallelism={tasks}")
    return Stream(Job(f"configs/convergence_{name}{'_staged' if staged else ''}.yaml", sets), found)


def steps(outcome: Outcome) -> list[Step]:
    """The iterations of a run, with the moments at which they were committed."""
    rows = sorted(outcome.epochs[0], key=lambda row: row["epoch"])
    moments = {int(row["epoch"]): row["committed_at"] for row in rows}
    began = rows[0]["committed_at"] - rows[0]["latency_ms"] / 1000
    results = outcome.results[0]
    taken = zip(results["epoch"].tolist(), results["l1_norm"].tolist(), strict=True)
    return [Step(moments[epoch] - began, norm) for epoch, norm in taken if epoch in moments]


def target(undisturbed: Case) -> float:
    """The L1 norm that counts as converged."""
    return TOLERANCE * median(steps(one)[-1].l1_norm for one in undisturbed.outcomes)


def seconds_to(found: Case, norm: float) -> float:
    """Median time until the L1 norm is, and stays, at most `norm`; NaN when a run never gets there."""
    times = []
    for one in found.outcomes:
        taken = steps(one)
        above = max((number for number, step in enumerate(taken) if step.l1_norm > norm), default=-1)
        times.append(taken[above + 1].seconds if above + 1 < len(taken) else float("nan"))
    return median(times)


def reached(seconds: float) -> str:
    """For a table: NaN is a norm that was never reached."""
    return f"{seconds:.3g}" if seconds == seconds else "never"


def delays(case: Case, base: Case, norm: float) -> str:
    """The extra time to the norm over that of `base`: the median over the rounds where both get there."""
    found = ratio(_arrivals(case, norm), _arrivals(base, norm), lambda seconds: seconds)
    if found.median != found.median:
        return f"never ({found.n_of_n})"
    return f"{percent(found.median - 1)} ({percent(found.low - 1)} to {percent(found.high - 1)}; {found.n_of_n})"


def _arrivals(case: Case, norm: float) -> Found[float]:
    """The rounds' times to the norm; None where it was not reached."""
    times = (seconds_to(Case([one]), norm) if one else None for one in case.rounds)
    return Found([None if seconds is None or seconds != seconds else seconds for seconds in times])


def compare(
    title: str, cases: Mapping[str, Job], base: str, runs: int, paper: Mapping[str, float]
) -> tuple[str, dict[str, Any], dict[str, list[Step]]]:
    """Run all cases; a table of their times to the last L1 norm of `base`, figures, and curves of the first round."""
    found = interleave(title, cases, runs)
    norm = target(found[base])
    rows = []
    for name, case in found.items():
        last = median(steps(one)[-1].l1_norm for one in case.outcomes)
        took, kills = seconds_to(case, norm), median(one.kills for one in case.outcomes)
        delay, papers = delays(case, found[base], norm), percent(paper.get(name, float("nan")))
        backups = median(one.summary["backups"]["state_backups"] for one in case.outcomes)
        rows.append(
            [name, reached(took), delay, papers, last, case.rate / 1e6, f"{backups:.0f}", f"{kills:.0f}", case.n_of_n]
        )
    heading = [
        "case", "s to the final L1 norm", "delay", "paper's delay", "last L1 norm", "M items/s", "state backups",
        "workers restored", "runs completed",
    ]  # fmt: skip
    kept = {
        name: case.figures() | {"steps": [[list(step) for step in steps(one)] for one in case.outcomes]}
        for name, case in found.items()
    }
    curves = {name: steps(case.outcomes[0]) for name, case in found.items() if case.outcomes}
    return table(heading, rows), kept, curves
