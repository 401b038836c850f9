"""The common part of soaks of schedules: their command line, what they tell, and how parts of one seed add up."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench import runs

Outcome = dict[str, Any]
"""What became of a schedule: its `number`, its `seconds`, the `reason` if it went wrong, and more."""


class Wrong(AssertionError):
    """A schedule did not end as it must."""


def run_each(
    script: str, seed: int, numbers: Iterable[int], draw: Callable[[int, int], Any], run: Callable[[Any], Outcome]
) -> list[Outcome]:
    """Run schedules one after the other, telling of each, and how one that went wrong is run again."""
    outcomes = []
    for number in numbers:
        schedule = draw(seed, number)
        outcome = run(schedule)
        outcomes.append(outcome)
        print(f"{'WRONG' if outcome['reason'] else 'ok':<6}{outcome['seconds']:5.1f} s  {schedule}", flush=True)
        if outcome["reason"]:
            again = f"python tests/soak/{script} --seed {seed} --only {number} --keep"
            print(f"      {outcome['reason']}\n      replay: {again}", flush=True)
    return outcomes


def with_kept(name: str, seed: int, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """These and those of the same seed that bench/results/NAME.json keeps, by number."""
    path = runs.RESULTS / f"{name}.json"
    kept = json.loads(path.read_text())["figures"] if path.exists() else {}
    known = {one["number"]: one for one in kept.get("outcomes", [])} if kept.get("seed") == seed else {}
    known |= {one["number"]: one for one in outcomes}
    return [known[number] for number in sorted(known)]


def tabulate(heading: str, names: Sequence[str], every: list[Outcome], of: Callable[[Any], Any]) -> str:
    """A row for each name, of the outcomes that have it."""
    rows = []
    for name in names:
        mine = [one for one in every if name in of(one)]
        if mine:
            passed, hits = sum(not one["reason"] for one in mine), sum(one["hits"] for one in mine)
            rows.append((name, len(mine), passed, hits, runs.median(one["seconds"] for one in mine)))
    return runs.table([heading, "schedules", "as they must end", "processes hit", "median s"], rows)


def main(
    doc: str, count: int, run_all: Callable[[int, Sequence[int], Path], list[Outcome]],
    keep: Callable[[int, list[Outcome]], None],
) -> int:  # fmt: skip
    """Parse the command line, run in a new directory, keep; the exit code."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first schedule's number")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--only", type=int, help="run this one, and keep no figures")
    parser.add_argument("--keep", action="store_true", help="keep the directories, and say where")
    options = parser.parse_args()
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.count)
    directory = Path(tempfile.mkdtemp(prefix="riprap-soak-"))
    try:
        outcomes = run_all(options.seed, numbers, directory)
    finally:
        if options.keep:
            print(directory)
        else:
            shutil.rmtree(directory)
    if options.only is None:
        keep(options.seed, outcomes)
    wrong = sum(bool(one["reason"]) for one in outcomes)
    print(f"{len(outcomes) - wrong} of {len(outcomes)} schedules ended as they must")
    return 1 if wrong else 0
