"""Recovery of one task and of all at once: replicas, checkpoints, and Storm's source replay (PPA, Figs. 6 to 8).

    python -m bench.correlated [--rounds N] [--quick]

16 sources -> 8 -> 4 -> 2 -> 1 tasks by merges of two, and a destination. Each merge keeps the tuples of the last 10 or
30 seconds, hands every second one on, and takes so long for each as a tuple of a slower engine does: else all figures
would be those of a process that starts. One merge of the first level is killed, or all 15. Where there are checkpoints,
the kill comes in the middle between two, so that half an interval has to be computed again. Results are compared with
those of the undisturbed job.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.rounds import Found, alternate, await_quiet
from bench.runs import median, run, save, table
from bench.streamlec.killing import Killed, on_this_host
from bench.window_merge import DIGITS

SOURCES, COST_US, SLIDE_S = 16, 5.0, 0.1
LEVELS = {"first": 8, "second": 4, "third": 2, "fourth": 1}
"""The tasks of each stage of merges."""
ALL = tuple(f"{stage}.{index}" for stage, tasks in LEVELS.items() for index in range(tasks))
ONE = ("first.3",)
SETTLED_S, AFTER_S = 3.0, 12.0
"""Of the stream, behind the first full window before the kill, and behind the kill."""
LINES = 100_000
INTERVALS_S = (5, 15, 30)
STAGES = ("numbers", *LEVELS, "sums")
JOB = """\
job: correlated
input: {{path: {lines}, rate: {rate}, repeat: 1000, limit: {limit}}}
micro_batch: {batch}
seed: 1
stages:
  numbers: {{operator: "bench.window_merge:Numbers", parallelism: {sources}}}
{merges}
  sums: {{operator: "bench.window_merge:Summed", parallelism: 1}}
edges:
{edges}
fault_tolerance: {scheme}
"""
COLUMNS = (
    "window", "tuples/s of a source", "recovery", "one killed: stall ms", "caught up ms", "all killed: stall ms",
    "caught up ms", "CPU s per M tuples", "runs",
)  # fmt: skip


class Setting(NamedTuple):
    """The length of the windows, in seconds, and tuples a second of each source."""

    window_s: int
    rate: int


SETTINGS = (Setting(10, 1000), Setting(30, 1000), Setting(30, 2000))


class Case(NamedTuple):
    """A way to recover; `interval_s` between checkpoints, 0 for none."""

    name: str
    scheme: str
    interval_s: int = 0


def cases(setting: Setting) -> list[Case]:
    """All that are compared."""
    stages = ", ".join(LEVELS)
    return [
        Case("replicas", f"{{scheme: partially_active, checkpoint_s: 5, replicate: [{stages}]}}"),
        *(
            Case(f"checkpoints every {every} s", f"{{scheme: partially_active, checkpoint_s: {every}}}", every)
            for every in INTERVALS_S
        ),
        Case("source replay", f"{{scheme: partially_active, checkpoint_s: null, replay_s: {setting.window_s}}}"),
    ]


def killed_at_s(setting: Setting, interval_s: float) -> float:
    """Seconds from the beginning: the windows are full, and half an interval has passed since a checkpoint."""
    least = setting.window_s + SETTLED_S
    if not interval_s:
        return least
    return (math.ceil(least / interval_s - 0.5) + 0.5) * interval_s


class Job(NamedTuple):
    """A setting with a way to recover, and who is killed."""

    setting: Setting
    case: Case
    victims: tuple[str, ...]
    shorter: float = 1.0
    """By what all times are divided, to try the bench."""

    def text(self, lines: Path, paced: bool = True) -> tuple[str, int]:
        """The topology, and the window at whose end the kill comes; at full speed unless `paced`."""
        rate = self.setting.rate * SOURCES
        kill_s = killed_at_s(self.setting, self.case.interval_s) / self.shorter
        windows = round((kill_s + AFTER_S / self.shorter) / SLIDE_S)
        options = f"{{windows: {round(self.setting.window_s / SLIDE_S)}, cost_us: {COST_US}}}"
        merges = "\n".join(
            f'  {stage}: {{operator: "bench.window_merge:WindowMerge", parallelism: {tasks}, options: {options}}}'
            for stage, tasks in LEVELS.items()
        )
        edges = "\n".join(
            f"  - {{from: {upstream}, to: {downstream}, partitioning: {'full' if downstream == 'sums' else 'merge'}}}"
            for upstream, downstream in pairwise(STAGES)
        )
        batch = round(rate * SLIDE_S)
        text = JOB.format(
            lines=lines, rate=rate if paced else "null", limit=windows * batch, batch=batch, sources=SOURCES,
            merges=merges, edges=edges, scheme=self.case.scheme,
        )  # fmt: skip
        return text, round(kill_s / SLIDE_S)


def write_lines(path: Path) -> None:
    """Numbers that are random, but the same each time."""
    numbers = np.random.default_rng(6).integers(0, 2**60, LINES)
    path.write_text("".join(f"{number:0{DIGITS}x}\n" for number in numbers.tolist()))


@cache
def undisturbed(job: Job) -> str:
    """The digest of the results."""
    with written(job, paced=False) as (file, _):
        return str(run(file).summary["model"]["sha256"])


@contextmanager
def written(job: Job, paced: bool) -> Iterator[tuple[str, int]]:
    """The topology's file, in a folder with its input, and the window at whose end the kill comes."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        lines, file = Path(folder, "lines.txt"), Path(folder, "job.yaml")
        write_lines(lines)
        text, window = job.text(lines, paced)
        file.write_text(text)
        yield str(file), window


def measure(job: Job) -> Killed:
    """One run. RuntimeError where it does not complete, or the results are not those of the undisturbed run."""
    with written(job, paced=True) as (file, window):
        done = on_this_host(file, [], {window: job.victims})
    if done.summary["model"]["sha256"] != undisturbed(job._replace(victims=())):
        raise RuntimeError("the results are not those of the undisturbed run")
    return done


def row(setting: Setting, name: str, one: Found[Killed], all_: Found[Killed]) -> list[Any]:
    """Medians of the rounds."""
    cells: list[Any] = [f"{setting.window_s} s", setting.rate, name]
    for found in (one, all_):
        cells.append(median(stall for done in found.done for stall in done.stalls_ms) if found.done else "-")
        last = [max((ms for ms in done.parts_ms()["caught up"] if ms is not None), default=None) for done in found.done]
        known = [ms for ms in last if ms is not None]
        cells.append(median(known) if known else "-")
    cpu = [sum(done.summary["cpu_seconds"].values()) / done.summary["items"] * 1e6 for done in one.done]
    return [*cells, median(cpu) if cpu else "-", f"{one.n_of_n}, {all_.n_of_n}"]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="ten times shorter, and not saved")
    options = parser.parse_args()
    shorter = 10.0 if options.quick else 1.0
    load = 0.0 if options.quick else await_quiet()
    rows: list[list[Any]] = []
    figures: dict[str, Any] = {}
    for setting in SETTINGS:
        jobs = {
            f"{case.name}, {who}": Job(setting, case, victims, shorter)
            for case in cases(setting)
            for who, victims in (("one", ONE), ("all", ALL))
        }
        about = f"windows of {setting.window_s} s, {setting.rate} tuples/s a source"
        found = alternate(about, jobs, measure, options.rounds, warm_up=False)
        for case in cases(setting):
            one, all_ = (found[f"{case.name}, {who}"] for who in ("one", "all"))
            rows.append(row(setting, case.name, one, all_))
        figures[about] = {
            name: {"failed": done.failed, "runs": [run.figures() | run.parts_ms() for run in done.done]}
            for name, done in found.items()
        }
    caption = (
        f"kill -9 of one of 15 merges, or of all; a tuple takes {COST_US:g} us; stall: the longest gap between windows"
        f" of {SLIDE_S * 1000:.0f} ms at the destination; caught up: the last of those killed, with what it had done"
    )
    tables = {caption: table(COLUMNS, rows)}
    if options.quick:
        print(*(f"{caption}\n\n{text}\n" for caption, text in tables.items()), sep="\n")
        return
    data = "synthesized: random numbers"
    save("correlated", "One task and all at once", tables, figures, data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
