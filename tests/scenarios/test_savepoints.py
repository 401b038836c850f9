"""Savepoints: a job that runs is copied, and others begin from the copy, with other tasks and under other schemes."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_harness import SLOW_WORDS, WORD_COUNT, Cli, await_that, paced
from shared_cluster import SharedCluster

from riprap.controller.client import Client

sys.path.append(str(Path(__file__).parents[1]))
from full_disk import small_disk

TEXT = "the quick brown fox jumps over the lazy dog\nand runs to the river\n" * 1500
REPEAT, WINDOW = 40, 2000
BARRIER = ("--set", "fault_tolerance={scheme: barrier, interval_ms: 30}")
FED_BACK = "edges=[{from: split, to: count, partitioning: full}, {from: count, to: split, feedback: true}]"
SLOW = ("--set", "stages.split.operator=slow_words:SlowSplit")
TRUTH = {word: count * REPEAT for word, count in Counter(TEXT.split()).items()}


def write_words(directory: Path) -> None:
    (directory / "text.txt").write_text(TEXT)
    (directory / "words.yaml").write_text(WORD_COUNT % (REPEAT, WINDOW))
    (directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)


@pytest.fixture
def words(cli: Cli) -> Cli:
    write_words(cli.directory)
    return cli


@pytest.fixture(scope="module")
def saved(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory, with a savepoint of its job `words` in `saved`."""
    directory = tmp_path_factory.mktemp("words")
    write_words(directory)
    (cluster.directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)
    assert copy_and_cancel(cluster, directory / "words.yaml", directory / "first", *SLOW, *BARRIER)["checkpoint"]
    return directory


def copy_and_cancel(cluster: SharedCluster, file: Path, out: Path, *words: str) -> dict[str, object]:
    """Copy a job to `saved` beside its file when it is under way, and end it; what the savepoint says of itself."""
    name, saved = cluster.start(file, out, *words), file.parent / "saved"
    await_that(lambda: has_windows(out), 120, lambda: "nothing was committed")
    cluster.ask("savepoint", name, str(saved))
    again = Cli(file.parent).answer("savepoint", name, str(saved), "--zookeeper", cluster.zookeeper)
    assert again.returncode == 2, "it is not empty"
    cluster.ask("cancel", name)
    (line,) = (saved / "savepoint.json").read_text().splitlines()
    return dict(json.loads(line))


def has_windows(out: Path) -> bool:
    """True when some windows are committed."""
    return any(csv.read_bytes().count(b"\n") > 3 for csv in out.glob("epochs*.csv"))


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


@pytest.mark.parametrize(("tasks", "scheme"), [(3, "barrier"), (1, "mini_batch"), (2, "upstream_backup")])
def test_other_jobs_go_on_from_a_savepoint(saved: Path, cluster: SharedCluster, tasks: int, scheme: str) -> None:
    """With more and fewer tasks, under three schemes, and with kills: no word is lost, and none counted twice."""
    out = saved / f"out{tasks}"
    sets = ("--set", f"stages.count.parallelism={tasks}", "--set", f"fault_tolerance={scheme}")
    kills = ("--fault", "kill:count.0@50%", "--fault", "kill:split.1@65%")
    summary = cluster.job(saved / "words.yaml", out, "--from", "saved", *sets, *SLOW, *kills)
    assert {failure["worker"] for failure in summary["failures"]} >= {"count.0", "split.1"}, summary[
        "faults_not_injected"
    ]
    assert counted(out) == TRUTH
    lines = (out / ("epochs.0.csv" if tasks > 1 else "epochs.csv")).read_text().splitlines()[1:]
    epochs = [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]
    assert epochs[0] > 1 and epochs == list(range(epochs[0], summary["epochs"] + 1)), "it goes on"
    own = summary["items"] - summary["items_of_savepoint"]
    assert 0 < own < summary["items"] and summary["items_per_second"] == pytest.approx(own / summary["seconds"])


def test_a_savepoint_that_does_not_fit_is_refused_before_anything_starts(saved: Path) -> None:
    cli = Cli(saved)
    shutil.copytree(saved / "saved", saved / "torn")
    (saved / "torn" / "count.1.part").write_bytes(b"torn")
    for words, said in [
        (("saved", *BARRIER, "--set", "stages.split.parallelism=3"), "goes on where its tasks stood"),
        (
            ("saved", *BARRIER, "--set", "stages.count.operator=word_count:SplitWords"),
            "keeps no state, and that of the savepoint a",
        ),
        (("saved",), "begins from a savepoint"),
        (
            ("saved", "--set", "fault_tolerance={scheme: partially_active, checkpoint_s: null, replay_s: 1}"),
            "fault_tolerance.checkpoint_s: is null, and the job begins from a savepoint",
        ),
        (
            ("saved", "--set", "fault_tolerance=partially_active", "--set", FED_BACK),
            "fault_tolerance.scheme: is partially_active, and no savepoint says where the windows of feedback end",
        ),
        (("torn", *BARRIER), "count.1.part"),
        (("nowhere", *BARRIER), "holds no savepoint"),
    ]:
        refused = cli.answer("run", "words.yaml", "--from", *words)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    assert cli.processes() == []


def test_a_training_loop_goes_on_from_a_savepoint(cli: Cli, cluster: SharedCluster) -> None:
    """The model is that of the undisturbed run."""
    sets = ("--set", "input.repeat=20", "--set", "stages.processor.parallelism=3", *BARRIER)
    file, here = cli.directory / "job.yaml", cli.directory
    calm = cluster.job(file, here / "calm", *sets)
    copy_and_cancel(cluster, file, here / "first", *sets, *paced(13_000))
    ended = cluster.job(file, here / "out", "--from", "saved", *sets)
    assert ended["model"]["sha256"] == calm["model"]["sha256"]


def windows(run_dir: Path, sink: int) -> list[int]:
    lines = (run_dir / f"epochs.{sink}.csv").read_text().splitlines()[1:]
    return [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]


def test_a_job_is_rescaled_while_it_runs(words: Cli, cluster: SharedCluster) -> None:
    """Each window is announced once, by the tasks before or by those after."""
    (cluster.directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)
    first, second, there = words.directory / "first", words.directory / "second", ("--zookeeper", cluster.zookeeper)
    name = cluster.start(words.directory / "words.yaml", first, *SLOW, *BARRIER)
    await_that(lambda: has_windows(first), 120, lambda: "nothing was committed")
    refused = words.answer("rescale", name, "split=3", *there)
    assert refused.returncode == 2, "a source keeps its tasks, and nothing was stopped"
    words.ask("rescale", name, "count=3", "--out", "second", *there)
    with Client(cluster.zookeeper) as client:
        status = client.wait(name, 120)
    assert status["phase"] == "COMPLETED" and status["run_dir"] == str(second)
    assert counted(second) == TRUTH
    ends = {tuple(windows(first, sink)) for sink in range(2)}
    goes_on = {tuple(windows(second, sink)) for sink in range(3)}
    assert len(ends) == len(goes_on) == 1, "the tasks of a stage announce alike"
    last = len(TEXT.splitlines()) * REPEAT // WINDOW
    assert [*ends.pop(), *goes_on.pop()] == list(range(1, last + 1))


KEPT = Path(__file__).parents[1] / "regress" / "savepoints"


@pytest.mark.parametrize("version", sorted(path.name for path in KEPT.iterdir()))
def test_savepoints_of_earlier_versions_are_begun_from_for_ever(
    words: Cli, cluster: SharedCluster, version: str
) -> None:
    """One for each format there has been, of this page's words; it is never made anew."""
    sets, out = ("--set", "stages.count.parallelism=3", *BARRIER), words.directory / "out"
    cluster.job(words.directory / "words.yaml", out, "--from", str(KEPT / version), *sets)
    assert counted(out) == TRUTH


def test_a_savepoint_for_which_there_is_no_room_ends_no_job(words: Cli, cluster: SharedCluster) -> None:
    (cluster.directory / "slow_words.py").write_text(SLOW_WORDS % 20_000)
    out = words.directory / "out"
    with small_disk(words.directory / "disk", "1m") as disk:
        disk.fill()
        name = cluster.start(words.directory / "words.yaml", out, *SLOW, *BARRIER)
        await_that(lambda: has_windows(out), 120, lambda: "nothing was committed")
        saving = ("savepoint", name, "disk/saved", "--stop", "--zookeeper", cluster.zookeeper)
        refused = words.answer(*saving)
        assert refused.returncode == 2 and "could not write to" in refused.stderr, refused.stderr
        assert not (disk.path / "saved" / "savepoint.json").exists()
        with Client(cluster.zookeeper) as client:
            assert client.status(name)["phase"] == "RUNNING"
        cluster.ask("cancel", name)
