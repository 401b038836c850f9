"""A disk that is full: each role says so, what was committed stays, and the job goes on once there is room."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_harness import SLOW_WORDS, UNTIL_HURRIED, WORD_COUNT, Cli, await_that, hurry, paced
from shared_cluster import SharedCluster

from riprap.codec.errors import RiprapError
from riprap.controller.zookeeper import EmbeddedZooKeeper
from riprap.operators.learning.estimators import save_model

sys.path.append(str(Path(__file__).parents[1]))
from full_disk import SmallDisk, small_disk

TRAIN = ("--set", "input.repeat=20")
EPOCHS = 200
PATIENCE = ("--set", "cluster.stall_timeout_s=10")
BRISKLY = paced(100_000)
"""For a file of epochs that needs more room within a moment."""
FORBIDDEN = re.compile(r"Traceback|should not happen|Exception|at org\.|at java\.|keeps dying|Correct that line")


@pytest.fixture
def disk(cli: Cli) -> Iterator[SmallDisk]:
    with small_disk(cli.directory / "disk", "20m") as made:
        yield made


def epochs(out: Path) -> list[int]:
    if not (out / "epochs.csv").exists():
        return []
    with (out / "epochs.csv").open() as file:
        return [int(row["epoch"]) for row in csv.DictReader(file) if row.get("committed_at")]


def check_said(error: str, folder: Path) -> None:
    """The error names the folder, and no file that is not there."""
    assert f"no space left in {folder}" in error, error
    assert not FORBIDDEN.search(error), error
    for named in re.findall(r"see (/\S+?)(?:[,;]|$)", error, re.MULTILINE):
        assert Path(named).exists(), named


def run_until_full(cli: Cli, disk: SmallDisk, *words: str) -> str:
    """A job that is under way when its disk is full; what it said at its end, with exit code 1."""
    process = cli.start("run", "job.yaml", "--out", str(disk.path / "out"), *PATIENCE, *UNTIL_HURRIED, *words)
    await_that(lambda: len(epochs(disk.path / "out")) > 5 or process.poll() is not None, 120, lambda: "no epoch")
    disk.fill()
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1, error
    cli.await_no_process()
    return error


def check_resumes(cli: Cli, disk: SmallDisk, expected_epochs: int) -> None:
    before = epochs(disk.path / "out")
    assert before == list(range(1, len(before) + 1))
    disk.make_room()
    hurry(cli.directory)
    resumed = cli.answer("run", "--resume", str(disk.path / "out"), "--json")
    assert resumed.returncode == 0, resumed.stderr
    summary = json.loads(resumed.stdout)
    assert summary["completed"] and summary["epochs"] == expected_epochs
    assert epochs(disk.path / "out") == list(range(1, expected_epochs + 1))
    cli.await_no_process()


def test_a_training_job_goes_on_once_there_is_room(cli: Cli, disk: SmallDisk, cluster: SharedCluster) -> None:
    undisturbed = cluster.job(cli.directory / "job.yaml", cli.directory / "whole", *TRAIN)
    check_said(run_until_full(cli, disk, *TRAIN), disk.path / "out")
    check_resumes(cli, disk, EPOCHS)
    again = json.loads((disk.path / "out/summary.json").read_text())
    assert again["model"]["sha256"] == undisturbed["model"]["sha256"]


def test_nothing_starts_on_a_full_disk_and_the_same_command_works_later(cli: Cli, disk: SmallDisk) -> None:
    disk.fill()
    words = ("run", "job.yaml", "--out", str(disk.path / "out"))
    refused = cli.answer(*words)
    assert refused.returncode == 1
    check_said(refused.stderr, disk.path)
    assert cli.processes() == []
    disk.make_room()
    ended = cli.answer(*words)
    assert ended.returncode == 0, ended.stderr
    cli.await_no_process()


def test_a_worker_alone_that_finds_no_room_is_named(cli: Cli, disk: SmallDisk) -> None:
    """ZooKeeper and backups are elsewhere, so what is full is full for a worker, and for the agent and controller."""
    with EmbeddedZooKeeper(cli.directory / "ensemble") as ensemble:
        elsewhere = ("--zookeeper", ensemble.connect_string, "--set", f"backup.storage={cli.directory / 'elsewhere'}")
        error = run_until_full(cli, disk, *TRAIN, *elsewhere, *BRISKLY)
    check_said(error, disk.path / "out")
    assert "sink.0: no space left" in error and "(epochs.csv)" in error
    check_resumes(cli, disk, EPOCHS)


@pytest.mark.parametrize(
    "scheme", ["upstream_backup", *(pytest.param(other, marks=pytest.mark.long) for other in ("approximate", "none"))]
)
def test_a_graph_of_dataflow_operators_goes_on_too(cli: Cli, disk: SmallDisk, scheme: str) -> None:
    (cli.directory / "text.txt").write_text("".join(f"w{i % 300} x{i % 7} y{i % 90}\n" for i in range(500)))
    repeat, window = 40, 500
    text = (WORD_COUNT % (repeat, window)).replace(
        'word_count:SplitWords"', 'slow_words:SlowSplit", options: {ascii: true}'
    )
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 1_000)
    (cli.directory / "job.yaml").write_text(text.replace("scheme: none", f"scheme: {scheme}"))
    process = cli.start("run", "job.yaml", "--out", str(disk.path / "out"), *PATIENCE)
    tables = [disk.path / f"out/epochs.{index}.csv" for index in range(2)]
    await_that(lambda: all(map(Path.exists, tables)) or process.poll() is not None, 120, lambda: "no window")
    disk.fill()
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    check_said(error, disk.path / "out")
    cli.await_no_process()
    disk.make_room()
    hurry(cli.directory)
    if scheme == "none":
        return  # what it computed is not kept, and the launcher says so
    resumed = cli.answer("run", "--resume", str(disk.path / "out"), "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["completed"]
    numbers = [[int(line.partition(",")[0]) for line in table.read_text().splitlines()[1:]] for table in tables]
    assert numbers == [list(range(1, repeat * 500 // window + 1))] * 2
    cli.await_no_process()


@pytest.mark.parametrize("recovers", [True, False])
def test_a_backup_server_alone_waits_for_room_and_else_is_named(cli: Cli, disk: SmallDisk, recovers: bool) -> None:
    words = ("run", "job.yaml", "--out", "out", "--set", f"backup.storage={disk.path}", *TRAIN, *PATIENCE)
    process = cli.start(*words, *UNTIL_HURRIED)
    log = cli.directory / "out/logs/backup.log"
    await_that(lambda: len(epochs(cli.directory / "out")) > 5, 120, lambda: "no epoch")
    disk.fill()
    await_that(lambda: "nothing can be written: " in log.read_text() or process.poll() is not None, 30, log.read_text)
    if recovers:
        disk.make_room()
        hurry(cli.directory)
    _, error = process.communicate(timeout=120)
    assert process.returncode == (0 if recovers else 1), error
    if not recovers:
        check_said(error, disk.path)
        disk.make_room()
        hurry(cli.directory)
        assert cli.answer("run", "--resume", "out").returncode == 0
    assert epochs(cli.directory / "out") == list(range(1, EPOCHS + 1))
    cli.await_no_process()


def test_the_embedded_zookeeper_is_named_in_words(cli: Cli, disk: SmallDisk) -> None:
    server = EmbeddedZooKeeper(disk.path / "data")
    with server:
        port = server.port
        assert port
    disk.fill()
    with pytest.raises(RiprapError) as raised:
        server.start()
    check_said(str(raised.value), disk.path / "data")
    disk.make_room()
    with server:
        assert server.port == port
    cli.await_no_process()


PREDICTIONS = """\
job: predictions
input: {path: shards, repeat: 30, limit: null}
micro_batch: 500
stages:
  source: {operator: "shard_source:ShardSource"}
  processor: {operator: "linear_prediction:LogisticRegression", parallelism: 3, options: {model: model.npz}}
  sink: {operator: "prediction:Predictions"}
edges:
  - {from: source, to: processor, partitioning: stripe}
  - {from: processor, to: sink, partitioning: merge}
fault_tolerance: {scheme: erasure, code: gf256, k: 2, r: 1}
"""


def test_rows_that_a_job_puts_out_are_whole_once_there_is_room(cli: Cli) -> None:
    save_model(cli.directory / "model.npz", {"coefficients": np.array([1.0, -2.0, 0.5]), "intercept": np.zeros(1)})
    (cli.directory / "job.yaml").write_text(PREDICTIONS)
    with small_disk(cli.directory / "disk", "60m") as disk:
        check_said(run_until_full(cli, disk), disk.path / "out")
        check_resumes(cli, disk, 300)  # 30 passes of 10 epochs
        rows = np.load(disk.path / "out/output.npy")
    assert len(rows) == 30 * 5000
    assert (rows.reshape(30, 5000, -1) == rows[:5000]).all(), "each pass over the input gives the same rows"


def test_prep_says_that_its_disk_is_full_and_leaves_nothing(cli: Cli, disk: SmallDisk) -> None:
    rows = cli.directory / "HIGGS.csv"
    assert cli.answer("prep", "synth", "higgs", str(rows), "--rows", "15000").returncode == 0
    shards = disk.path / "shards"
    disk.fill(leave_bytes=1 << 20)
    refused = cli.run("prep", "higgs", str(rows), "--out", str(shards))
    assert refused.returncode in (1, 2) and "disk is full" in refused.stderr, refused.stderr
    assert not FORBIDDEN.search(refused.stderr)
    again = cli.answer("prep", "synth", "higgs", str(disk.path / "raw.csv"), "--rows", "15000")
    assert again.returncode == 2
    check_said(again.stderr, disk.path)
    assert [path.name for path in disk.path.iterdir()] == [".ballast"]
