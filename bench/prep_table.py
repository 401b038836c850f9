"""The speed of `riprap prep table` on CSV, and its memory, which should stay flat at ten times the rows.

    python -m bench.prep_table [--rows 500000] [--rounds 3]

The file has a header, 28 features with six significant digits and a label last; a block of rows is repeated.
Start-up is the time of a file of 100 rows. Memory is the highest resident set of each process, every 0.1 s.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from bench.rounds import await_quiet
from bench.runs import median, save, table

FEATURES = 28
BLOCK_ROWS = 50_000
LOOK_EVERY_S = 0.1


class Taken(NamedTuple):
    """Wall and CPU seconds of one run, and the highest resident set in MB of the driver, its JVM and all workers."""

    seconds: float
    cpu: float
    driver_mb: float
    java_mb: float
    workers_mb: float


def write_csv(path: Path, rows: int) -> None:
    """A file of `rows` rows."""
    rng = np.random.default_rng(1)
    block = np.column_stack([rng.normal(size=(BLOCK_ROWS, FEATURES)), rng.integers(0, 2, BLOCK_ROWS)])
    lines = [",".join(f"{value:.6g}" for value in row) + "\n" for row in block]
    header = ",".join([*(f"x{place}" for place in range(1, FEATURES + 1)), "label"]) + "\n"
    with open(path, "w") as file:
        file.write(header)
        for start in range(0, rows, BLOCK_ROWS):
            file.writelines(lines[: rows - start])


def prepare(source: Path, out: Path) -> Taken:
    """One run of the command."""
    command = [sys.executable, "-m", "riprap.engine.cli.main", "prep", "table", str(source), "--label", "label"]
    begun = time.perf_counter()
    process = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    highest = {"driver": 0, "java": 0, "workers": 0}
    cpu: dict[int, float] = {}
    while process.poll() is None:
        for kind, size in _looked_at(process.pid, cpu).items():
            highest[kind] = max(highest[kind], size)
        time.sleep(LOOK_EVERY_S)
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Taken(seconds, sum(cpu.values()), *(highest[kind] / 1e6 for kind in ("driver", "java", "workers")))


def _looked_at(pid: int, cpu: dict[int, float]) -> dict[str, int]:
    """The bytes that the processes of a run hold now; pages shared between workers count in each. Their CPU seconds so
    far go to `cpu`, by process."""
    found = {"driver": 0, "java": 0, "workers": 0}
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(pid)
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                kind = "driver" if process == driver else "java" if process.name() == "java" else "workers"
                found[kind] += process.memory_info().rss
                times = process.cpu_times()
                cpu[process.pid] = times.user + times.system
    return found


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = await_quiet()
    sizes = [100, args.rows, 10 * args.rows]
    found: dict[int, list[Taken]] = {rows: [] for rows in sizes}
    with tempfile.TemporaryDirectory(prefix="riprap-bench-", dir=".") as folder:
        for rows in sizes:
            write_csv(Path(folder) / f"{rows}.csv", rows)
        for number in range(args.rounds):
            for rows in sizes:
                out = Path(folder) / f"out-{rows}-{number}"
                found[rows].append(prepare(Path(folder) / f"{rows}.csv", out))
                for file in [*out.iterdir()]:
                    file.unlink()
    start, start_cpu = (median(getattr(one, name) for one in found[100]) for name in ("seconds", "cpu"))
    lines = []
    for rows, taken in found.items():
        seconds = median(one.seconds for one in taken)
        rate = f"{rows / (seconds - start) / 1e6:.2f}" if rows > 100 else "-"
        cpu = f"{(median(one.cpu for one in taken) - start_cpu) / rows * 1e6:.2f}" if rows > 100 else "-"
        memory = [f"{max(getattr(one, name) for one in taken):.0f}" for name in ("driver_mb", "java_mb", "workers_mb")]
        lines.append([f"{rows:,}", seconds, f"{rows / seconds / 1e6:.2f}", rate, cpu, *memory])
    heading = [
        "rows",
        "seconds",
        "M rows/s",
        "M rows/s without start-up",
        "CPU s a M rows, without start-up",
        "driver MB",
        "JVM MB",
        "Python workers MB",
    ]
    save(
        "prep_table", "riprap prep table: CSV of 29 numeric columns",
        {"Medians of the rounds; memory is the most of any": table(heading, lines)},
        {"runs": {str(rows): [one._asdict() for one in taken] for rows, taken in found.items()}},
        data="synthesized: 50,000 rows of normal numbers, repeated", rounds=args.rounds, load=load,
    )  # fmt: skip


if __name__ == "__main__":
    main()
