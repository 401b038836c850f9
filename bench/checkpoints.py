"""The cost of consistent checkpoints while nothing fails, their durations, and the cost of a kill under them (ABS).

    python -m bench.checkpoints [--rounds N] [--kills N] [--quick]

All schemes in turn, in an order that changes from round to round; ratios to `none` within a round. `stop_the_world` and
`mini_batch` are the controls: the one must lose more than `barrier` at the same interval, the other more still.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from bench.afstream import data
from bench.afstream.jobs import Job, Outcome, run
from bench.afstream.overhead import cpu_of_item, iterations, stream
from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import median, ready, save, table
from bench.streamlec.killing import PARTS, on_this_host

CASES = {
    "none": "{scheme: none}",
    "barrier, 1 s": "{scheme: barrier, interval_ms: 1000}",
    "barrier, 100 ms": "{scheme: barrier, interval_ms: 100}",
    "unaligned, 100 ms": "{scheme: barrier, interval_ms: 100, alignment: unaligned}",
    "stop_the_world, 100 ms": "{scheme: stop_the_world, interval_ms: 100}",
    "mini_batch": "{scheme: mini_batch}",
}
SLOWED = {
    "aligned, not debloated (control)": "{scheme: barrier, interval_ms: 500, debloat_ms: null}",
    "aligned": "{scheme: barrier, interval_ms: 500}",
    "unaligned, not debloated": "{scheme: barrier, interval_ms: 500, alignment: unaligned, debloat_ms: null}",
    "unaligned": "{scheme: barrier, interval_ms: 500, alignment: unaligned}",
}
RATE = 2_000_000
SLOW_COLUMNS = ("scheme", "checkpoints a run", "ms, median", "ms, p99", "kB each", "items/s")
KILLED = ("barrier, 100 ms", "unaligned, 100 ms", "barrier, 1 s")
COSTS = (
    "scheme", "items/s of `none`", "CPU seconds an item of `none`", "checkpoints a run", "ms, median", "ms, p99",
    "kB each",
)  # fmt: skip


def cost_rows(found: Mapping[str, Found[Outcome]]) -> list[list[Any]]:
    """A row for each scheme."""
    rows = []
    for name, case in found.items():
        faster = ratio(case, found["none"], lambda one: one.rate)
        cpu = ratio(case, found["none"], cpu_of_item)
        made = [one.summary["checkpoints"] for one in case.done if "checkpoints" in one.summary]
        cells: list[Any] = [name, str(faster), str(cpu)]
        if made:
            durations = [one["duration_ms"] for one in made]
            each = [one["bytes"] / one["completed"] / 1e3 for one in made if one["completed"]]
            cells += [median(one["completed"] for one in made), median(one["median"] for one in durations)]
            cells += [max(one["p99"] for one in durations), median(each) if each else "-"]
        rows.append(cells + ["-"] * (len(COSTS) - len(cells)))
    return rows


def slow_rows(found: Mapping[str, Found[Outcome]]) -> list[list[Any]]:
    """A row for each way to deal with blocks that queue before a slow destination."""
    rows: list[list[Any]] = []
    for name, case in found.items():
        made = [one.summary["checkpoints"] for one in case.done]
        each = [one["bytes"] / one["completed"] / 1e3 for one in made if one["completed"]]
        middle, highest = (median(one["duration_ms"][part] for one in made) for part in ("median", "p99"))
        completed = median(one["completed"] for one in made)
        rows.append([name, completed, middle, highest, median(each), case.median(lambda one: one.rate)])
    return rows


def kill_row(name: str, kills: int, items: int) -> tuple[list[Any], dict[str, Any]]:
    """One job that trains, with kills at equal distances, always of another processor."""
    every = items // 100_000 // (kills + 1)
    victims = {(number + 1) * every: [f"processor.{number % 4}"] for number in range(kills)}
    sets = [f"input.path={ready('kdd12', 2_000_000)}", f"input.limit={items}", "input.repeat=1000"]
    sets.append(f"input.rate={RATE}")  # so that checkpoints a second apart come between the kills, too
    sets += ["stages.processor.parallelism=4", f"fault_tolerance={CASES[name]}"]
    job = on_this_host("configs/logistic_regression_kdd12.yaml", sets, victims)
    cells: list[Any] = [name]
    for part in PARTS:
        known = [ms for ms in job.parts_ms()[part] if ms is not None]
        cells += [median(known) if known else "-", f"{len(known)} of {kills}"]
    cells += [job.usual_gap_ms, median(job.stalls_ms), max(job.stalls_ms), f"{len(job.stalls_ms)} of {kills}"]
    return cells, {**job.figures(), **job.parts_ms(), "checkpoints": job.summary["checkpoints"]}


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="short runs, to try the bench")
    options = parser.parse_args()
    text = data.text(800_000)
    few = 10 if options.quick else 1
    jobs = {
        f"word count ({text.about})": stream("word_count", text, max(1, 20 // few)),
        "HIGGS, BSP loop (synthesized)": iterations("higgs", 500_000 // few),
    }
    load = await_quiet()
    tables: dict[str, str] = {}
    figures: dict[str, Any] = {}
    for name, job in jobs.items():
        found = alternate(name, {case: job.under(scheme) for case, scheme in CASES.items()}, run, options.rounds)
        tables[f"{name}: ratios to `none`, with their range"] = table(COSTS, cost_rows(found))
        figures[name] = {
            case: {
                "rounds": one.n_of_n,
                "items_per_second": [outcome.rate for outcome in one.done],
                "cpu_of_item": [cpu_of_item(outcome) for outcome in one.done],
                "checkpoints": [outcome.summary.get("checkpoints") for outcome in one.done],
                "failed": one.failed,
            }
            for case, one in found.items()
        }
    slow = stream("word_count", text, max(1, 4 // few))
    slow = Job(slow.config, [*slow.sets, "stages.count.operator=bench.slow_count:SlowCount"])
    ways = {case: slow.under(scheme) for case, scheme in SLOWED.items()}
    ways["aligned, where nobody rests"] = stream("word_count", text, max(1, 20 // few)).under(SLOWED["aligned"])
    found = alternate("slow", ways, run, options.rounds)
    tables["Word count whose destination rests 49 times as long as it works"] = table(SLOW_COLUMNS, slow_rows(found))
    figures["slow"] = {case: [outcome.summary["checkpoints"] for outcome in one.done] for case, one in found.items()}
    rows = []
    for name in KILLED:
        cells, figures[f"kills: {name}"] = kill_row(name, options.kills, 60_000_000 // few)
        rows.append(cells)
    heading = ["scheme", *(word for part in PARTS for word in (f"{part} ms", "of"))]
    heading += ["usual gap ms", "stall ms", "longest stall ms", "kills"]
    caption = (
        "kill -9 of a processor of a job that trains, micro-batches of 100,000; milliseconds since the kill, medians"
    )
    tables[caption] = table(heading, rows)
    about = f"{text.about}; synthesized: HIGGS and KDD Cup 2012, 2,000,000 rows again and again"
    save("checkpoints", "Checkpoints", tables, figures, data=about, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
