"""Streams without end for long, killing somebody every so often: all is counted once, and nothing grows.

    python tests/soak/soak_endless.py --minutes 60 --every 20

A job counts the words of a text that is streamed for ever at a given rate, and is drained at the end. The exit code is
1 unless each word of the stream was counted once, each window was announced once, and memory, disk and open files are
in the last quarter what they were in the second. The figures are kept in bench/results/soak_endless.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/scenarios")]

import numpy as np  # noqa: E402
import psutil  # noqa: E402
from cli_harness import Cli  # noqa: E402

from bench import runs  # noqa: E402
from riprap.engine.run_directory.directory import read_events, read_summary  # noqa: E402
from riprap.engine.run_directory.epochs import EpochTail  # noqa: E402

WORDS, LINES, WORDS_A_LINE, WINDOW = 500, 20_000, 6, 4_000
TOPOLOGY = """\
job: {job}
input: {{path: text.txt, repeat: forever, rate: {rate}}}
micro_batch: {window}
links: {{block_bytes: 65536}}
stages:
  split: {{operator: "word_count:SplitWords", parallelism: 2}}
  count: {{operator: "word_count:CountWords", parallelism: 2}}
edges:
  - {{from: split, to: count, partitioning: full}}
fault_tolerance: {scheme}
backup: {{servers: 2}}
cluster: {{restarts_max: 1000}}
"""
ROLES = ["split.0", "split.1", "count.0", "count.1", "agent", "controller", "backup", "backup.2", "zookeeper"]
LOOK_S = 5.0
GROWTH_MAX = {"rss_mb": 1.1, "files": 1.1, "disk_mb": 1.5}
"""Of what the second quarter used at most, in the last one; logs that are cut now and then fill up between."""


class Look(NamedTuple):
    """What all processes of the job and its directory use at a moment."""

    seconds: float
    rss_mb: float
    files: int
    disk_mb: float


class Soaked(NamedTuple):
    """How a soak went."""

    summary: dict[str, Any]
    looks: list[Look]
    kills: Counter[str]
    wrong: list[str]


def text() -> list[list[str]]:
    """The lines that are streamed."""
    drawn = np.random.default_rng(5).zipf(1.3, (LINES, WORDS_A_LINE)) % WORDS
    return [[f"w{number}" for number in line] for line in drawn]


def schedule(seconds: float, every_s: float, seed: int) -> Iterator[str]:
    """A kill every so often, of a random role."""
    draw = random.Random(seed)
    for number in range(1, int(seconds / every_s)):
        yield f"kill:{draw.choice(ROLES)}@seconds={number * every_s:g}"


def look(cli: Cli, began: float) -> Look:
    """Memory is what processes have alone, and their part of what they share."""
    rss, files = 0.0, 0
    for pid in cli.processes():
        with suppress(psutil.Error, OSError):
            rss += psutil.Process(pid).memory_full_info().pss / 2**20
            files += len(os.listdir(f"/proc/{pid}/fd"))
    disk = 0
    for path in cli.directory.rglob("*"):
        with suppress(OSError):
            disk += path.stat().st_blocks * 512
    return Look(time.monotonic() - began, rss, files, disk / 2**20)


def soak(directory: Path, seconds: float, every_s: float, rate: int, scheme: str, seed: int) -> Soaked:
    """Run for so long, then drain."""
    lines = text()
    (directory / "text.txt").write_text("".join(" ".join(line) + "\n" for line in lines))
    cli = Cli(directory)
    job = f"soak-{cli.mark[:12]}"
    (directory / "job.yaml").write_text(TOPOLOGY.format(job=job, rate=rate, window=WINDOW, scheme=scheme))
    kills = list(schedule(seconds, every_s, seed))
    (directory / "faults.yaml").write_text(json.dumps(kills))
    words = ["--standby", "1", "--faults", "faults.yaml", "--until", f"seconds={seconds:g}"]
    launcher = cli.start("run", "job.yaml", "--out", "out", *words)
    launcher_says = deque(maxlen=20)
    for pipe in (launcher.stdout, launcher.stderr):
        Thread(target=launcher_says.extend, args=(pipe,), daemon=True).start()
    began, looks = time.monotonic(), []
    try:
        while launcher.poll() is None and time.monotonic() < began + 1.5 * seconds + 300:
            looks.append(look(cli, began))
            with suppress(subprocess.TimeoutExpired):
                launcher.wait(LOOK_S)
        launcher.kill()
        launcher.wait()
    finally:
        cli.kill_all()
    if launcher.returncode:
        return Soaked({}, looks, Counter(), [f"exit code {launcher.returncode}: {''.join(launcher_says)}"])
    summary = read_summary(directory / "out")
    hit = Counter(
        str(event["target"]) for event in read_events(directory / "out") if event["event"] == "fault_injected"
    )
    return Soaked(summary, looks, hit, [*wrong_counts(directory / "out", lines, summary), *growth(looks, seconds)])


def wrong_counts(out: Path, lines: list[list[str]], summary: dict[str, Any]) -> Iterator[str]:
    """What was not counted once."""
    windows, halves = summary["epochs"], [lines[: LINES // 2], lines[LINES // 2 :]]
    if (found := summary["items"]) != 2 * WINDOW * windows:
        yield f"{found} items in {windows} windows of {2 * WINDOW}"
    for index in (0, 1):
        tail = EpochTail(out / f"epochs.{index}.csv")
        if [row.epoch for row in tail.refresh()] != list(range(tail.before.epoch + 1, windows + 1)):
            yield f"epochs.{index}.csv does not have each window once"
    if summary["lost"]["items"]:
        yield f"lost: {summary['lost']}"
    truth: Counter[str] = Counter()
    for half in halves:
        passes, rest = divmod(windows * WINDOW, len(half))
        of_pass = Counter(word for line in half for word in line)
        truth.update({word: count * passes for word, count in of_pass.items()})
        truth.update(word for line in half[:rest] for word in line)
    if counted(out) != truth:
        yield "the words were not all counted once"


def counted(out: Path) -> Counter[str]:
    """The words that both tasks have counted."""
    found: Counter[str] = Counter()
    for index in (0, 1):
        model = np.load(out / f"model.{index}.npz")
        letters, ends = model["words"].tobytes(), model["offsets"].tolist()
        for number, count in enumerate(model["counts"].tolist()):
            found[letters[ends[number] : ends[number + 1]].decode()] += count
    return found


def growth(looks: list[Look], seconds: float) -> Iterator[str]:
    """What is used more of at the end than before."""
    for name, most in GROWTH_MAX.items():
        before, after = (
            runs.median(getattr(one, name) for one in looks if part[0] * seconds <= one.seconds < part[1] * seconds)
            for part in ((0.25, 0.5), (0.75, 1.0))
        )
        if after > most * before:
            yield f"{name} grew from {before:.0f} to {after:.0f}"


def verdict(wrong: list[str], joint: str) -> str:
    """What was wrong; if nothing was, by how much what is used could have grown all the same."""
    bounds = ", ".join(f"{name} {most:g}" for name, most in GROWTH_MAX.items())
    return joint.join(wrong) or f"each word counted once, nothing grew beyond its bound ({bounds} times)"


def keep(options: argparse.Namespace, soaked: Soaked) -> None:
    """Write what was found."""
    summary, looks = soaked.summary, soaked.looks
    quarters = [[one for one in looks if n <= 4 * one.seconds / (60 * options.minutes) < n + 1] for n in range(4)]
    of_quarters = [
        (f"quarter {n}", *(round(runs.median(getattr(one, name) for one in part), 1) for name in Look._fields[1:]))
        for n, part in enumerate(quarters, 1)
        if part
    ]
    hit = sorted(soaked.kills.items())
    tables = {
        f"{summary.get('items', 0):,} items in {summary.get('seconds', 0):,.0f} s, {sum(soaked.kills.values())} kills: "
        + verdict(soaked.wrong, "; "): runs.table(["median of", "memory (MB)", "open files", "disk (MB)"], of_quarters),
        "Who was killed": runs.table(["role", "times"], hit),
    }
    figures = {"seed": options.seed, "rate": options.rate, "scheme": options.scheme, "wrong": soaked.wrong}
    runs.save("soak_endless", "A stream without end", tables, figures | {"looks": [one._asdict() for one in looks]})


def main() -> int:
    """Parse the command line, run, keep; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=20, help="seconds between two kills")
    parser.add_argument("--rate", type=int, default=300_000, help="lines a second")
    parser.add_argument("--scheme", default="upstream_backup")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the run directory, and say where")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="riprap-soak-"))
    try:
        soaked = soak(directory, 60 * options.minutes, options.every, options.rate, options.scheme, options.seed)
    finally:
        if not options.keep:
            shutil.rmtree(directory)
    keep(options, soaked)
    print(verdict(soaked.wrong, "\n"))
    if options.keep:
        print(directory)
    return 1 if soaked.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
