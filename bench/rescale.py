"""The time without output while a job is rescaled, 2 -> 4 -> 3 tasks, with a large state that is kept by key.

    python -m bench.rescale [--keys N] [--rounds N]

stopped    for who reads the announced windows: from the last line of the tasks before to the first of the tasks after,
           each in the slowest file.
gap        between the moments at which windows are closed: the last that counts before the savepoint, and the first
           behind it. In it the savepoint is made, too.
usual gap  the median in the same jobs (bench/measures.py).

The result is compared with that of the same job undisturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.keyed_map import line
from bench.measures import usual_gap_ms
from bench.rounds import await_quiet
from bench.runs import median, riprap, save, table
from riprap.engine.run_directory.epochs import Committed, EpochTail

ENTRY_BYTES = 16
FILL = 10_000
"""Keys that a line of the beginning sends, each of them new; a later line sends EACH that are there."""
EACH = 100
RATE, SECONDS = 2_000, 60
STEPS = (2, 4, 3)
SETTLED_S = 4.0
"""Of output before each command."""
LOOK_S = 0.01
JOB = """\
job: {name}
input: {{path: {lines}, rate: {rate}}}
micro_batch: {batch}
seed: 1
stages:
  read: {{operator: "bench.keyed_map:Runs", parallelism: 1}}
  map: {{operator: "bench.keyed_map:KeyedMap", parallelism: {tasks}}}
edges:
  - {{from: read, to: map, partitioning: full}}
fault_tolerance: {{scheme: barrier, interval_ms: 100}}
"""
COLUMNS = ("tasks", "rescaled", "stopped ms, median", "stopped ms, longest", "gap ms, median", "usual gap ms", "of")


class Rescaled(NamedTuple):
    """One rescaling."""

    tasks: str
    stopped_ms: float
    gap_ms: float
    usual_gap_ms: float
    command_s: float


@contextmanager
def cluster() -> Iterator[Path]:
    """Services of its own, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        riprap("up", "--standby", "0")
        try:
            yield Path(folder)
        finally:
            riprap("down")


def write_lines(path: Path, keys: int) -> None:
    """The input: all keys, and then runs of keys that are there."""
    rng = np.random.default_rng(1)
    lines = [line(first, min(FILL, keys - first)) for first in range(0, keys, FILL)]
    lines += [line(first, EACH) for first in rng.integers(0, keys - EACH, RATE * SECONDS).tolist()]
    path.write_text("".join(lines))


def submit(folder: Path, name: str, tasks: int) -> Path:
    """The run directory of a job that was submitted."""
    job, out = folder / f"{name}.yaml", folder / name
    values = {"name": name, "lines": folder / "lines.txt", "rate": RATE, "batch": RATE // 20, "tasks": tasks}
    job.write_text(JOB.format(**values))
    riprap("submit", str(job), "--out", str(out))
    return out


def announced(out: Path, tasks: int) -> list[float]:
    """The moments at which windows were announced by all tasks."""
    committed = Committed(out, tasks)
    committed.refresh()
    at: dict[int, list[float]] = {}
    for row in committed.between([]):
        at.setdefault(row.epoch, []).append(row.committed_at)
    return [max(moments) for moments in at.values() if len(moments) == tasks]


def first_lines_at(out: Path, tasks: int) -> float:
    """The wall-clock time at which the last of the sinks announced its first window."""
    looks = (partial(_first_line_at, out, sink) for sink in range(tasks))
    return max(await_that(look, f"{out} announces nothing") for look in looks)


def _first_line_at(out: Path, sink: int) -> float:
    """Of one sink; 0 before. It is looked at more often than a second line comes."""
    path = out / f"epochs.{sink}.csv"
    if not path.exists():
        return 0.0
    changed_at = path.stat().st_mtime
    return changed_at if EpochTail(path).refresh() else 0.0


def last_lines_at(out: Path, tasks: int) -> float:
    """The wall-clock time at which the last of the sinks announced its last window."""
    return max((out / f"epochs.{sink}.csv").stat().st_mtime for sink in range(tasks))


def await_that(what: Callable[[], Any], why: str) -> Any:
    """The first true answer. RuntimeError after two minutes."""
    deadline = time.monotonic() + 120
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError(why)
        time.sleep(LOOK_S)
    return found


def await_output(out: Path, tasks: int) -> None:
    """Until it has announced windows for a while."""
    await_that(lambda: (at := announced(out, tasks)) and max(at) - min(at) > SETTLED_S, f"{out} announces nothing")


def sums(out: Path, tasks: int) -> list[int]:
    """The result of a job that has completed."""
    summary = await_that((out / "summary.json").exists, f"{out} does not end") and json.loads(
        (out / "summary.json").read_text()
    )
    if not summary["completed"]:
        raise RuntimeError(f"{out} did not complete")
    paths = sorted(out.glob("model*.npz"))
    assert len(paths) == tasks
    total: np.ndarray = sum((np.load(path)["sums"] for path in paths), np.zeros(3, np.uint64))
    return list(map(int, total))


def one_round(folder: Path, number: int, truth: Sequence[int]) -> list[Rescaled]:
    """A job that is rescaled twice. AssertionError where its result is not that of the undisturbed one."""
    name, found = f"round{number}", []
    out = submit(folder, name, STEPS[0])
    for before, after in pairwise(STEPS):
        await_output(out, before)
        later, began = folder / f"{name}.{after}", time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            first_at = pool.submit(first_lines_at, later, after)
            riprap("rescale", name, f"map={after}", "--out", str(later))
            took_s = time.monotonic() - began
        stopped_ms = (first_at.result() - last_lines_at(out, before)) * 1000
        await_output(later, after)
        old, new = announced(out, before), announced(later, after)
        usual = usual_gap_ms([at for at in old if at < began], [])
        gap_ms = (min(new) - max(old)) * 1000
        found.append(Rescaled(f"{before} -> {after}", stopped_ms, gap_ms, usual, took_s))
        print(found[-1], flush=True)
        out = later
    assert sums(out, STEPS[-1]) == truth, "the result is another"
    return found


def row(tasks: str, found: Sequence[Rescaled], rounds: int) -> list[Any]:
    """All rescalings from so many tasks to so many."""
    mine = [one for one in found if one.tasks == tasks]
    stopped = [one.stopped_ms for one in mine]
    return [
        tasks, len(mine), median(stopped), max(stopped), median(one.gap_ms for one in mine),
        median(one.usual_gap_ms for one in mine), f"{len(mine)} of {rounds}",
    ]  # fmt: skip


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=6_250_000, help="16 bytes each; 100 MB unless told")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    load = await_quiet()
    found: list[Rescaled] = []
    with cluster() as folder:
        write_lines(folder / "lines.txt", options.keys)
        truth = sums(submit(folder, "undisturbed", STEPS[0]), STEPS[0])
        assert truth[:2] == [options.keys, options.keys + RATE * SECONDS * EACH]
        for number in range(options.rounds):
            found += one_round(folder, number, truth)
    rows = [row(f"{before} -> {after}", found, options.rounds) for before, after in pairwise(STEPS)]
    caption = f"A map of {options.keys:,} keys, {options.keys * ENTRY_BYTES / 1e6:.0f} MB, rescaled while it runs"
    figures = {"rescaled": [one._asdict() for one in found]}
    data = f"synthesized: all keys once, then {EACH * RATE:,} updates a second of runs at random places"
    save("rescale", "Rescaling", {caption: table(COLUMNS, rows)}, figures, data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
