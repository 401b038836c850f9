"""The death of a rack, as three schemes bear it: what a destination puts out, over time (PPA, Fig. 10; a picture).

    python -m bench.rack [--keys N]

Four hosts in two racks on this machine; the rack that the destination is not on is killed with all that runs there.
`partially_active` has replicas of the sources and of one of two tasks that keep a large map, on the other rack, so it
goes on with half of the output; `barrier` and `upstream_backup` have no replicas, and wait.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.rounds import await_quiet
from bench.runs import RESULTS, Run, run, save, table

RATE, WINDOW_S = 25_000, 0.04
BEFORE, AFTER = 150, 150
"""Windows of a run before the kill and behind it."""
RACKS = ("--hosts", "4", "--domains", "rack=2")
JOB = """\
job: rack
input: {{path: {lines}, rate: {rate}, repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.large_map:Beats", parallelism: 2}}
  map: {{operator: "bench.large_map:PassingMap", parallelism: 2, options: {{keys: {keys}}}}}
  count: {{operator: "bench.large_map:Counted", parallelism: 1}}
edges:
  - {{from: read, to: map, partitioning: full}}
  - {{from: map, to: count, partitioning: full}}
placement: {{spread: [rack], when_unsatisfiable: best_effort}}
fault_tolerance: {scheme}
"""
REPLICAS = "replicate: [read, map.0], tentative_after_ms: 100"
CASES = {
    "partially_active": f"{{scheme: partially_active, checkpoint_s: 2, {REPLICAS}}}",
    "barrier": "{scheme: barrier, interval_ms: 1000}",
    "upstream_backup": "{scheme: upstream_backup}",
}
COLUMNS = (
    "scheme",
    "killed",
    "silent for s",
    "tentative windows",
    "completeness",
    "exact again after s",
    "amended by s",
)
EXACT, TENTATIVE, AMENDED = "#1f77b4", "#ff7f0e", "#2ca02c"
SHOWN_S = (-1.0, 12.0)
"""The stretch of the picture, from the kill."""


class Course(NamedTuple):
    """Moments of windows, in seconds from the kill: (window, at)."""

    exact: list[tuple[int, float]]
    tentative: list[tuple[int, float]]
    amended: list[tuple[int, float]]
    completeness: list[float]
    killed: list[str]

    @property
    def silent_s(self) -> float:
        """The longest time after the kill in which nothing was put out, exact or tentative."""
        moments = sorted(at for _, at in (*self.exact, *self.tentative) if at > 0)
        return max(after - before for before, after in zip([0.0, *moments], moments, strict=False))

    @property
    def exact_s(self) -> float:
        """The end of the longest pause of exact windows after the kill."""
        moments = sorted(at for _, at in self.exact if at > 0)
        return max(zip([0.0, *moments], moments, strict=False), key=lambda pair: pair[1] - pair[0])[1]


def course_of(done: Run) -> Course:
    """Read a run with its one kill."""
    kills = [failure for failure in done.summary["failures"] if failure["action"] == "kill"]
    at = min(failure["injected_at"] for failure in kills)
    return Course(
        exact=[(epoch, committed - at) for epoch, _, _, committed in done.epochs],
        tentative=[(int(line["window"]), float(line["shown_at"]) - at) for line in done.tentative],
        amended=[(int(line["window"]), float(line["amended_at"]) - at) for line in done.tentative],
        completeness=[float(line["completeness"]) for line in done.tentative if line["completeness"]],
        killed=sorted(failure["worker"] for failure in kills),
    )


def measure(keys: int, scheme: str, rack: str) -> Course:
    """One run with its kill. RuntimeError where it does not complete, or counts an item not once."""
    batch = int(RATE * WINDOW_S)
    items = (BEFORE + AFTER) * batch
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        lines.write_text("x\n" * 100_000)
        job.write_text(JOB.format(lines=lines, rate=RATE, limit=items, batch=batch, keys=keys, scheme=scheme))
        done = run(str(job), [], [f"kill:domain:rack={rack}@epoch={BEFORE}"], RACKS)
    if not done.summary["completed"] or done.summary["items"] != items:
        raise RuntimeError(f"{done.summary['items']} items of {items}")
    return course_of(done)


def row(name: str, course: Course) -> list[Any]:
    """A line of the table."""
    shares = course.completeness
    completeness = sum(shares) / len(shares) if shares else "-"
    amended = max((at for _, at in course.amended), default=None)
    cells = [" ".join(course.killed), course.silent_s, len(course.tentative), completeness, course.exact_s]
    return [name, *cells, "-" if amended is None else amended]


def draw(courses: Mapping[str, Course]) -> None:
    """Save the picture: the number of each window over the time at which it was put out."""
    import matplotlib  # an extra, which only the picture needs

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "riprap"  # the same figures, the same file
    from matplotlib import pyplot

    figure, every = pyplot.subplots(len(courses), 1, figsize=(8.0, 7.0), sharex=True, layout="constrained")
    for axes, (name, course) in zip(every, courses.items(), strict=True):
        for label, moments, color, size in (
            ("exact", course.exact, EXACT, 9.0),
            ("tentative", course.tentative, TENTATIVE, 9.0),
            ("made exact", course.amended, AMENDED, 3.0),
        ):
            near = [(window, at) for window, at in moments if SHOWN_S[0] <= at <= SHOWN_S[1]]
            if near:
                axes.scatter([at for _, at in near], [window for window, _ in near], s=size, color=color, label=label)
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_title(name, loc="left")
        axes.set_ylabel("window")
        axes.legend(loc="upper left", frameon=False)
    every[-1].set_xlabel("seconds from the death of the rack to the output of a window")
    figure.savefig(RESULTS / "rack.svg", metadata={"Date": None})


def main() -> None:
    """Print, draw and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=6_250_000, help="of each task, 16 bytes each; 100 MB unless told")
    parser.add_argument("--rack", default="rack-2", help="the one that dies")
    options = parser.parse_args()
    load = await_quiet()
    courses = {name: measure(options.keys, scheme, options.rack) for name, scheme in CASES.items()}
    draw(courses)
    caption = (
        f"one of two racks dies; {options.keys * 16 / 1e6:.0f} MB of state a task, windows of {WINDOW_S * 1000:.0f} ms,"
        f" {RATE:,} items/s; one run of each"
    )
    tables = {caption: table(COLUMNS, [row(name, course) for name, course in courses.items()])}
    data = "synthesized: one update an item, of keys that follow from its number"
    figures: dict[str, Any] = {name: course._asdict() for name, course in courses.items()}
    figures["pictures"] = ["rack.svg"]
    save("rack", "The death of a rack", tables, figures, data=data, rounds=1, load=load)


if __name__ == "__main__":
    main()
