"""Streams without end: workers killed while they run and while they end, and nothing counted twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_harness import SLOW_WORDS, WORD_COUNT, Cli, await_that
from shared_cluster import SharedCluster

from riprap.controller.client import Client
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
WINDOW = 1_000
LINES = [f"alpha beta gamma {chr(97 + i % 26)}{chr(97 + i % 7)}\n" for i in range(5_000)]
SLOW = ("--set", "stages.split.operator=slow_words:SlowSplit")


@pytest.fixture
def words(cli: Cli) -> Iterator[Cli]:
    (cli.directory / "text.txt").write_text("".join(LINES))
    (cli.directory / "job.yaml").write_text(WORD_COUNT % (1, WINDOW))
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)
    yield cli


def windows_in(out: Path, sinks: int) -> list[list[int]]:
    names = [f"epochs.{index}.csv" for index in range(sinks)] if sinks > 1 else ["epochs.csv"]
    files = [(out / name).read_text().splitlines()[1:] for name in names]
    return [[int(line.partition(",")[0]) for line in lines] for lines in files]


@pytest.mark.parametrize("scheme", [pytest.param("mini_batch", marks=pytest.mark.long), "upstream_backup", "barrier"])
def test_a_drained_stream_counts_each_item_up_to_its_end_once(words: Cli, scheme: str) -> None:
    sets = ("--json", "--set", f"fault_tolerance.scheme={scheme}")
    endless = ("--set", "input.repeat=forever", *SLOW)
    process = words.start("run", "job.yaml", "--out", "out", "--standby", "1", *sets, *endless)
    out = words.directory / "out"
    csv = out / "epochs.0.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 3, 120, lambda: "nothing was committed")
    zookeeper = str(next(event for event in read_events(out) if event["event"] == "cluster_started")["zookeeper"])
    with Client(zookeeper) as client:
        client.kill("words", "split.0")
        await_that(lambda: up(client), 60, lambda: "split.0 was not replaced")
        client.kill("words", "count.0")
        client.kill("words", "split.1")  # whoever takes its place hears of the end that it must reach
        words.ask("drain", "words", "--zookeeper", zookeeper)
    said, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    summary = json.loads(said)
    assert {failure["worker"] for failure in summary["failures"]} >= {"split.0", "split.1", "count.0"}
    last = summary["epochs"]
    assert windows_in(out, 2) == [list(range(1, last + 1))] * 2, "each window is announced once, in order"
    assert summary["items"] == 2 * WINDOW * last
    assert counted(out) == truth(WINDOW * last)


def truth(items: int) -> Counter[str]:
    """Each of the two tasks reads its half of the lines again and again, so many items in all."""
    halves = [LINES[: len(LINES) // 2], LINES[len(LINES) // 2 :]]
    return Counter(word for half in halves for i in range(items) for word in half[i % len(half)].split())


def up(client: Client) -> bool:
    return all(worker["state"] == "up" for worker in client.status("words")["workers"].values())


def counted(out: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for index in (0, 1):
        model = np.load(out / f"model.{index}.npz")
        text, ends = model["words"].tobytes(), model["offsets"].tolist()
        for i, count in enumerate(model["counts"].tolist()):
            found[text[ends[i] : ends[i + 1]].decode()] += count
    return found


TRAINING = [
    "{scheme: erasure, code: gf256, k: 2, r: 1}",
    "{scheme: replication, copies: 2}",
    "reactive",
    "upstream_backup",
]
"""Schemes of jobs that train, in tasks of both kinds."""


@pytest.mark.parametrize("scheme", TRAINING)
def test_a_drained_training_job_has_the_model_of_as_long_a_stream_with_an_end(
    cli: Cli, cluster: SharedCluster, scheme: str
) -> None:
    sets = ("--set", f"fault_tolerance={scheme}", "--set", "stages.processor.parallelism=4")
    endless = ("--set", "input.repeat=forever", "--set", "input.rate=10000", "--until", "items=10000")
    kills = [
        f"--fault=kill:{worker}@items={items}"
        for worker, items in (("processor.0", 2000), ("sink.0", 4000), ("source.0", 6000), ("processor.2", 10_500))
    ]
    ended = cli.answer("run", "job.yaml", "--out", "out", "--json", *sets, *endless, *kills)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert {failure["worker"] for failure in summary["failures"]} >= {"processor.0", "sink.0", "source.0"}
    assert summary["items"] == 500 * summary["epochs"] >= 10_000
    assert windows_in(cli.directory / "out", 1) == [list(range(1, summary["epochs"] + 1))]
    whole = ("--set", f"input.limit={summary['items']}", "--set", "input.repeat=1000")
    finite = cluster.job(cli.directory / "job.yaml", cli.directory / "finite", *sets, *whole)
    assert finite["model"]["sha256"] == summary["model"]["sha256"]
