"""The cost of a stopped or cut-off processor, in gaps between commits, and the decoding when nothing is wrong.

    python -m bench.streamlec.stops [--stops N] [--rate MBIT] [--local] [--quick]

One host: processors are stopped (SIGSTOP) one after another, each for a while that no detector notices. Namespaces:
the link of a processor's host is down for a while. The stall of a stop is the longest gap between commits from its
beginning to its end; beside it stands the longest gap in as long a stretch just before, in which nothing was wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import measures
from bench.hosts_cluster import HostsCluster
from bench.rounds import await_quiet
from bench.runs import median, ready, riprap, save, table
from bench.streamlec.places import cluster_of
from bench.streamlec.settings import ABOUT, MICRO_BATCH, ROWS
from riprap.codec.errors import ConfigError
from riprap.engine.run_directory.epochs import EpochRow, EpochTail

STOPPED_S, EVERY = 0.4, 300
CUT_S, EVERY_CUT = 1.0, 20
TAUGHT = 100  # epochs before the first cut: what silence means is learnt
EARLY = 16  # epochs that are no measure: workers start
UNNOTICED = ["cluster.heartbeat_timeout_s=20"]
CASES = {
    "KDD12, lazy": ("kdd12", "lazy"), "KDD12, eager": ("kdd12", "eager"), "HIGGS, lazy": ("higgs", "lazy"),
}  # fmt: skip


def sets_of(data: str, attachment: str, epochs: int) -> list[str]:
    """The overrides of a job of `epochs` epochs."""
    limits = [f"input.path={ready(data, ROWS)}", "input.repeat=100000", f"input.limit={epochs * MICRO_BATCH}"]
    return [*limits, *UNNOTICED, f"fault_tolerance.attachment={attachment}"]


def stopped(data: str, attachment: str, stops: int, every: int) -> dict[str, Any]:
    """A job on this host in which `stops` processors are stopped, one after another."""
    faults = [f"stop:processor.{n % 6}@epoch={(n + 1) * every},for={STOPPED_S}s" for n in range(stops)]
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        out = Path(folder) / "run"
        words = [word for value in sets_of(data, attachment, (stops + 1) * every) for word in ("--set", value)]
        words += [word for fault in faults for word in ("--fault", fault)]
        config = f"configs/logistic_regression_{data}.yaml"
        summary = json.loads(riprap("run", config, "--json", "--out", str(out), *words))
        tail = EpochTail(out / "epochs.csv")
        tail.refresh()
    begun = [failure["injected_at"] for failure in summary["failures"] if failure["action"] == "stop"]
    return figures_of(tail.rows(), begun, STOPPED_S, summary)


def cut_off(cluster: HostsCluster, attachment: str, cuts: int, every: int) -> dict[str, Any]:
    """A job on hosts of their own, `cuts` of which are cut off, one after another."""
    sets = sets_of("kdd12", attachment, TAUGHT + (cuts + 1) * every)
    name, out = cluster.submit("configs/logistic_regression_kdd12.yaml", sets)
    tail, begun = EpochTail(out / "epochs.csv"), []
    for number in range(cuts):
        host = cluster.host_of(name, f"processor.{number % 6}")
        while tail.epoch < TAUGHT + number * every:
            tail.refresh()
            time.sleep(0.01)
        begun.append(time.monotonic())
        cluster.hosts.link(host, "down")
        time.sleep(CUT_S)
        cluster.hosts.link(host, "up")
    summary = cluster.wait(name, out)
    tail.refresh()
    return figures_of(tail.rows(), begun, CUT_S, summary)


def figures_of(
    rows: Sequence[EpochRow], begun: Sequence[float], lasted_s: float, summary: dict[str, Any]
) -> dict[str, Any]:
    """Milliseconds: the usual gap, and the longest gap during each stop and before it."""
    commits = [row.committed_at for row in rows[EARLY:]]
    before = [at - 1.1 * lasted_s for at in begun]
    return {
        "usual_ms": measures.usual_gap_ms(commits, begun),
        "stall_ms": [measures.longest_gap_ms(commits, at, at + lasted_s) for at in begun],
        "calm_ms": [measures.longest_gap_ms(commits, at, at + lasted_s) for at in before],
        "decoded_rows": summary["decoded_rows"],
        "rows": summary["rows"],
    }


def row_of(name: str, found: dict[str, Any], stops: int) -> list[Any]:
    """A row of the table of stops."""
    usual, stall, calm = found["usual_ms"], found["stall_ms"], found["calm_ms"]
    return [
        name, f"{len(stall)} of {stops}", usual, median(stall), max(stall), median(stall) / usual,
        median(calm) / usual, found["decoded_rows"],
    ]  # fmt: skip


def calm_row(name: str, found: dict[str, Any]) -> list[Any]:
    """A row of the table of calm runs."""
    share = 100 * found["decoded_rows"] / found["rows"]
    return [name, found["usual_ms"], f"{found['decoded_rows']} of {found['rows']}", share]


def in_namespaces(cuts: int, every: int, rate_mbit: int) -> dict[str, dict[str, Any]]:
    """The figures of hosts that are cut off, by attachment; none, with the reason, where namespaces are forbidden."""
    if not cuts:
        return {}
    try:
        with cluster_of(8, rate_mbit) as cluster:
            return {name: cut_off(cluster, name, cuts, every) for name in ("lazy", "eager")}
    except ConfigError as error:
        print(f"only this host is measured: {error.args[0]}; {error.remedy}", flush=True)
        return {}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--local", action="store_true", help="no namespaces")
    parser.add_argument("--quick", action="store_true", help="three stops, of KDD12 only; printed only")
    options = parser.parse_args()
    stops = 3 if options.quick else options.stops
    cases = dict(itertools.islice(CASES.items(), 1 if options.quick else None))
    load = 0.0 if options.quick else await_quiet()
    found, calm = {}, {}
    for name, (data, attachment) in cases.items():
        calm[name] = stopped(data, attachment, 0, (stops + 1) * EVERY)
        found[name] = stopped(data, attachment, stops, EVERY)
        print(f"{name}: {found[name]['usual_ms']:.2f} ms, {found[name]['stall_ms']}", flush=True)
    for name, cut in in_namespaces(0 if options.local else stops, EVERY_CUT, options.rate).items():
        found[f"KDD12, {name}, cut off at {options.rate} Mbit/s"] = cut
    heading = ["job", "stops", "usual gap ms", "stall ms, median", "longest", "stall / usual (asked: 1.3)"]
    heading += ["longest gap before / usual", "rows decoded"]
    tables = {
        "One processor stopped or cut off": table(heading, [row_of(name, one, stops) for name, one in found.items()]),
        "Nothing wrong": table(
            ["job", "usual gap ms", "rows decoded", "% of rows (asked: < 0.1)"],
            [calm_row(name, one) for name, one in calm.items()],
        ),
    }
    if options.quick:
        print("\n\n".join(tables.values()))
        return
    figures = {"stops": found, "calm": calm}
    save("streamlec_stops", "What a stopped processor costs", tables, figures, data=ABOUT, rounds=1, load=load)


if __name__ == "__main__":
    main()
