"""Runs hundreds of random fault schedules on real jobs: all must end with the model of a job that nobody disturbed.

    python tests/soak/soak.py --count 200 --seed 1

A schedule that goes wrong is reported with the command that replays it, and the others go on; the exit code is 1 at the
end. Outcomes are kept in bench/results/soak.json, where parts (--first, --count) of one seed add up.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from schedules import ROLES, SCHEMES, Schedule, draw  # noqa: E402
from trial import Arena, Wrong  # noqa: E402

from bench import runs  # noqa: E402


def run_one(arena: Arena, schedule: Schedule) -> dict[str, Any]:
    """Run a schedule, and say what became of it."""
    started, reason, summary = time.monotonic(), "", {}
    try:
        summary = arena.run(schedule)
    except Wrong as wrong:
        reason = str(wrong)
    return {
        "number": schedule.number,
        "scheme": schedule.scheme,
        "roles": [hit.role for hit in schedule.hits],
        "faults": str(schedule).partition(", ")[2],
        "reason": reason,
        "attempts": summary.get("attempts", 0),
        "injected": summary.get("injected", 0),
        "seconds": round(time.monotonic() - started, 1),
    }


def run_all(seed: int, numbers: Iterable[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    arena, outcomes = Arena(directory), []
    for number in numbers:
        schedule = draw(seed, number)
        outcome = run_one(arena, schedule)
        outcomes.append(outcome)
        print(f"{'WRONG' if outcome['reason'] else 'ok':<6}{outcome['seconds']:5.1f} s  {schedule}", flush=True)
        if outcome["reason"]:
            print(f"      {outcome['reason']}\n      replay: {replay(seed, number)}", flush=True)
    return outcomes


def replay(seed: int, number: int) -> str:
    """The command that runs one schedule again, and keeps what it leaves."""
    return f"python tests/soak/soak.py --seed {seed} --only {number} --keep"


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    path = runs.RESULTS / "soak.json"
    kept = json.loads(path.read_text())["figures"] if path.exists() else {}
    known = {one["number"]: one for one in kept.get("outcomes", [])} if kept.get("seed") == seed else {}
    known |= {one["number"]: one for one in outcomes}
    every = [known[number] for number in sorted(known)]
    passed = sum(not one["reason"] for one in every)
    ended = f"{passed} of {len(every)} schedules of seed {seed} ended with the undisturbed model and left nothing"
    tables = {
        f"{ended}; by scheme": _table("scheme", SCHEMES, every, lambda one: [one["scheme"]]),
        "By who was hit (a schedule has one to three hits)": _table("role", ROLES, every, lambda one: one["roles"]),
    }
    runs.save("soak", "Random fault schedules", tables, {"seed": seed, "passed": passed, "outcomes": every})


def _table(heading: str, names: Iterable[str], every: list[dict[str, Any]], of: Any) -> str:
    rows = []
    for name in names:
        mine = [one for one in every if name in of(one)]
        passed = sum(not one["reason"] for one in mine)
        seconds = runs.median(one["seconds"] for one in mine) if mine else ""
        injected, resumed = sum(one["injected"] for one in mine), sum(one["attempts"] > 1 for one in mine)
        rows.append((name, len(mine), passed, injected, resumed, seconds))
    headings = [
        heading,
        "schedules",
        "as undisturbed",
        "faults injected",
        "resumed after the launcher's death",
        "median s",
    ]
    return runs.table(headings, rows)


def main() -> int:
    """Parse the command line, run, keep; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first schedule's number")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int, help="run this one, and keep no figures")
    parser.add_argument("--keep", action="store_true", help="keep the run directories, and say where")
    options = parser.parse_args()
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.count)
    directory = Path(tempfile.mkdtemp(prefix="riprap-soak-"))
    try:
        outcomes = run_all(options.seed, numbers, directory)
    finally:
        if not options.keep:
            shutil.rmtree(directory)
    if options.only is None:
        keep(options.seed, outcomes)
    wrong = [one for one in outcomes if one["reason"]]
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} schedules ended as they must")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
