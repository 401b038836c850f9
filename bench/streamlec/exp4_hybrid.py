"""Exp#4 (LEC V-B): hybrid coded computation and lazy attachment when the links into the sink are the bottleneck.

    python -m bench.streamlec.exp4_hybrid [--runs N] [--rate MBIT] [--quick]

Logistic-regression prediction with many models at once on synthetic items of 100 attributes. In the namespaces the
sink's link is slower than the others, so that what processors send it decides.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.rounds import await_quiet
from bench.runs import save, table
from bench.streamlec import figures, places
from bench.streamlec.settings import PAPER_HYBRID
from bench.streamlec.statistics import summarise

MODELS = (10, 20, 30)
CODES = {"EC(5,1)": (5, 1), "EC(4,2)": (4, 2)}
#: Attachment -> its code. Hybrid coded computation needs one over the real numbers, so all are compared under that one;
#: the last is the default, which decodes bit for bit.
ATTACHMENTS = {"eager": "stable", "hybrid": "stable", "lazy": "stable", "lazy, gf256": "gf256"}


def cases(items: int, micro_batch: int, models: tuple[int, ...]) -> dict[str, tuple[str, list[str]]]:
    """All jobs, by "code models attachment"."""
    made = {}
    for name, (k, r) in CODES.items():
        for count in models:
            for attachment, code in ATTACHMENTS.items():
                scheme = (
                    f"{{scheme: erasure, code: {code}, k: {k}, r: {r}, attachment: {attachment.partition(',')[0]}}}"
                )
                made[f"{name} {count} {attachment}"] = (
                    "configs/many_models.yaml",
                    [
                        f"micro_batch={micro_batch}",
                        f"fault_tolerance={scheme}",
                        f"stages.processor.options.models={count}",
                        f"stages.source.options.items={items}",
                    ],
                )
    return made


def rows_of(found: dict[str, list[dict[str, Any]]], models: tuple[int, ...]) -> list[list[Any]]:
    """A row per code and number of models."""
    rows = []
    for name in CODES:
        for count in models:
            runs = {one: found[f"{name} {count} {one}"] for one in ATTACHMENTS}
            speed = {one: summarise(places.speeds(runs[one])).median for one in ATTACHMENTS}
            sent = [cell for one in ATTACHMENTS for cell in places.bytes_cells(runs[one][-1], ["processor->sink"])]
            paper = PAPER_HYBRID.get(count, "") if name == "EC(4,2)" else ""
            rows.append([
                name, count, *(speed[one] / 1e6 for one in ATTACHMENTS),
                *(str(places.ratio_of(runs[one], runs["eager"])) for one in ("hybrid", "lazy")), paper, *sent,
            ])  # fmt: skip
    return rows


def main() -> None:
    """Measure in each place, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rate", type=int, default=400, help="of all links but the sink's")
    parser.add_argument("--sink-rate", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="one run, two numbers of models")
    options = parser.parse_args()
    runs, models = (1, (10, 30)) if options.quick else (options.runs, MODELS)
    heading = ["code", "models", *(f"{one}, M items/s" for one in ATTACHMENTS), "hybrid / eager", "lazy / eager"]
    heading += ["paper, hybrid / eager", *(f"{one}, B/item to the sink (copied + by reference)" for one in ATTACHMENTS)]
    load = 0.0 if options.quick else await_quiet()
    tables, results, series = {}, {}, {}
    for place, context in places.places(True, 8, options.rate, {"sink.0": options.sink_rate}):
        shaped = "namespaces" in place
        items, micro_batch = (120_000, 2_000) if shaped else (1_000_000, 20_000)
        found = places.measure(place, context, runs, cases(items, micro_batch, models))
        place += f", the sink's {options.sink_rate}" if shaped else ""
        tables[f"{place}: predicting with many models, medians of {runs}"] = table(heading, rows_of(found, models))
        results[place] = {name: places.speeds(one) for name, one in found.items()}
        for attachment in ("hybrid", "lazy"):
            series[f"{attachment}, {'namespaces' if shaped else 'one host'}"] = [
                (
                    float(count),
                    summarise(places.speeds(found[f"EC(4,2) {count} {attachment}"])).median
                    / summarise(places.speeds(found[f"EC(4,2) {count} eager"])).median,
                )
                for count in models
            ]
    series["paper, hybrid"] = [(float(count), gain) for count, gain in PAPER_HYBRID.items()]
    picture = figures.lines("streamlec_exp4", "Exp#4: gain over eager, EC(4,2)", "models", "throughput gain", series)
    content = {"pictures": [picture], **results}
    title, about = "StreamLEC Exp#4: hybrid coded computation", "synthesized: 100 attributes, 100,000 distinct items"
    save("streamlec_exp4", title, tables, content, data=about, rounds=runs, load=load)


if __name__ == "__main__":
    main()
