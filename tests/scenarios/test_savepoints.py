"""Savepoints: a job that runs is copied, and others begin from the copy, with other tasks and under other schemes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_harness import SLOW_WORDS, WORD_COUNT, Cli, await_that, paced

from riprap.controller.client import Client
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
TEXT = "the quick brown fox jumps over the lazy dog\nand runs to the river\n" * 1500
REPEAT, WINDOW = 40, 2000
BARRIER = ("--set", "fault_tolerance={scheme: barrier, interval_ms: 30}")
TRUTH = {word: count * REPEAT for word, count in Counter(TEXT.split()).items()}


@pytest.fixture
def words(cli: Cli) -> Cli:
    (cli.directory / "text.txt").write_text(TEXT)
    (cli.directory / "words.yaml").write_text(WORD_COUNT % (REPEAT, WINDOW))
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)
    return cli


def counted(run_dir: Path) -> dict[str, int]:
    """The words of all tasks; none is in two."""
    found: dict[str, int] = {}
    for path in sorted(run_dir.glob("model*.npz")):
        model = np.load(path)
        text, ends = model["words"].tobytes(), model["offsets"].tolist()
        words = [text[a:b].decode() for a, b in pairwise(ends)]
        assert not found.keys() & set(words)
        found |= dict(zip(words, model["counts"].tolist(), strict=True))
    return found


def savepoint_of(words: Cli, directory: str) -> dict[str, object]:
    """Run the job slowly, copy it when it is under way, and end it."""
    slow = ("--set", "stages.split.operator=slow_words:SlowSplit")
    process = words.start("run", "words.yaml", "--out", "first", *slow, *BARRIER)
    out = words.directory / "first"
    csv = out / "epochs.0.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 3, 120, lambda: "nothing was committed")
    zookeeper = str(next(event for event in read_events(out) if event["event"] == "cluster_started")["zookeeper"])
    made = words.run("savepoint", "words", directory, "--zookeeper", zookeeper)
    assert made.returncode == 0, made.stderr
    assert words.run("savepoint", "words", directory, "--zookeeper", zookeeper).returncode == 2, "it is not empty"
    words.run("cancel", "words", "--zookeeper", zookeeper)
    process.communicate(timeout=60)
    (line,) = (words.directory / directory / "savepoint.json").read_text().splitlines()
    return dict(json.loads(line))


def test_other_jobs_go_on_from_a_savepoint(words: Cli) -> None:
    """With more and fewer tasks, under three schemes, and with kills: no word is lost, and none counted twice."""
    assert savepoint_of(words, "saved")["checkpoint"]
    begin = ("run", "words.yaml", "--from", "saved", "--json")
    for number, (tasks, scheme) in enumerate([(3, "barrier"), (1, "mini_batch"), (2, "upstream_backup")]):
        out = f"out{number}"
        sets = ("--set", f"stages.count.parallelism={tasks}", "--set", f"fault_tolerance={scheme}")
        kills = ("--fault", "kill:count.0@70%", "--fault", "kill:split.1@85%")
        slow = ("--set", "stages.split.operator=slow_words:SlowSplit")
        ended = words.run(*begin, "--out", out, *sets, *slow, *kills)
        assert ended.returncode == 0, ended.stderr
        summary = json.loads(ended.stdout)
        assert {failure["worker"] for failure in summary["failures"]} >= {"count.0", "split.1"}
        assert counted(words.directory / out) == TRUTH, scheme
        name = "epochs.0.csv" if tasks > 1 else "epochs.csv"
        lines = (words.directory / out / name).read_text().splitlines()[1:]
        epochs = [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]
        assert epochs[0] > 1 and epochs == list(range(epochs[0], summary["epochs"] + 1)), "it goes on"
    words.await_no_process()


def test_a_savepoint_that_does_not_fit_is_refused_before_anything_starts(words: Cli) -> None:
    savepoint_of(words, "saved")
    begin = ("run", "words.yaml", "--from", "saved", *BARRIER)
    for change, said in {
        "stages.split.parallelism=3": "goes on where its tasks stood",
        "stages.count.operator=word_count:SplitWords": "keeps no state, and that of the savepoint a",
    }.items():
        refused = words.run(*begin, "--set", change)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    refused = words.run("run", "words.yaml", "--from", "saved")
    assert refused.returncode == 2 and "begins from a savepoint" in refused.stderr, refused.stderr
    (words.directory / "saved" / "count.1.part").write_bytes(b"torn")
    refused = words.run(*begin)
    assert refused.returncode == 2 and "count.1.part" in refused.stderr
    refused = words.run("run", "words.yaml", "--from", "nowhere", *BARRIER)
    assert refused.returncode == 2 and "holds no savepoint" in refused.stderr


def test_a_training_loop_goes_on_from_a_savepoint(cli: Cli) -> None:
    """The model is that of the undisturbed run."""
    sets = ("--set", "input.repeat=60", "--set", "stages.processor.parallelism=3", *BARRIER)
    calm = cli.run("run", "job.yaml", "--out", "calm", "--json", *sets)
    assert calm.returncode == 0, calm.stderr
    process = cli.start("run", "job.yaml", "--out", "first", *sets, *paced(40_000))
    out = cli.directory / "first"
    csv = out / "epochs.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 3, 120, lambda: "nothing was committed")
    zookeeper = str(next(event for event in read_events(out) if event["event"] == "cluster_started")["zookeeper"])
    made = cli.run("savepoint", "trial", "saved", "--zookeeper", zookeeper)
    assert made.returncode == 0, made.stderr
    cli.run("cancel", "trial", "--zookeeper", zookeeper)
    process.communicate(timeout=60)
    ended = cli.run("run", "job.yaml", "--out", "out", "--from", "saved", "--json", *sets)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["model"]["sha256"] == json.loads(calm.stdout)["model"]["sha256"]


def windows(run_dir: Path, sink: int) -> list[int]:
    lines = (run_dir / f"epochs.{sink}.csv").read_text().splitlines()[1:]
    return [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]


def test_a_job_is_rescaled_while_it_runs(words: Cli) -> None:
    """Each window is announced once, by the tasks before or by those after."""
    zookeeper = json.loads(words.ask("up", "--standby", "0", "--json"))["zookeeper"]
    slow = ("--set", "stages.split.operator=slow_words:SlowSplit")
    words.ask("submit", "words.yaml", "--out", "first", *slow, *BARRIER)
    csv = words.directory / "first" / "epochs.0.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 3, 120, lambda: "nothing was committed")
    assert words.run("rescale", "words", "split=3").returncode == 2, "a source keeps its tasks, and nothing was stopped"
    words.ask("rescale", "words", "count=3", "--out", "second")
    with Client(zookeeper) as client:
        status = client.wait("words", 120)
    first, second = words.directory / "first", words.directory / "second"
    assert status["phase"] == "COMPLETED" and status["run_dir"] == str(second)
    assert counted(second) == TRUTH
    ends = {tuple(windows(first, sink)) for sink in range(2)}
    goes_on = {tuple(windows(second, sink)) for sink in range(3)}
    assert len(ends) == len(goes_on) == 1, "the tasks of a stage announce alike"
    last = len(TEXT.splitlines()) * REPEAT // WINDOW
    assert [*ends.pop(), *goes_on.pop()] == list(range(1, last + 1))
    words.ask("down")
    words.await_no_process()


KEPT = Path(__file__).parents[1] / "regress" / "savepoints"


@pytest.mark.parametrize("version", sorted(path.name for path in KEPT.iterdir()))
def test_savepoints_of_earlier_versions_are_begun_from_for_ever(words: Cli, version: str) -> None:
    """One for each format there has been, of this page's words; it is never made anew."""
    sets = ("--set", "stages.count.parallelism=3", *BARRIER)
    ended = words.run("run", "words.yaml", "--from", str(KEPT / version), "--out", "out", "--json", *sets)
    assert ended.returncode == 0, ended.stderr
    assert counted(words.directory / "out") == TRUTH
