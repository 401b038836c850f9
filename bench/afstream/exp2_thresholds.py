"""Exp#2 (AFX 6.1.1): WordCount's throughput, recovery and backups against Theta and L.

python -m bench.afstream.exp2_thresholds [--runs N] [--quick]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.afstream import data
from bench.afstream.jobs import Case, Job, Outcome, arguments, interleave, keep, losses, median, percent
from bench.afstream.settings import NONE, PAPER_THETA_LOSS, approximate
from bench.runs import table

INFINITE = float("inf")
THETAS = (1.0, 10.0, 1e2, 1e4, INFINITE)
LIMITS = (1.0, 1e3)
USUAL_L = 1e3
WINDOWS = 50
FAULTS = ("kill:count.0@30%", "kill:split.0@50%", "kill:count.1@70%")


def recoveries(outcomes: Iterable[Outcome]) -> list[dict[str, float]]:
    """Times of each killed worker, in ms: detect, restore, replay (to having caught up), kill to its first new item."""
    found = []
    for one in outcomes:
        for failure in one.summary["failures"]:
            times = [failure[name] for name in ("detected_ms", "restored_ms", "caught_up_ms")]
            if None not in times:
                detected, restored, caught_up = times
                parts = {"detect": detected, "restore": restored - detected, "replay": caught_up - restored}
                found.append(parts | {"first item": first_item(one, failure)})
    return found


def first_item(outcome: Outcome, failure: Mapping[str, Any]) -> float:
    """ms from the kill to the first item that the next incarnation processed; NaN when none was left."""
    incarnation = (failure["worker"], failure["incarnation"] + 1)
    for event in outcome.events:
        if event["event"] == "first_item" and (event["worker"], event["incarnation"]) == incarnation:
            return float((event["monotonic"] - failure["injected_at"]) * 1000)
    return float("nan")


def fractions(case: Case) -> tuple[float, float]:
    """State backups and backed-up items, each as a part of the items that were processed."""
    parts = [(one.summary["backups"], one.summary["items"]) for one in case.outcomes]
    states = median(backups["state_backups"] / items for backups, items in parts)
    return states, median(backups["item_backups"] / items for backups, items in parts)


def throughputs(found: Mapping[str, Case]) -> str:
    """By Theta and L."""
    base = found["none"]
    rows: list[list[Any]] = [["none", "", base.rate / 1e6, percent(0.0), "-", "-", "-"]]
    for theta in THETAS:
        for limit in LIMITS:
            case = found[f"{theta:g} {limit:g}"]
            states, items = fractions(case)
            paper = percent(PAPER_THETA_LOSS.get(theta, float("nan")))
            lost = losses(case, base)
            rows.append([f"{theta:g}", f"{limit:g}", case.rate / 1e6, lost, paper, f"{states:.2e}", f"{items:.2e}"])
    heading = [
        "Theta",
        "L",
        "M lines/s",
        "loss",
        "paper's loss, any L",
        "state backups a line",
        "items backed up a line",
    ]
    return table(heading, rows)


def recovery_rows(found: Mapping[str, Case]) -> tuple[str, dict[str, Any]]:
    """By Theta, medians over all failures of all runs."""
    rows, kept = [], {}
    for theta in THETAS:
        times = kept[f"{theta:g}"] = recoveries(found[f"{theta:g} failing"].outcomes)
        columns = [median(one[part] for one in times if one[part] == one[part]) for part in PARTS]
        worst = max((one["detect"] + one["restore"] + one["replay"] for one in times), default=float("nan"))
        kills = len(FAULTS) * len(found[f"{theta:g} failing"].rounds)
        rows.append([f"{theta:g}", f"{len(times)} of {kills}", *columns, worst, "< 1000"])
    heading = ["Theta", "failures", *(f"{part} (ms)" for part in PARTS), "longest recovery (ms)", "paper's (ms)"]
    return table(heading, rows), kept


PARTS = ("detect", "restore", "replay", "first item")


def cut(job: Job, lines: int) -> Job:
    """The same job over the first lines."""
    return Job(job.config, [*job.sets, f"input.limit={lines}", f"micro_batch={max(1, lines // WINDOWS)}"])


def main() -> None:
    """Measure, print and save."""
    options = arguments(__doc__ or "")
    text = data.text(80_000 if options.quick else 800_000)
    repeat = 4 if options.quick else 16
    lines = text.rows * repeat
    job = Job("configs/word_count.yaml", [f"input.path={text.path}", f"input.repeat={repeat}"])
    whole = cut(job, lines)
    cases = {"none": whole.under(NONE)}
    for theta in THETAS:
        cases |= {f"{theta:g} {limit:g}": whole.under(approximate(theta, limit)) for limit in LIMITS}
        cases[f"{theta:g} failing"] = whole.under(approximate(theta, USUAL_L), *FAULTS)
    found = interleave("exp2", cases, options.runs)
    about = f"{text.about}, {lines:,} lines; medians of {options.runs}"
    recovered, times = recovery_rows(found)
    tables = {
        f"Throughput and backups, Gamma 1000; {about}": throughputs(found),
        f"Recovery from the kill of one worker, L {USUAL_L:g}; {about}": recovered,
    }
    kept = {"data": text.about, "recoveries": times, "cases": {name: case.figures() for name, case in found.items()}}
    keep(options, "afstream_exp2", "AF-Stream Exp#2: thresholds and performance", tables, kept)


if __name__ == "__main__":
    main()
