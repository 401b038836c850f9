"""An outside reader of a transactional output sees each row once while workers die, and none that is taken back."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli, await_that

import riprap
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
ROWS = 12_000
TOPOLOGY = """\
job: copy
input: {path: numbers}
micro_batch: 200
stages:
  read: {operator: "numbered:Numbered", parallelism: 2}
  write: {operator: "%s", parallelism: 2, options: %s}
edges:
  - {from: read, to: write, partitioning: split}
fault_tolerance: {scheme: barrier, interval_ms: 40}
"""
NUMBERED = """\
import time

from riprap.operators.inputs.forward import Forward


class Numbered(Forward):
    def process_data(self, items, first, out):
        time.sleep(items.count / 1_400)
        return super().process_data(items, first, out)
"""
KILLS = ("read.0", "write.1", "write.0", "agent", "backup", "read.1", "controller")


def numbered(folder: Path, rows: int) -> None:
    """Shards whose items say which they are."""
    riprap.write_shards(folder, (np.arange(rows, dtype=float)[:, None], np.zeros(rows)), columns=["n"])


def files(folder: Path) -> list[int]:
    """The numbers in all files that a reader may look at."""
    return [
        int(float(line.partition(",")[2]))
        for path in folder.glob("part-*.csv")
        for line in path.read_text().splitlines()[1:]
    ]


def table(folder: Path) -> list[int]:
    if not (folder / "rows.db").exists():
        return []
    with sqlite3.connect(folder / "rows.db", timeout=30) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            return []
        return [int(number) for (number,) in connection.execute("SELECT n FROM rows")]


@pytest.mark.parametrize(
    ("operator", "options", "read"),
    [
        ("row_files:RowFiles", "{directory: rows, columns: 'label, n'}", lambda at: files(at / "rows")),
        ("sqlite_rows:SqliteRows", "{database: rows.db, columns: 'label, n'}", table),
    ],
    ids=["files", "sqlite"],
)
def test_a_reader_sees_each_row_once_and_nothing_is_taken_back(
    cli: Cli, operator: str, options: str, read: Callable[[Path], list[int]]
) -> None:
    numbered(cli.directory / "numbers", ROWS)
    (cli.directory / "numbered.py").write_text(NUMBERED)
    (cli.directory / "copy.yaml").write_text(TOPOLOGY % (operator, options))
    over, looks, wrong = threading.Event(), [], []

    def look() -> None:
        seen: set[int] = set()
        while not over.wait(0.05):
            now = read(cli.directory)
            there = set(now)
            if len(there) < len(now) or not seen <= there:
                twice = [number for number, times in Counter(now).items() if times > 1]
                wrong.append((twice[:5], sorted(seen - there)[:5]))
            seen = there
            looks.append(len(now))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        kills = [part for i, role in enumerate(KILLS) for part in ("--fault", f"kill:{role}@{10 * (i + 1)}%")]
        ended = cli.answer("run", "copy.yaml", "--out", "out", "--json", *kills)
    finally:
        over.set()
        reader.join()
    assert ended.returncode == 0, ended.stderr
    assert not wrong, wrong[:3]
    assert sorted(read(cli.directory)) == list(range(ROWS)), "all of the input, each row once"
    assert len(set(looks)) > 3, "rows came as the stream went on"
    assert not list((cli.directory / "rows/.staging").glob("*")), "nothing is left behind"
    summary = json.loads(ended.stdout)
    assert not summary["faults_not_injected"] and summary["checkpoints"]["completed"] > 5


def test_transactions_without_checkpoints_are_refused(cli: Cli) -> None:
    numbered(cli.directory / "numbers", 10)
    text = TOPOLOGY % ("row_files:RowFiles", "{directory: rows}")
    (cli.directory / "copy.yaml").write_text(text.replace("numbered:Numbered", "forward:Forward"))
    ended = cli.answer("run", "copy.yaml", "--out", "out", "--set", "fault_tolerance=mini_batch")
    assert ended.returncode == 2
    assert "is mini_batch, but stage write puts out transactions, which are committed with checkpoints" in ended.stderr
    assert "set it to barrier" in ended.stderr
    sets = ("--set", "fault_tolerance={scheme: barrier, guarantee: at_least_once, alignment: unaligned}")
    ended = cli.answer("run", "copy.yaml", *sets)
    assert ended.returncode == 2 and "is at_least_once, but stage write puts out transactions" in ended.stderr
    assert "is at_least_once, and alignment is unaligned" in ended.stderr


@pytest.mark.parametrize("kills", [("--fault", "kill:write.0@80%"), ()], ids=["killed", "undisturbed"])
def test_rows_are_seen_once_across_a_savepoint(cli: Cli, kills: tuple[str, ...]) -> None:
    """The job ends with it; what it had prepared and not committed yet the next one commits, and drops the rest."""
    numbered(cli.directory / "numbers", ROWS)
    (cli.directory / "numbered.py").write_text(NUMBERED)
    (cli.directory / "copy.yaml").write_text(
        TOPOLOGY % ("row_files:RowFiles", "{directory: rows, columns: 'label, n'}")
    )
    process = cli.start("run", "copy.yaml", "--out", "first")
    await_that(lambda: len(files(cli.directory / "rows")) > 0, 120, lambda: "nothing was committed")
    started = next(event for event in read_events(cli.directory / "first") if event["event"] == "cluster_started")
    made = cli.run("savepoint", "copy", "saved", "--stop", "--zookeeper", str(started["zookeeper"]))
    assert made.returncode == 0, made.stderr
    process.communicate(timeout=60)
    before = files(cli.directory / "rows")
    assert 0 < len(before) < ROWS
    ended = cli.answer("run", "copy.yaml", "--out", "second", "--from", "saved", *kills)
    assert ended.returncode == 0, ended.stderr
    assert sorted(files(cli.directory / "rows")) == list(range(ROWS)), "all of the input, each row once"
    assert not list((cli.directory / "rows/.staging").glob("*")), "nothing is left behind"
