"""The base of the programs for Flink: its distribution as PyPI brings it, and Java programs run in a MiniCluster."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import harness
import pyflink

HOME = Path(pyflink.__file__).parent
CLASSES = Path(".data/peers/flink/classes")
VERSION = f"Flink {version('apache-flink')}"
OPENED = ("java.lang", "java.util", "java.nio", "java.time")
"""Packages of java.base that Flink reads by reflection (its conf/config.yaml lists all)."""


def java(name: str, words: Sequence[object], until: str = "") -> list[str]:
    """Run a class of flink/*.java, and note the moments at which it prints `begin` and `end`; the other lines.

    It is ended when a line starts with `until`; otherwise it must end by itself.
    """
    command = ["java", "-Xmx2g", *(f"--add-opens=java.base/{part}=ALL-UNNAMED" for part in OPENED)]
    command += ["-cp", f"{CLASSES}:{HOME}/lib/*", name, *map(str, words)]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in map(str.strip, process.stdout):
            {"begin": harness.begin, "end": harness.end}.get(line, lambda line=line: lines.append(line))()
            if until and line.startswith(until):
                process.kill()
    if process.returncode and not until:
        raise RuntimeError(f"{name} ended with {process.returncode}")
    return lines


def compile_sources() -> None:
    """Compile the sources in flink/, and pack them for clusters."""
    sources = Path(__file__).parent.glob("flink/*.java")
    subprocess.run(["javac", "-d", str(CLASSES), "-cp", f"{HOME}/lib/*", *map(str, sources)], check=True)
    subprocess.run(["jar", "cf", str(CLASSES.with_suffix(".jar")), "-C", str(CLASSES), "."], check=True)


def train(args: argparse.Namespace, rows_per_record: int) -> None:
    """Logistic.java on the shards, as often as need be, and its report; some micro-batches go before, unmeasured."""
    files = sorted(args.data.glob("part-*.npy"))
    shards = harness.shards(args.data)
    warm = 10 * args.micro_batch
    passes = (args.items + warm) // sum(map(len, shards)) + 1
    numbers = [rows_per_record, shards[0].shape[1], args.items, warm, args.micro_batch, args.learning_rate]
    *_, line = java("Logistic", [*numbers, *(files * passes)], until="weights")
    intercept, *weights = map(float, line.split()[1:])
    harness.report(args.items, harness.score_weights(weights, intercept, args.test), VERSION)


def heavy_hitters(args: argparse.Namespace, packets_per_record: int) -> None:
    """Flows.java on the packets, and its report; one pass goes before, unmeasured."""
    files = sorted(args.data.glob("part-*.npy"))
    rows = sum(map(len, harness.shards(args.data)))
    windows = args.passes + 1
    lines = java("Flows", [packets_per_record, rows, windows, args.threshold, *(files * windows)], until="done")
    harness.report(args.passes * rows, {"flows": [int(line) for line in lines[:-1]]}, VERSION)


if __name__ == "__main__":
    compile_sources()
