"""Runs hundreds of random fault schedules on real jobs: all must end with the model of a job that nobody disturbed.

    python tests/soak/soak.py --count 200 --seed 1

A schedule that goes wrong is reported with the command that replays it, and the others go on; the exit code is 1 at the
end. Outcomes are kept in bench/results/soak.json, where parts (--first, --count) of one seed add up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from schedules import ROLES, SCHEMES, Schedule, draw  # noqa: E402
from soaking import Wrong, main, run_each, with_kept  # noqa: E402
from trial import Arena  # noqa: E402

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


def run_all(seed: int, numbers: Sequence[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    arena = Arena(directory)
    return run_each("soak.py", seed, numbers, draw, lambda schedule: run_one(arena, schedule))


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    every = with_kept("soak", seed, outcomes)
    passed = sum(not one["reason"] for one in every)
    ended = f"{passed} of {len(every)} schedules of seed {seed} ended with the undisturbed model and left nothing"
    tables = {
        f"{ended}; by scheme": table("scheme", SCHEMES, every, lambda one: [one["scheme"]]),
        "By who was hit (a schedule has one to three hits)": table("role", ROLES, every, lambda one: one["roles"]),
    }
    runs.save("soak", "Random fault schedules", tables, {"seed": seed, "passed": passed, "outcomes": every})


def table(heading: str, names: Iterable[str], every: list[dict[str, Any]], of: Any) -> str:
    """A row for each name, of the outcomes that have it."""
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


if __name__ == "__main__":
    sys.exit(main(__doc__, 200, run_all, keep))
