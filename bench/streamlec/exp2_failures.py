"""Exp#2 (LEC V-B): the effect of single and double failures on a stream of micro-batches.

    python -m bench.streamlec.exp2_failures [--rounds N] [--rate MBIT] [--quick]

Every scheme has two backup servers, which write what they get to disk before they say so; in the namespaces each is
behind a link as limited as the workers'. A kill's stall is the longest gap between commits until the next kill
(bench/measures.py), and every kill has one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.rounds import Found, alternate, await_quiet
from bench.runs import median, ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.killing import PARTS, Killed, Killing, Kills, in_namespaces, on_this_host
from bench.streamlec.settings import PAPER_LATENCY, ROWS, SCHEMES

CASES = (("EC(5,1)", 1), ("Rep-2x", 1), ("Reactive", 1), ("EC(4,2)", 2), ("Rep-3x", 2), ("Reactive", 2))
EVERY = 16  # epochs from one failure to the next
MICRO_BATCH = {"one host": 100_000, "namespaces": 20_000}
HOSTS = 8
DATA = "synthesized: KDD Cup 2012, 2,000,000 rows, streamed from their beginning"


class Case(NamedTuple):
    """A job under a scheme, with a number of processors killed at once."""

    scheme: str
    at_once: int
    sets: list[str]
    kills: Kills


def cases(kills: int, micro_batch: int) -> dict[str, Case]:
    """All of them, by name."""
    moments = [EVERY * (number + 1) for number in range(kills)]
    sets = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=1000", f"micro_batch={micro_batch}"]
    sets += [f"input.limit={EVERY * (kills + 1) * micro_batch}", "backup.durability=always"]
    made = {}
    for scheme, at_once in CASES:
        victims = {
            at: [f"processor.{(number + one) % 6}" for one in range(at_once)] for number, at in enumerate(moments)
        }
        made[f"{scheme}, {at_once} at once"] = Case(scheme, at_once, [*sets, *SCHEMES[scheme]], victims)
    return made


@contextmanager
def killing(place: str, rate_mbit: int) -> Iterator[Killing]:
    """The way to run jobs in a place."""
    if place == "one host":
        yield lambda config, sets, kills: on_this_host(config, [*sets, "backup.servers=2"], kills)
        return
    with places.cluster_of(HOSTS, rate_mbit) as cluster:
        yield in_namespaces(cluster)


def rows_of(made: Mapping[str, Case], found: Mapping[str, Found[Killed]], kills: int) -> list[list[Any]]:
    """A row a case: gaps and latencies of all kills of all rounds."""
    rows = []
    for name, case in made.items():
        runs = found[name].done
        stalls = [stall for one in runs for stall in one.stalls_ms]
        ratios = [stall / one.usual_gap_ms for one in runs for stall in one.stalls_ms]
        usual = [median(latency for _, latency in one.epochs) for one in runs]
        latencies = [worst / base for one, base in zip(runs, usual) for worst in one.worst_latencies_ms]
        paper = PAPER_LATENCY.get((case.scheme, case.at_once), "negligible")
        n_of_n = f"{len(stalls)} of {kills * len(found[name].rounds)}"
        if not stalls:
            rows.append([name, *["-"] * 6, paper, n_of_n])
            continue
        rows.append([
            name, median(one.usual_gap_ms for one in runs), median(stalls), max(stalls),
            median(ratios), max(ratios), median(latencies), paper, n_of_n,
        ])  # fmt: skip
    return rows


HEADING = [
    "scheme, failures", "usual gap ms", "stall ms", "longest ms", "stall / usual gap", "longest / usual gap",
    "worst latency / usual", "paper's latency after / before", "kills",
]  # fmt: skip


def part_rows(found: Mapping[str, Found[Killed]]) -> list[list[Any]]:
    """Medians of each part of the recoveries, and their number."""
    rows = []
    for name, case in found.items():
        row: list[Any] = [name]
        for part in PARTS:
            every = [ms for one in case.done for ms in one.parts_ms()[part]]
            known = [ms for ms in every if ms is not None]
            row += [median(known) if known else "-", f"{len(known)} of {len(every)}"]
        rows.append(row)
    return rows


def main() -> None:
    """Measure in each place, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="one round of two failures, printed only")
    options = parser.parse_args()
    rounds, kills = (1, 2) if options.quick else (options.rounds, 4)
    load = 0.0 if options.quick else await_quiet()
    tables, results, groups = {}, {}, {}
    for place, context in places.places(True, HOSTS, options.rate):
        del context
        kind = "namespaces" if "namespaces" in place else "one host"
        made = cases(kills, MICRO_BATCH[kind])
        with killing(kind, options.rate) as run:
            found = alternate(
                place,
                made,
                lambda case, run=run: run("configs/logistic_regression_kdd12.yaml", case.sets, case.kills),  # type: ignore[misc]
                rounds,
                warm_up=not options.quick,
            )
        caption = f"{place}, micro-batches of {MICRO_BATCH[kind]:,}, {kills} failures a run, {rounds} rounds"
        tables[f"{caption}: stalls"] = table(HEADING, rows_of(made, found, kills))
        if kind == "one host":
            heading = ["scheme, failures", *(word for part in PARTS for word in (f"{part} ms", "of"))]
            tables[f"{caption}: recoveries, milliseconds from the kill, medians"] = table(heading, part_rows(found))
        results[place] = {name: [one.figures() for one in case.done] for name, case in found.items()}
        groups[place] = {
            name: (median(stall / one.usual_gap_ms for one in case.done for stall in one.stalls_ms), 0.0)
            for name, case in found.items()
            if case.done
        }
    if options.quick:
        print(*(f"\n{caption}\n\n{text}" for caption, text in tables.items()), sep="\n")
        return
    picture = figures.bars("streamlec_exp2", "Exp#2: stall of a failure", "usual gaps", groups)
    content = {"pictures": [picture], **results}
    save("streamlec_exp2", "StreamLEC Exp#2: failure recovery", tables, content, data=DATA, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
