"""The base of the benchmarks: jobs through the command line, medians, tables, and results with their environment."""

from __future__ import annotations

import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.provenance import provenance
from riprap.controller.processes import die_with_parent

RESULTS = Path(__file__).parent / "results"

#: Scheme as the tables call it -> overrides of a topology with six processors.
SCHEMES: dict[str, list[str]] = {
    "none": ["fault_tolerance={scheme: none}"],
    "erasure (5,1)": ["fault_tolerance={scheme: erasure, code: gf256, k: 5, r: 1}"],
    "erasure (4,2)": ["fault_tolerance={scheme: erasure, code: gf256, k: 4, r: 2}"],
    "replication 2x": ["fault_tolerance={scheme: replication, copies: 2}"],
    "replication 3x": ["fault_tolerance={scheme: replication, copies: 3}"],
}


@dataclass(frozen=True)
class Run:
    """A finished run: its summary, its epochs as (epoch, items, latency_ms, committed_at), and the lines of its
    `tentative.csv`, where it has one."""

    summary: dict[str, Any]
    epochs: list[tuple[int, int, float, float]]
    tentative: list[dict[str, str]]


def riprap(*words: str) -> str:
    """Run a subcommand to its end; returns its output. RuntimeError with its last words when it fails."""
    command = [sys.executable, "-m", "riprap.engine.cli.main", *words]
    done = subprocess.run(  # the thread that starts it awaits it
        command, capture_output=True, text=True, timeout=600, preexec_fn=partial(die_with_parent, os.getpid())
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run(config: str, sets: Iterable[str] = (), faults: Iterable[str] = (), others: Iterable[str] = ()) -> Run:
    """`riprap run` in a temporary run directory; RuntimeError when the job does not complete. `others` are further
    words of the command."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        out = Path(folder) / "run"
        words = ["run", config, "--json", "--out", str(out), *others]
        words += [word for value in sets for word in ("--set", value)]
        words += [word for spec in faults for word in ("--fault", spec)]
        summary = json.loads(riprap(*words))
        with open(out / "epochs.csv") as file:
            epochs = [
                (int(row["epoch"]), int(row["items"]), float(row["latency_ms"]), float(row["committed_at"]))
                for row in csv.DictReader(file)
            ]
        shown = out / "tentative.csv"
        tentative = [*csv.DictReader(shown.read_text().splitlines())] if shown.exists() else []
    return Run(summary, epochs, tentative)


def ready(path: str, rows: int) -> str:
    """The training shards of a synthesized data set ("higgs" or "kdd12"), made when they are not there."""
    base = Path(".data/bench") / f"{path}-{rows}"
    if not (base / "shards/train/manifest.json").exists():
        raw = base / ("HIGGS.csv" if path == "higgs" else "training.txt")
        base.mkdir(parents=True, exist_ok=True)
        riprap("prep", "synth", path, str(raw), "--rows", str(rows))
        riprap("prep", path, str(raw), "--out", str(base / "shards"), "--holdout", "0.1")
        raw.unlink()
    return str(base / "shards/train")


def median(values: Iterable[float]) -> float:
    """The median; of an even number of values the mean of the middle two."""
    return statistics.median(values)


def table(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; floats with three significant digits."""
    text = [list(heading), ["---"] * len(heading), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in text)


def save(
    name: str, title: str, tables: dict[str, str], figures: dict[str, Any], *,
    data: str = "", rounds: int | None = None, load: float | None = None,
) -> None:  # fmt: skip
    """Print the tables and keep them, the figures behind them and the environment in `bench/results/NAME.json`.

    `data` describes the stream, which is real, semi-real or synthesized; `load` is what the machine bore when
    the bench began (bench.rounds.await_quiet).
    """
    for caption, text in tables.items():
        print(f"\n{caption}\n\n{text}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    measured = {**provenance(), "data": data, "rounds": rounds, "load_before": load}
    content = {"title": title, "environment": environment(), "measured": measured, "tables": tables, "figures": figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def environment() -> dict[str, Any]:
    """The facts about the machine that a reader must know."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
