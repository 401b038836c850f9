"""Exp#2 (LEC V-B): what single and double failures do to the latency of micro-batches.

python -m bench.streamlec.exp2_failures [--kills N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.runs import median, ready, riprap, save, table
from bench.streamlec import figures
from bench.streamlec.settings import MICRO_BATCH, PAPER_LATENCY, ROWS, SCHEMES
from engine.cli.epochs import EpochRow, EpochTail

CASES = {("EC(5,1)", 1), ("Rep-2x", 1), ("Reactive", 1), ("EC(4,2)", 2), ("Rep-3x", 2), ("Reactive", 2)}
EVERY = 8  # epochs from one failure to the next
PARTS = ("detect", "restart", "restore", "reprocess")
PAPER_PARTS = "restart 27.4 %, restore 61.8 % of a single failure"


def measure(scheme: str, at_once: int, kills: int) -> dict[str, Any]:
    """One job with so many failures, each of `at_once` processors; latencies around each, and where the time went."""
    epochs = EVERY * (kills + 1)
    sets = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=1000", f"input.limit={epochs * MICRO_BATCH}"]
    faults = [
        f"kill:processor.{(number + one) % 6}@epoch={EVERY * (number + 1)}"
        for number in range(kills)
        for one in range(at_once)
    ]
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        out = Path(folder) / "run"
        words = [word for value in (*sets, *SCHEMES[scheme]) for word in ("--set", value)]
        words += [word for fault in faults for word in ("--fault", fault)]
        summary = json.loads(
            riprap("run", "configs/logistic_regression_kdd12.yaml", "--json", "--out", str(out), *words)
        )
        tail = EpochTail(out / "epochs.csv")
        tail.refresh()
        events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    failures = [failure for failure in summary["failures"] if failure["action"] == "kill"]
    around = [found for failure in failures[::at_once] if (found := latencies(tail.rows, failure))]
    return {
        "before_ms": [one[0] for one in around],
        "hit_ms": [one[1] for one in around],
        "after_ms": [one[2] for one in around],
        "parts_ms": parts(failures, events),
        "decoded_items": summary["decoded_items"],
    }


def latencies(rows: list[EpochRow], failure: dict[str, Any]) -> tuple[float, float, float] | None:
    """Of the last micro-batch before a failure, the slowest one under way during it, and the first begun later."""
    killed_at = failure["injected_at"]
    back_at = killed_at + (failure["restored_ms"] or 0.0) / 1000
    before = [row.latency_ms for row in rows if row.committed_at < killed_at]
    begun_at = {row.epoch: row.committed_at - row.latency_ms / 1000 for row in rows}
    hit = [row.latency_ms for row in rows if row.committed_at >= killed_at and begun_at[row.epoch] <= back_at]
    after = [row.latency_ms for row in rows if begun_at[row.epoch] > back_at]
    if not before or not hit or not after:
        return None
    return before[-1], max(hit), after[0]


def parts(failures: list[dict[str, Any]], events: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Milliseconds of each part of each recovery, from the failures' times and the workers' events."""
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for failure in failures:
        times = [failure[name] for name in ("detected_ms", "restored_ms", "caught_up_ms")]
        if None in times:
            continue
        restore = sum(
            event["seconds"] * 1000
            for event in events
            if event["event"] == "restored"
            and event.get("worker") == failure["worker"]
            and event.get("incarnation") == failure["incarnation"] + 1
            and "seconds" in event
        )
        detected, restored, caught_up = times
        values = (detected, restored - detected - restore, restore, caught_up - restored)
        for part, value in zip(PARTS, values):
            found[part].append(value)
    return found


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="three failures each")
    options = parser.parse_args()
    kills = 3 if options.quick else options.kills
    found = {}
    for scheme, at_once in sorted(CASES, key=lambda case: (case[1], case[0])):
        found[scheme, at_once] = measure(scheme, at_once, kills)
        print(f"{scheme}, {at_once} at once: done", flush=True)
    rows, part_rows, groups = [], [], {}
    for (scheme, at_once), one in found.items():
        ratios = {when: [a / b for a, b in zip(one[f"{when}_ms"], one["before_ms"])] for when in ("hit", "after")}
        paper = PAPER_LATENCY.get((scheme, at_once), "negligible")
        latency = [median(one[f"{when}_ms"]) for when in ("before", "hit", "after")]
        asked = "1.1" if scheme.startswith("EC") else ""
        rows.append([scheme, at_once, *latency, median(ratios["after"]), asked, median(ratios["hit"]), paper])
        part_rows.append([scheme, at_once, *(median(one["parts_ms"][part]) for part in PARTS)])
        groups[f"{scheme}\n{at_once} at once"] = dict(
            zip(("before", "hit", "after"), ((value, 0.0) for value in latency))
        )
    picture = figures.bars("streamlec_exp2", "Exp#2: latency around a failure", "ms", groups)
    heading = ["scheme", "failures at once", "before ms", "hit ms", "after ms", "after / before", "asked of EC"]
    heading += ["hit / before", "paper, after / before"]
    tables = {
        f"Latency of micro-batches around {kills} failures, medians": table(heading, rows),
        f"Parts of a recovery in ms, medians (the paper, Reactive: {PAPER_PARTS})": table(
            ["scheme", "failures at once", *PARTS], part_rows
        ),
    }
    figures_of = {f"{scheme} x{at_once}": one for (scheme, at_once), one in found.items()}
    save("streamlec_exp2", "StreamLEC Exp#2: failure recovery", tables, {"pictures": [picture], **figures_of})


if __name__ == "__main__":
    main()
