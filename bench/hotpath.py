"""The worker's hot path: the cost of a hop, small blocks per second, and the CPU use of an idle job.

    python -m bench.hotpath [--rounds N]

A hop: in a chain of one source, one processor and one sink with one small block an epoch and one epoch under way, the
time between commits is three hops, one through each worker, with all that a worker does for a block (the sink's commit
and its persistence included), and all between two workers. Beside it what the way between two workers takes alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.network import round_trips
from bench.runs import environment, median, ready, run, save, table
from riprap.controller.processes import tie_to_this_process
from riprap.operators.inputs.shard_source import ShardSource

CONFIG = "configs/logistic_regression_kdd12.yaml"
NONE = "fault_tolerance={scheme: none}"
ITEM_BYTES = 96
HOPS = 3
CPU_ITEMS = (100_000, 700_000)  # two lengths of a stream: what they differ by is not the start of the workers
PINGS = 5000
IDLE_S = 10.0
HOP_ASKED_US, BLOCKS_ASKED, CPU_ASKED_US, IDLE_ASKED = 30, 300_000, 30, 0.01


class Resting(ShardSource):
    """Reads nothing for a while in the middle of the stream, so that the job has nothing to do."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rests before the item in the middle."""
        assert self.items is not None, "the input has an end"
        if start <= self.items // 2 < stop and stop - start > 1:
            threading.Event().wait(IDLE_S)
        return super().read(start, stop)


def hop_us(shards: str, transport: str) -> float:
    """Median microseconds a hop."""
    sets = ["micro_batch=10", "input.limit=30000", "stages.processor.parallelism=1", "links.window_epochs=1"]
    job = run(CONFIG, [f"input.path={shards}", NONE, f"links.transport={transport}", *sets])
    times = [committed for _, _, _, committed in job.epochs[len(job.epochs) // 10 :]]
    return median(after - before for before, after in pairwise(times)) / HOPS * 1e6


def blocks_per_second(shards: str, transport: str) -> float:
    """Blocks of ten items through source, one of two processors, and sink."""
    sets = ["micro_batch=20000", "input.limit=400000", "stages.processor.parallelism=2", "links.block_bytes=1024"]
    job = run(CONFIG, [f"input.path={shards}", NONE, f"links.transport={transport}", *sets])
    per_block = 1024 // ITEM_BYTES
    return float(job.summary["items_per_second"]) / per_block


def cpu_us_per_block(shards: str, transport: str) -> float:
    """CPU microseconds that the three workers of a chain spend on a block of ten items, their start left out."""
    sets = ["micro_batch=20000", "stages.processor.parallelism=1", "links.block_bytes=1024"]
    used = []
    for items in CPU_ITEMS:
        words = [f"input.path={shards}", NONE, f"links.transport={transport}", f"input.limit={items}", *sets]
        used.append(sum(run(CONFIG, words).summary["cpu_seconds"].values()))
    return (used[1] - used[0]) / (CPU_ITEMS[1] - CPU_ITEMS[0]) * (1024 // ITEM_BYTES) * 1e6


def idle_cores(shards: str) -> dict[str, float]:
    """Cores used by the workers of a job of eight that waits for its source, and by all its other processes."""
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        command = [sys.executable, "-m", "riprap.engine.cli.main", "run", CONFIG, "--out", str(Path(folder) / "run")]
        sets = [f"input.path={shards}", "input.limit=1000000", "stages.source.operator=bench.hotpath:Resting"]
        sets += ["cluster.heartbeat_timeout_s=60", "cluster.stall_timeout_s=120"]
        words = [word for value in sets for word in ("--set", value)]
        launcher = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, preexec_fn=tie_to_this_process())
        try:
            return _idle_cores(psutil.Process(launcher.pid))
        finally:
            launcher.terminate()
            launcher.wait(60)


def _idle_cores(launcher: psutil.Process) -> dict[str, float]:
    """Over the quietest second of the job's life: only while the source rests is there none that is busier."""
    samples: list[dict[str, float]] = []
    before, since = _cpu_seconds(launcher), time.monotonic()
    while launcher.is_running() and launcher.status() != psutil.STATUS_ZOMBIE and len(samples) < 30:
        time.sleep(1.0)
        now, at = _cpu_seconds(launcher), time.monotonic()
        if len(now["worker"]) >= 8 and now["worker"].keys() == before["worker"].keys():
            samples.append({kind: _grown(before[kind], now[kind]) / (at - since) for kind in now})
        before, since = now, at
    return min(samples, key=lambda sample: sample["worker"])


def _cpu_seconds(launcher: psutil.Process) -> dict[str, dict[int, float]]:
    """CPU seconds of each process so far, the workers' and the others'."""
    found: dict[str, dict[int, float]] = {"worker": {}, "other": {}}
    for process in [launcher, *launcher.children(recursive=True)]:
        try:
            kind = "worker" if len(process.threads()) > 4 and "zygote" in " ".join(process.cmdline()) else "other"
            found[kind][process.pid] = sum(map(_ran_s, Path(f"/proc/{process.pid}/task").iterdir()))
        except (psutil.Error, OSError):
            continue  # it ended meanwhile
    return found


def _ran_s(thread: Path) -> float:
    """Seconds on a CPU, by the scheduler's own account: ticks would miss a thread that runs for microseconds."""
    return int((thread / "schedstat").read_text().split()[0]) / 1e9


def _grown(before: dict[int, float], now: dict[int, float]) -> float:
    return sum(seconds - before[pid] for pid, seconds in now.items() if pid in before)


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = range(parser.parse_args().rounds)
    shards = str(Path(ready("kdd12", 2_000_000)).resolve())
    transports = ("auto", "zeromq")
    ways: dict[str, list[float]] = {"channel": [], "network": []}
    hops: dict[str, list[float]] = {name: [] for name in transports}
    blocks: dict[str, list[float]] = {name: [] for name in transports}
    cpu: dict[str, list[float]] = {name: [] for name in transports}
    for _ in rounds:
        for way, found in ways.items():
            found.append(median(round_trips(way, "ipc", PINGS)) / 2 * 1e6)
        for name in transports:
            hops[name].append(hop_us(shards, name))
            blocks[name].append(blocks_per_second(shards, name))
            cpu[name].append(cpu_us_per_block(shards, name))
    idle = idle_cores(shards)
    rows: list[list[Any]] = [
        ["between two idle compute threads, us", *(median(found) for found in ways.values()), ""],
        ["a hop, us", *(median(hops[name]) for name in transports), f"< {HOP_ASKED_US}"],
        ["small blocks/s", *(median(blocks[name]) for name in transports), f">= {BLOCKS_ASKED:,}"],
        ["CPU of three workers per small block, us", *(median(cpu[name]) for name in transports), f"<= {CPU_ASKED_US}"],
    ]
    idle_rows = [["8 workers", idle["worker"], IDLE_ASKED], ["all other processes", idle["other"], ""]]
    tables = {
        f"one machine, medians of {len(rounds)}": table(["what", "transport auto", "zeromq", "asked"], rows),
        "cores that a job uses while it waits for its source": table(["who", "cores", "asked"], idle_rows),
    }
    figures = {
        "one_way_us": ways,
        "hop_us": hops,
        "blocks_per_second": blocks,
        "cpu_us_per_block": cpu,
        "idle_cores": idle,
        "cpus": environment()["cores"],
    }
    save("hotpath", "The worker's hot path", tables, figures)


if __name__ == "__main__":
    main()
