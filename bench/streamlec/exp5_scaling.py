"""Exp#5 (LEC V-C): scaling with source-sink pairs and with k, against Rep-3x, on shaped namespaces.

    python -m bench.streamlec.exp5_scaling [--runs N] [--rate MBIT] [--quick]

Rep-3x gets as many processors as the code it is compared with: k + r of them. The rate is so low that this machine's
cores suffice for all workers, so that the links decide, as in a cluster.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from bench.runs import ready, save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import PAPER_SCALING, ROWS
from bench.streamlec.statistics import summarise

PAIRS = (1, 2, 3, 4, 5)
KS = (4, 7, 10, 13)  # k + 2 is a multiple of 3
R = 2


def case(pairs: int, k: int, rival: bool, items_per_pair: int) -> tuple[str, list[str]]:
    """One job: `pairs` pairs, k + 2 processors."""
    scheme = "{scheme: replication, copies: 3}" if rival else f"{{scheme: erasure, code: gf256, k: {k}, r: {R}}}"
    sets = [f"input.path={ready('kdd12', ROWS)}", "input.repeat=100", f"input.limit={items_per_pair * pairs}"]
    sets += [f"fault_tolerance={scheme}", f"stages.processor.parallelism={k + R}"]
    sets += [f"stages.source.parallelism={pairs}", f"stages.sink.parallelism={pairs}"]
    return "configs/logistic_regression_kdd12.yaml", sets


def cases(items: int, pairs: tuple[int, ...], ks: tuple[int, ...]) -> dict[str, tuple[str, list[str]]]:
    """All jobs, by "pairs k scheme"."""
    shapes = dict.fromkeys([*((n, 13) for n in pairs), *((4, k) for k in ks)])
    return {
        f"{n} {k} {'Rep-3x' if rival else 'EC'}": case(n, k, rival, items) for n, k in shapes for rival in (False, True)
    }


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rate", type=int, default=40)
    parser.add_argument("--items", type=int, default=400_000, help="of each pair")
    parser.add_argument("--quick", action="store_true", help="one run of fewer shapes")
    options = parser.parse_args()
    pairs, ks, runs = ((1, 3), (4,), 1) if options.quick else (PAIRS, KS, options.runs)
    for place, context in places.places(False, 25, options.rate):
        found = places.measure(place, context, runs, cases(options.items, pairs, ks))
        _report(place, found, pairs, ks, runs)


def _report(place: str, found: dict[str, Any], pairs: tuple[int, ...], ks: tuple[int, ...], runs: int) -> None:
    speed = {name: summarise(places.speeds(one)).median for name, one in found.items()}
    base = speed[f"{pairs[0]} 13 EC"] / pairs[0]
    pair_rows = [
        [n, speed[f"{n} 13 EC"] / 1e6, speed[f"{n} 13 Rep-3x"] / 1e6, speed[f"{n} 13 EC"] / speed[f"{n} 13 Rep-3x"],
         speed[f"{n} 13 EC"] / (n * base), places.cores(found[f"{n} 13 EC"]), places.cores(found[f"{n} 13 Rep-3x"])]
        for n in pairs
    ]  # fmt: skip
    k_rows = [
        [k, k + R, speed[f"4 {k} EC"] / 1e6, speed[f"4 {k} Rep-3x"] / 1e6,
         speed[f"4 {k} EC"] / speed[f"4 {k} Rep-3x"], places.cores(found[f"4 {k} EC"])]
        for k in ks
    ]  # fmt: skip
    mean = statistics.mean(row[3] for row in pair_rows)
    heading = ["pairs", "EC(13,2), M items/s", "Rep-3x, M items/s", "gain", "of linear (asked: 0.9 to 1.1)"]
    gain = f"mean gain {mean:.2f} (paper and asked: {PAPER_SCALING})"
    tables = {
        f"{place}: k = 13, r = 2; {gain}; medians of {runs}": table(
            [*heading, "cores used, EC", "cores used, Rep-3x"], pair_rows
        ),
        f"{place}: four pairs, r = 2": table(
            ["k", "processors", "EC(k,2), M items/s", "Rep-3x, M items/s", "gain", "cores used, EC"], k_rows
        ),
    }
    series = {name: [(float(n), speed[f"{n} 13 {key}"] / 1e6) for n in pairs]
              for name, key in (("EC(13,2)", "EC"), ("Rep-3x", "Rep-3x"))}  # fmt: skip
    by_k = {name: [(float(k), speed[f"4 {k} {key}"] / 1e6) for k in ks]
            for name, key in (("EC(k,2)", "EC"), ("Rep-3x", "Rep-3x"))}  # fmt: skip
    pictures = [
        figures.lines("streamlec_exp5_pairs", "Exp#5: pairs, k = 13, r = 2", "source-sink pairs", "M items/s", series),
        figures.lines("streamlec_exp5_k", "Exp#5: k, four pairs, r = 2", "k", "M items/s", by_k),
    ]
    results = {name: places.speeds(one) for name, one in found.items()}
    save("streamlec_exp5", "StreamLEC Exp#5: scaling", tables, {"pictures": pictures, "speeds": results})


if __name__ == "__main__":
    main()
