"""kill -9 of a worker in the middle: Spark, Flink by default and tuned, and Riprap under each scheme.

    python -m bench.peers.recovery [--kills N] [--only NAME ...]

Logistic regression on the 11 attributes, micro-batches of 100,000, at full speed, and the same number of kills for all.
Schemes of DataflowOperators run word count; they have a table of their own. How the times are defined stands in
bench/peers/recovery_times.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from bench.peers import recovery_flink, recovery_ours, recovery_spark, setup
from bench.peers.processes import Processes, wait_for, workspace
from bench.peers.recovery_times import Output, Times, lost, measure, repeated
from bench.rounds import await_quiet
from bench.runs import median, ready, save, table

MICRO_BATCH = 100_000
ROWS = 2_000_000
ITEMS = 40_000_000
START_TIMEOUT_S, KILL_TIMEOUT_S = 300.0, 90.0
BEFORE, AFTER_S = 10, 3.0
"""Micro-batches before the first kill; seconds from the first new output after a kill to the next kill."""


class Disturbable(Protocol):
    """A rival's running job."""

    def outputs(self) -> list[Output]:
        """The outputs of all micro-batches so far."""

    def kill(self) -> float:
        """Kill a worker; returns the moment, in seconds on the clock of the outputs."""

    def noticed(self) -> list[float]:
        """The moments when the rival saw workers die."""


Rival = Callable[[Processes, Path, Path], Disturbable]
RIVALS: dict[str, Rival] = {
    "Spark": lambda processes, folder, shards: recovery_spark.Run(processes, folder, shards, MICRO_BATCH),
    "Flink, default": lambda processes, folder, shards: recovery_flink.Run(
        processes, folder, shards, MICRO_BATCH, "default"
    ),
    "Flink, tuned": lambda processes, folder, shards: recovery_flink.Run(
        processes, folder, shards, MICRO_BATCH, "tuned"
    ),
}


def disturb_rival(rival: Rival, kills: int) -> dict[str, Any]:
    """Start it, kill `kills` workers one after the other, end it. TimeoutError when nothing comes out any more."""
    shards = Path(ready("kdd12", ROWS)).absolute()
    with workspace(setup.HOME) as (processes, folder):
        job = rival(processes, folder, shards)
        wait_for(lambda: len(job.outputs()) >= BEFORE, START_TIMEOUT_S, "output")
        moments = [_kill(job) for _ in range(kills)]
        outputs, noticed = job.outputs(), job.noticed()
    return {
        **_times(measure(outputs, moments, noticed)),
        "repeated": repeated(outputs) * MICRO_BATCH / kills,
        "lost": lost(outputs) * MICRO_BATCH / kills,
        "output_gap_ms": 1000 * _gap(outputs, moments[0]),
    }


def _kill(job: Disturbable) -> float:
    """Kill, and let the job go on for a while; returns the moment."""
    highest = max(output.number for output in job.outputs())
    at = job.kill()

    def goes_on() -> bool:
        return any(output.number > highest and output.at > at for output in job.outputs())

    wait_for(goes_on, KILL_TIMEOUT_S, "new output after a kill")
    time.sleep(AFTER_S)
    return at


def disturb_ours(name: str, kills: int) -> dict[str, Any]:
    """One run of ours. RuntimeError when it does not complete."""
    found = recovery_ours.disturb(recovery_ours.CASES[name], kills, ITEMS, MICRO_BATCH)
    return {
        **_times(measure(found.outputs, found.kills, found.noticed)),
        "repeated": (max(0, found.counted - found.due) + repeated(found.outputs) * MICRO_BATCH) / kills,
        "lost": max(0, found.due - found.counted) / kills,
        "output_gap_ms": 1000 * _gap(found.outputs, found.kills[0]),
    }


def _times(times: list[Times]) -> dict[str, list[float | None]]:
    return {name: [getattr(one, name) for one in times] for name in Times.__dataclass_fields__}


def _gap(outputs: list[Output], until: float) -> float:
    before = [output.at for output in outputs if output.at < until]
    return median(later - sooner for sooner, later in pairwise(before))


def row(name: str, figures: Mapping[str, Any]) -> list[Any]:
    """Medians of the kills, or the fault."""
    if "failed" in figures:
        return [name, figures["failed"], *[""] * 6]
    times = [_median(figures[field]) for field in Times.__dataclass_fields__]
    kills = len(figures["detected_ms"])
    return [name, kills, *times, figures["output_gap_ms"], f"{figures['lost']:,.0f}", f"{figures['repeated']:,.0f}"]


def _median(values: list[float | None]) -> str:
    """The median of the measurements, in whole milliseconds; with the number of those missing."""
    known = [value for value in values if value is not None]
    missing = f" ({len(values) - len(known)} never)" if len(known) < len(values) else ""
    return (f"{median(known):,.0f}" if known else "-") + missing


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=5, help="of each, which take a rival up to a minute")
    parser.add_argument("--only", nargs="+", default=[], help="not saved")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that all that was started is ended
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        **{f"Riprap, {name}": partial(disturb_ours, name, options.kills) for name in recovery_ours.CASES},
        **{name: partial(disturb_rival, rival, options.kills) for name, rival in RIVALS.items()},
    }
    load = 0.0 if options.only else await_quiet()
    figures = {}
    for name, job in jobs.items():
        if options.only and not any(part in name for part in options.only):
            continue
        try:
            figures[name] = job()
        except (RuntimeError, OSError, setup.NotInstalled) as error:
            figures[name] = {"failed": setup.last_line(str(error))}
        print(name, figures[name], flush=True)
    heading = ["system", "kills", "detected ms", "first new output ms", "caught up ms", "gap between outputs before ms"]
    heading += ["lost items a kill", "repeated items a kill"]
    words = {f"Riprap, {name}" for name, case in recovery_ours.CASES.items() if case.config == recovery_ours.WORDS}
    tables = {}
    for workload, mine in (("logistic regression", figures.keys() - words), ("word count", figures.keys() & words)):
        caption = f"{workload}: kill -9 of a worker, milliseconds since the kill, medians; micro-batches of 100,000"
        tables[caption] = table(heading, [row(name, one) for name, one in figures.items() if name in mine])
    if options.only:
        print(*tables.values(), sep="\n\n")
    else:
        about = "synthesized: KDD Cup 2012, 2,000,000 rows again and again; real: novels again and again"
        save("peers_recovery", "Recovery beside the peers", tables, figures, data=about, rounds=1, load=load)


if __name__ == "__main__":
    main()
