"""Checkpoints beside Flink's own: what they cost, how long they take, and what a kill costs under them.

    python -m bench.peers.checkpoints [--rounds N] [--kills N] [--seconds S] [--jobs keys words] [--quick]

Aligned and unaligned, each second and each 100 ms, on word count and on a keyed state of 100 MB. At full speed for what
they cost, in rounds whose order changes, ratios to the same system without checkpoints within a round; for kills the
streams are paced, in both systems at the same rate, and what came late is read at full speed. Flink is tuned as in
bench/peers/recovery_flink.py, and a spare TaskManager is there before each kill; checkpoints go to the local disk.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from bench.peers import checkpoints_flink, checkpoints_ours
from bench.peers.checkpoints_jobs import KEYED, NONE, WORDS, Measured, Stream, keyed, text
from bench.rounds import Found, alternate, await_quiet, ratio
from bench.runs import median, save, table

T = TypeVar("T")
KEYS = 6_250_000
FREE = (
    "system", "checkpoints", "M counts/s", "of the same without", "CPU s per M counts", "of the same without",
    "checkpoints a run", "ms, median", "ms, p99", "MB each",
)  # fmt: skip
KILLED = ("system", "checkpoints", "kill to new output ms, median", "longest", "kills")
DATA = {
    KEYED: "synthesized: one update an item, of keys that follow from its number",
    WORDS: "real: novels again and again",
}


def cases(
    stream: Stream, ours: Callable[[Stream, str], T], flink: Callable[[Stream, dict[str, str]], T]
) -> dict[str, Callable[[], T]]:
    """The measurement of each case of both systems."""
    return {
        **{f"Riprap: {name}": partial(ours, stream, scheme) for name, scheme in checkpoints_ours.CASES.items()},
        **{f"Flink: {name}": partial(flink, stream, found) for name, found in checkpoints_flink.cases(stream).items()},
    }


def freely(stream: Stream, seconds: float) -> dict[str, Callable[[], Measured]]:
    """Runs at full speed by case."""
    return cases(stream, checkpoints_ours.run_freely, partial(checkpoints_flink.run_freely, seconds=seconds))


def killed(stream: Stream, kills: int) -> dict[str, Callable[[], list[float | None]]]:
    """Runs with kills by case; only of those with checkpoints."""
    ours, flink = (partial(one.run_killed, kills=kills) for one in (checkpoints_ours, checkpoints_flink))
    return {name: job for name, job in cases(stream, ours, flink).items() if not name.endswith(NONE)}


def free_row(name: str, found: dict[str, Found[Measured]]) -> list[Any]:
    """Medians of the rounds; of a case that never completed the reason."""
    system, case = name.split(": ")
    if not found[name].done:
        return [system, f"{case} ({'; '.join(found[name].failed)})", *["-"] * (len(FREE) - 2)]
    backend = checkpoints_flink.ROCKSDB if case.startswith(checkpoints_flink.ROCKSDB) else ""
    base = found[f"{system}: {backend}{NONE}"]
    mine = found[name]
    slower, cpu = (str(ratio(mine, base, value)) for value in (lambda one: one.rate, lambda one: one.cpu))
    cells: list[Any] = [system, case, mine.median(lambda one: one.rate) / 1e6, slower]
    cells += [mine.median(lambda one: one.cpu) * 1e6, cpu, mine.median(lambda one: one.completed)]
    for value, unit in (("median_ms", 1.0), ("p99_ms", 1.0), ("bytes_each", 1e6)):
        known = [getattr(one, value) / unit for one in mine.done if getattr(one, value) is not None]
        cells.append(median(known) if known else "-")
    return cells


def killed_row(name: str, found: Found[list[float | None]]) -> list[Any]:
    """All kills of all rounds."""
    times = [ms for one in found.done for ms in one]
    known = [ms for ms in times if ms is not None]
    cells = [median(known), max(known)] if known else ["-", "-"]
    return [*name.split(": "), *cells, f"{len(known)} of {len(times)}"]


def figures_of(found: dict[str, Found[Any]]) -> dict[str, Any]:
    """The figures that are kept."""
    return {name: {"rounds": case.n_of_n, "found": case.done, "failed": case.failed} for name, case in found.items()}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="at full speed; with kills two at most")
    parser.add_argument("--kills", type=int, default=3, help="of each case in a run")
    parser.add_argument("--jobs", nargs="+", choices=(KEYED, WORDS), default=(KEYED, WORDS))
    parser.add_argument("--seconds", type=float, default=8.0, help="at full speed, behind a warm-up as long")
    parser.add_argument("--quick", action="store_true", help="one short round of a small state, not saved")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that all that was started is ended
    rounds, kills, seconds = (1, 1, 4.0) if options.quick else (options.rounds, options.kills, options.seconds)
    load = 0.0 if options.quick else await_quiet()
    tables, figures = {}, {}
    streams = {KEYED: lambda: keyed(KEYS // 100 if options.quick else KEYS), WORDS: text}
    for stream in (streams[name]() for name in options.jobs):
        about = f"keyed state of {stream.size * 16 / 1e6:.0f} MB" if stream.kind == KEYED else "word count"
        done = alternate(about, freely(stream, seconds), lambda job: job(), rounds)
        rows = [free_row(name, done) for name in done]
        tables[f"{about}, at full speed: medians, and ratios within a round"] = table(FREE, rows)
        ended = alternate(f"{about}, kills", killed(stream, kills), lambda job: job(), min(rounds, 2), warm_up=False)
        rows = [killed_row(name, case) for name, case in ended.items()]
        tables[f"{about}, {stream.rate:,} items/s: kill -9 of a counter's process"] = table(KILLED, rows)
        figures[about] = {"free": figures_of(done), "killed": figures_of(ended)}
    if options.quick:
        print(*(f"{caption}\n\n{text}\n" for caption, text in tables.items()), sep="\n")
        return
    data = "; ".join(DATA[name] for name in options.jobs)
    save("peers_checkpoints", "Checkpoints beside Flink", tables, figures, data=data, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
