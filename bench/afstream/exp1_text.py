"""Exp#1 (AFX 6.1.1): Grep and WordCount under four schemes, beside Spark Structured Streaming on the same text.

python -m bench.afstream.exp1_text [--runs N] [--quick]

Spark cannot run a streaming query without checkpoints. "No checkpoints" keeps them in memory (/dev/shm).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.afstream import data
from bench.afstream.jobs import Case, Job, arguments, interleave, keep, losses, median, percent
from bench.afstream.settings import MINI_BATCH, NONE, PAPER_TEXT, UPSTREAM_BACKUP, approximate
from bench.runs import table
from bench.streamlec import figures

SCHEMES = {
    "none": NONE,
    "approximate": approximate(1e4, 1e3),
    "mini_batch": MINI_BATCH,
    "upstream_backup": UPSTREAM_BACKUP,
}
SPARK = {"Spark, no checkpoints": Path("/dev/shm"), "Spark, checkpoints": data.CACHE}
ALGORITHMS = ("grep", "word_count")
PATTERNS = {"real": "river", "synthesized": "mata"}
WINDOWS = 50
TIMEOUT_S = 600


def jobs(text: data.Data, repeats: dict[str, int], pattern: str) -> dict[str, Job]:
    """Our jobs, by "algorithm scheme"."""
    made = {}
    for algorithm in ALGORITHMS:
        items = text.rows * repeats[algorithm]
        sets = [f"input.path={text.path}", f"micro_batch={items // WINDOWS}"]
        own = f"stages.find.options.pattern={pattern}" if algorithm == "grep" else "stages.split.options.ascii=true"
        sets.append(own)  # words are those that the program for Spark finds
        for scheme, section in SCHEMES.items():
            job = Job(f"configs/{algorithm}.yaml", [*sets, f"input.repeat={repeats[algorithm]}"])
            made[f"{algorithm} {scheme}"] = job.under(section)
    return made


@contextmanager
def copies(text: data.Data, repeat: int) -> Iterator[tuple[str, str]]:
    """A folder with the text's files `repeat` times, under other names, and one with the first of them."""
    with tempfile.TemporaryDirectory(dir=data.CACHE) as folder:
        whole, warm = Path(folder, "text"), Path(folder, "warm")
        whole.mkdir()
        warm.mkdir()
        files = sorted(Path(text.path).iterdir())
        os.link(files[0], warm / files[0].name)
        for number in range(repeat):
            for file in files:
                os.link(file, whole / f"{number}-{file.name}")
        yield str(whole), str(warm)


def spark(algorithm: str, folders: tuple[str, str], checkpoints: Path, pattern: str) -> dict[str, Any]:
    """The measurements of one run of Spark; RuntimeError with its last words when it fails."""
    whole, warm = folders
    with tempfile.TemporaryDirectory(dir=checkpoints) as folder:
        command = [sys.executable, "-m", "bench.afstream.spark_text", algorithm, whole, "--warm", warm]
        command += ["--checkpoints", folder, "--pattern", pattern]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"Spark ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_spark(text: data.Data, repeat: int, runs: int, pattern: str) -> dict[str, list[dict[str, Any]]]:
    """By "algorithm setup", each run."""
    found: dict[str, list[dict[str, Any]]] = {f"{a} {setup}": [] for a in ALGORITHMS for setup in SPARK}
    with copies(text, repeat) as folders:
        for _ in range(runs):
            for algorithm in ALGORITHMS:
                for setup, checkpoints in SPARK.items():
                    one = spark(algorithm, folders, checkpoints, pattern)
                    found[f"{algorithm} {setup}"].append(one)
                    print(f"{algorithm} {setup}: {one['mb_per_second']:.1f} MB/s, {one['lines']:,} lines", flush=True)
    return found


def report(ours: dict[str, Case], theirs: dict[str, list[dict[str, Any]]], line_bytes: float) -> str:
    """MB/s, the loss against "none", and the same of the paper; Spark's loss is against Spark."""
    rows = []
    for algorithm in ALGORITHMS:
        base, spark_base = ours[f"{algorithm} none"], None
        for scheme in (*SCHEMES, *SPARK):
            if scheme in SCHEMES:
                case = ours[f"{algorithm} {scheme}"]
                speed, lost, against = case.rate * line_bytes / 1e6, losses(case, base), "none"
            else:
                speed = median(one["mb_per_second"] for one in theirs[f"{algorithm} {scheme}"])
                spark_base, against = spark_base or speed, "Spark, no checkpoints"
                lost = percent(1 - speed / spark_base)
            paper, paper_base = PAPER_TEXT[scheme][algorithm], PAPER_TEXT[against][algorithm]
            rows.append([algorithm, scheme, speed, lost, percent(1 - paper / paper_base), f"{paper:g}"])
    return table(["algorithm", "scheme", "MB/s", "loss", "paper's loss", "paper's MB/s"], rows)


def main() -> None:
    """Measure, print, draw and save."""
    options = arguments(__doc__ or "")
    text = data.text(80_000 if options.quick else 800_000)
    repeats = {"grep": 10, "word_count": 4} if options.quick else {"grep": 160, "word_count": 40}
    pattern = PATTERNS[text.about.split(":")[0]]
    size = sum(file.stat().st_size for file in Path(text.path).iterdir())
    ours = interleave("exp1", jobs(text, repeats, pattern), options.runs)
    theirs = measure_spark(text, 2 if options.quick else 4, options.runs, pattern)
    caption = f"{text.about}, {text.rows:,} lines again and again, the same stream for all of ours; Spark reads them "
    caption += f"four times; medians of {options.runs}, start-up apart"
    tables = {caption: report(ours, theirs, size / text.rows)}
    shown: dict[str, dict[str, tuple[float, float]]] = {
        algorithm: {scheme: (ours[f"{algorithm} {scheme}"].rate * size / text.rows / 1e6, 0.0) for scheme in SCHEMES}
        for algorithm in ALGORITHMS
    }
    pictures = [] if options.quick else [figures.bars("afstream_exp1", "Exp#1", "MB/s", shown)]
    kept: dict[str, Any] = {"pictures": pictures, "data": text.about, "spark": theirs}
    cases = {name: case.figures() for name, case in ours.items()}
    keep(options, "afstream_exp1", "AF-Stream Exp#1: Grep and WordCount", tables, {**kept, "cases": cases})


if __name__ == "__main__":
    main()
