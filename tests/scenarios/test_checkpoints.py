"""Jobs under barriers, with real processes: whoever is killed, the result is that of the undisturbed run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_harness import SLOW_WORDS, WORD_COUNT, Cli, await_that, hurry, paced
from shared_cluster import SharedCluster

from riprap.engine.run_directory.checkpoints import read_checkpoints
from riprap.engine.run_directory.directory import read_events
from riprap.engine.schemes.barrier import Barrier

SHARED_ENSEMBLE = True
TEXT = "the quick brown fox jumps over the lazy dog\nand runs to the river\n" * 300
OFTEN = ("--set", "fault_tolerance.interval_ms=30", "--json")
ROLES = ("split.0", "split.1", "count.0", "count.1", "controller", "agent", "backup")
SLOW_MODEL = """\
import time

from riprap.operators.learning.logistic_regression import Model


class Slow(Model):
    def commit(self, epoch):
        time.sleep(0.05)
        return super().commit(epoch)
"""


@pytest.fixture
def words(cli: Cli) -> Cli:
    """A cluster's user with a word count and its text."""
    (cli.directory / "text.txt").write_text(TEXT)
    (cli.directory / "words.yaml").write_text(WORD_COUNT % (40, 400))
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 4_000)
    slow = (WORD_COUNT % (40, 400)).replace("word_count:SplitWords", "slow_words:SlowSplit")
    (cli.directory / "slow.yaml").write_text(slow)
    return cli


@pytest.fixture(scope="module")
def calm(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The summary of the undisturbed word count."""
    directory = tmp_path_factory.mktemp("calm")
    (directory / "text.txt").write_text(TEXT)
    (directory / "words.yaml").write_text(WORD_COUNT % (40, 400))
    return cluster.job(directory / "words.yaml", directory / "calm")


def digests(summary: dict[str, Any]) -> dict[str, str]:
    return {name: model["sha256"] for name, model in summary["model"]["all"].items()}


def announced_once(run_dir: Path, epochs: int) -> None:
    """Each window is announced by each destination once, in order."""
    for path in run_dir.glob("epochs.*.csv"):
        lines = path.read_text().splitlines()[1:]
        assert [int(line.partition(",")[0]) for line in lines] == list(range(1, epochs + 1)), path


@pytest.mark.parametrize(
    "scheme",
    [pytest.param("barrier", marks=pytest.mark.long), "{scheme: barrier, alignment: unaligned}", "stop_the_world"],
)
def test_words_are_counted_once_whoever_dies(words: Cli, calm: dict[str, Any], scheme: str) -> None:
    kills = [part for i, role in enumerate(ROLES) for part in ("--fault", f"kill:{role}@{10 * (i + 1)}%")]
    ended = words.answer("run", "slow.yaml", "--out", "out", "--set", f"fault_tolerance={scheme}", *OFTEN, *kills)
    assert ended.returncode == 0, ended.stderr
    summary, out = json.loads(ended.stdout), words.directory / "out"
    assert summary["completed"] and not summary["faults_not_injected"], summary["faults_not_injected"]
    assert digests(summary) == digests(calm) and summary["items"] == calm["items"]
    announced_once(out, summary["epochs"])
    events = list(read_events(out))
    rolled = [event["epoch"] for event in events if event["event"] == "rolled_back"]
    assert rolled and max(rolled) > 0, "survivors went on from a checkpoint"
    assert summary["rollbacks"] == max(event["round"] for event in events if event["event"] == "rollback") > 0
    assert summary["checkpoints"]["completed"] > 3 and summary["checkpoints"]["bytes"] > 0
    table = words.ask("checkpoints", "out", "--json")
    assert len(json.loads(table)) == summary["checkpoints"]["completed"] + summary["checkpoints"]["aborted"]
    assert "aligned" in words.ask("checkpoints", "out")
    words.await_no_process()


@pytest.mark.parametrize("alignment", ["aligned", "unaligned"])
def test_a_model_is_the_undisturbed_one_after_kills_around_its_loop(
    cli: Cli, cluster: SharedCluster, alignment: str
) -> None:
    """Feedback closes a cycle: what is on its way back when the line is drawn is saved with the processors' state."""
    sets = ("--set", "input.repeat=10", "--set", "stages.processor.parallelism=3")
    sets += ("--set", f"fault_tolerance={{scheme: barrier, alignment: {alignment}, interval_ms: 30}}")
    calm = cluster.job(cli.directory / "job.yaml", cli.directory / "calm", *sets)
    kills = ("--fault", "kill:processor.1@20%", "--fault", "kill:sink.0@40%", "--fault", "kill:source.0@60%")
    summary = cluster.job(cli.directory / "job.yaml", cli.directory / "out", *sets, *paced(20_000), *kills)
    assert len(summary["failures"]) == 3 and summary["model"]["sha256"] == calm["model"]["sha256"]
    lines = (cli.directory / "out/epochs.csv").read_text().splitlines()[1:]
    assert [int(line.partition(",")[0]) for line in lines] == list(range(1, summary["epochs"] + 1))


def test_what_a_checkpoint_finds_on_its_way_is_bounded(cli: Cli, cluster: SharedCluster) -> None:
    """Sources of a BSP loop run ahead of it, and blocks that wait for their model are part of a checkpoint."""
    for directory in (cli.directory, cluster.directory):
        (directory / "slow_model.py").write_text(SLOW_MODEL)
    sets = ("--set", 'stages.sink={operator: "slow_model:Slow", options: {learning_rate: 0.5}}')
    sets += ("--set", "input.repeat=1000", "--set", "micro_batch=100000", "--set", "links.block_bytes=8388608")
    sets += ("--set", "fault_tolerance={scheme: barrier, interval_ms: 100}")
    cluster.job(cli.directory / "job.yaml", cli.directory / "out", *sets)
    block = 4 * 8 * 100_000 // 3
    made = [one.nbytes for one in read_checkpoints(cli.directory / "out") if one.nbytes]
    assert made and max(made) < 3 * (Barrier.window.nbytes + 2 * block), made


def test_an_outside_reader_sees_nothing_that_is_taken_back(words: Cli, calm: dict[str, Any]) -> None:
    """What was announced before all die at once stands, and is covered by the last whole checkpoint."""
    run = words.start("run", "slow.yaml", "--out", "out", "--set", "fault_tolerance=barrier", *OFTEN)
    out = words.directory / "out"
    await_that(lambda: len(lines_of(out)) > 5, 60.0, lambda: "no window was announced")
    words.kill_all()
    run.communicate()
    words.await_no_process()
    seen = {path.name: path.read_text() for path in out.glob("epochs.*.csv")}
    assert seen and all(len(text.splitlines()) > 1 for text in seen.values())
    hurry(words.directory)
    ended = words.answer("run", "--resume", "out", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert all((out / name).read_text().startswith(text.rpartition("\n")[0]) for name, text in seen.items())
    announced_once(out, summary["epochs"])
    assert digests(summary) == digests(calm)
    numbers = [one.number for one in read_checkpoints(out)]
    assert numbers == sorted(set(numbers)), "a number means one checkpoint"


def lines_of(run_dir: Path) -> list[str]:
    """The announced windows, as far as there are any."""
    return [line for path in run_dir.glob("epochs.*.csv") for line in path.read_text().splitlines()[1:]]
