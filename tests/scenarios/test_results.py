"""What jobs leave for people: `riprap show` after real runs, and files of windows that no killed worker doubles."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli
from shared_cluster import SharedCluster

LINES, REPEAT = 20_000, 12
RECENT = f"""\
job: recent
input: {{path: text.txt, repeat: {REPEAT}, rate: 120000}}
micro_batch: {LINES}
stages:
  split: {{operator: "word_count:SplitWords", parallelism: 2}}
  count: {{operator: "word_count:CountRecentWords", parallelism: 2, options: {{window: hopping}}}}
edges:
  - {{from: split, to: count, partitioning: full}}
fault_tolerance: {{scheme: mini_batch}}
output: {{path: ROWS, format: csv}}
"""
GREP = """\
job: grep
input: {path: text.txt}
micro_batch: 3000
stages:
  find: {operator: "grep:Grep", parallelism: 3, options: {pattern: "é.*9$"}}
  merge: {operator: "grep:MergeLines"}
edges:
  - {from: find, to: merge, partitioning: merge}
fault_tolerance: {scheme: none}
"""


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    directory = tmp_path_factory.mktemp("results")
    words = np.array(["café", "Café", "Ж", "plain", "é1", "word"])
    rows = np.random.default_rng(1).choice(words, (LINES, 6))
    text = "".join(f"{' '.join(row)} {number}\n" for number, row in enumerate(rows.tolist()))
    (directory / "text.txt").write_text(text)
    found = Cli(directory)
    yield found
    try:
        found.await_no_process()
    finally:
        found.kill_all()


Run = Callable[..., Path]


@pytest.fixture(scope="module")
def run(cli: Cli, cluster: SharedCluster) -> Run:
    """Runs a job to its end; its directory."""

    def to_its_end(name: str, topology: str, *more: str) -> Path:
        (cli.directory / f"{name}.yaml").write_text(topology)
        cluster.job(cli.directory / f"{name}.yaml", cli.directory / name, *more)
        return cli.directory / name

    return to_its_end


def test_files_of_windows_are_those_of_an_undisturbed_run(cli: Cli, run: Run) -> None:
    run("calm", RECENT.replace("ROWS", "rows-calm"), "--set", "input.rate=null")
    killed = [part for worker, at in (("count.0", 30), ("split.1", 50), ("count.1", 70)) for part in
              ("--fault", f"kill:{worker}@{at}%")]  # fmt: skip
    run("killed", RECENT.replace("ROWS", "rows-killed"), *killed)
    calm, disturbed = (
        {path.name: path.read_text() for path in (cli.directory / folder).iterdir()}
        for folder in ("rows-calm", "rows-killed")
    )
    assert len(calm) == 2 * REPEAT and sorted(calm) == sorted(
        f"words.{task}.{window}.csv" for task in (0, 1) for window in range(1, REPEAT + 1)
    )
    assert disturbed == calm
    summary = json.loads((cli.directory / "killed" / "summary.json").read_text())
    assert len(summary["failures"]) == 3
    shown = json.loads(cli.ask("show", "killed", "failures", "--json"))
    assert {row["worker"] for row in shown["rows"]} == {"count.0", "split.1", "count.1"}
    again = cli.answer("run", "killed.yaml", "--out", "again")
    assert again.returncode == 2 and "is there already" in again.stderr
    words = Counter(re.findall(r"\w+", (cli.directory / "text.txt").read_text().lower()))
    cli.ask("show", "killed", "recent_words", "--csv", "words.csv")
    with (cli.directory / "words.csv").open(newline="") as file:
        found = {row["word"]: int(row["count"]) for row in csv.DictReader(file)}
    assert found == words and next(iter(found)) == words.most_common(1)[0][0]


def test_grep_shows_the_lines_in_the_order_of_the_input(cli: Cli, run: Run) -> None:
    run("grep", GREP)
    lines = (cli.directory / "text.txt").read_text().splitlines()
    expected = [line for line in lines if re.search("é.*9$", line)]
    shown = json.loads(cli.ask("show", "grep", "--json"))
    assert shown["result"] == "lines" and shown["total"] == len(expected) > 1000
    assert [row["line"] for row in shown["rows"]] == expected
    screen = cli.ask("show", "grep", "--top", "2")
    assert expected[1] in screen and expected[2] not in screen and f"of {len(expected):,} rows" in screen
