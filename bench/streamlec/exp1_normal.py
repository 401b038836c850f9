"""Exp#1 (LEC V-B): throughput in normal mode, four algorithms, two data sets, six schemes.

python -m bench.streamlec.exp1_normal [--runs N] [--rate MBIT] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from bench.measures import bytes_per_item
from bench.rounds import await_quiet
from bench.runs import ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import ABOUT, ALGORITHMS, DATA, LIMITS, PAPER_GAINS, ROWS, SCHEMES
from bench.streamlec.statistics import summarise

HOSTS = 8
EPOCHS = 60
ASKED = {("EC(5,1)", "Rep-2x"): 1.5, ("EC(4,2)", "Rep-3x"): 1.85}


def cases(epochs: int, micro_batch: int, algorithms: tuple[str, ...]) -> dict[str, tuple[str, list[str]]]:
    """All jobs, by "algorithm data scheme"."""
    made = {}
    length = ["input.repeat=100", f"input.limit={epochs * micro_batch}", f"micro_batch={micro_batch}"]
    for algorithm in algorithms:
        for data in DATA:
            sets = [f"input.path={ready(data, ROWS)}", *length]
            for scheme, options in SCHEMES.items():
                made[f"{algorithm} {data} {scheme}"] = (f"configs/{algorithm}_{data}.yaml", sets + options)
    return made


def gains(found: dict[str, list[dict[str, Any]]], algorithms: tuple[str, ...]) -> dict[tuple[str, str], list[float]]:
    """Per pair of schemes the medians of their rounds' ratios, one per algorithm and data set."""
    return {
        (ours, rival): [
            places.ratio_of(found[f"{a} {d} {ours}"], found[f"{a} {d} {rival}"]).median
            for a in algorithms
            for d in DATA
        ]
        for ours, rival in PAPER_GAINS
    }


def main() -> None:
    """Measure in each place, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="one algorithm, one run, few items")
    options = parser.parse_args()
    algorithms = ALGORITHMS[1:2] if options.quick else ALGORITHMS
    runs = 1 if options.quick else options.runs
    load = 0.0 if options.quick else await_quiet()
    tables: dict[str, str] = {}
    results, pictures = {}, []
    for place, context in places.places(True, HOSTS, options.rate):
        shaped = "namespaces" in place
        epochs, micro_batch = 10 if options.quick else EPOCHS, 10_000 if shaped else 100_000
        found = places.measure(place, context, runs, cases(epochs, micro_batch, algorithms))
        results[place] = {name: _figures(one) for name, one in found.items()}
        tables |= _tables(place, found, algorithms, runs)
        groups = {
            f"{a}\n{d}": {
                scheme: summarise([v / 1e6 for v in places.speeds(found[f"{a} {d} {scheme}"])])[:2]
                for scheme in SCHEMES
            }
            for a in algorithms
            for d in DATA
        }
        name = f"streamlec_exp1_{'namespaces' if shaped else 'local'}"
        pictures.append(figures.bars(name, f"Exp#1, {place}", "M items/s", groups))
    content = {"pictures": pictures, **results}
    title = "StreamLEC Exp#1: throughput in normal mode"
    save("streamlec_exp1", title, tables, content, data=ABOUT, rounds=runs, load=load)


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    last = runs[-1]
    sent = {edge: bytes_per_item(last, edge) for edge in last["bytes_sent"]}
    return {"items_per_second": places.speeds(runs), "bytes_per_item": sent, "cores": places.cores(runs)}


def _tables(place: str, found: dict[str, Any], algorithms: tuple[str, ...], runs: int) -> dict[str, str]:
    speed_rows = []
    for algorithm in algorithms:
        for data in DATA:
            row: list[Any] = [algorithm, data]
            for scheme in SCHEMES:
                speed = summarise([v / 1e6 for v in places.speeds(found[f"{algorithm} {data} {scheme}"])])
                row.append(f"{speed.median:.3g} ± {speed.half_width:.2g}" if runs > 1 else f"{speed.median:.3g}")
            speed_rows.append(row)
    gain_rows = []
    for (ours, rival), ratios in gains(found, algorithms).items():
        paper, limit = PAPER_GAINS[ours, rival], LIMITS.get((ours, rival), "")
        asked = ASKED.get((ours, rival), "") if "namespaces" in place else ""
        gain_rows.append(
            [f"{ours} over {rival}", statistics.mean(ratios), min(ratios), max(ratios), paper, asked, limit]
        )
    spread = f"medians of {runs} with 95 % intervals of the mean" if runs > 1 else "one run"
    cores = statistics.median(places.cores(runs) for runs in found.values())
    heading = ["gain", "mean", "least", "most", "paper's mean", "asked of ours", "limit by the source's bytes"]
    return {
        f"{place}: M items/s, {spread}; the workers used {cores:.2f} cores": table(
            ["algorithm", "data", *SCHEMES], speed_rows
        ),
        f"{place}: throughput gains over {len(algorithms) * len(DATA)} cases": table(heading, gain_rows),
    }


if __name__ == "__main__":
    main()
