"""`riprap tune` on a small stream, with real kills; and what it refuses before anything is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Cli

from riprap.configs.loading import load

TOPOLOGY = """\
job: words
input: {path: text.txt, repeat: 2400, rate: 6000000}
micro_batch: 200000
seed: 5
stages:
  split: {operator: "word_count:SplitWords"}
  count: {operator: "word_count:CountWords"}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: approximate, theta: 500, l: 100, gamma: 100}
"""

LINES = 5000
ROLES = (
    "stages={source: {operator: 'synthetic:Classification'}, processor: {operator: 'svm:Gradient'},"
    " sink: {operator: 'svm:Model'}}",
    "--set",
    "edges=[{from: source, to: processor, partitioning: stripe}, {from: processor, to: sink, partitioning: merge}]",
)
"""Turns the job into one of Source, Processor and Sink."""


@pytest.fixture
def words(cli: Cli) -> Iterator[Path]:
    """A topology over a text of a thousand different words."""
    lines = (f"common {chr(97 + n % 26) * (n % 11 + 1)} {chr(97 + n % 7)}" for n in range(LINES))
    (cli.directory / "text.txt").write_text("\n".join(lines) + "\n")
    path = cli.directory / "words.yaml"
    path.write_text(TOPOLOGY)
    yield path


def test_thresholds_are_proposed_from_pilots_with_kills(cli: Cli, words: Path) -> None:
    arguments = ("--accuracy", "0.05", "--failures", "1", "--pilots", "2", "--pilot-items", "6000000", "--out", "tuned")
    ended = cli.answer("tune", "words.yaml", "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    tuned, folder = json.loads(ended.stdout), cli.directory / "tuned"
    assert tuned == json.loads((folder / "tune.json").read_text())
    assert tuned["pilot_items"] == 6_000_000 and tuned["items"] == LINES * 2400
    assert 1 <= len(tuned["measured"]) <= 2 and tuned["measured"][0]["theta"] == 500
    assert all(one["failures"] == 1 and one["items_per_second"] > 0 for one in [tuned["none"], *tuned["measured"]])
    # Theta of 500 in 18,000,000 words: the bound is far below what is asked for.
    assert tuned["measured"][0]["loss"] <= 0.05 and tuned["chosen"] in tuned["measured"]
    assert tuned["none"]["loss"] > 0.05, "without protection the killed destination loses its totals"
    assert tuned["growth"] == pytest.approx(1.0, abs=0.01), "counts grow as the stream does"
    assert tuned["proposal"]["gamma"] == 100 and "gamma acts nowhere" in ended.stderr, "only the source puts out"
    scaled = {name: 2.0 * tuned["chosen"][name] for name in ("theta", "l")}
    assert all(0.9 * value <= tuned["proposal"][name] <= value * 1.0001 for name, value in scaled.items())
    words.write_text(TOPOLOGY.replace(TOPOLOGY.splitlines()[-1], tuned["line"]))
    pasted = load(words, [f"input.path={cli.directory / 'text.txt'}"])
    assert {name: pasted.fault_tolerance[name] for name in tuned["proposal"]} == tuned["proposal"]
    pilots = {path.name for path in folder.iterdir()}
    assert {"undisturbed", "none", "half", "pilot-1"} <= pilots
    undisturbed = json.loads((folder / "undisturbed" / "summary.json").read_text())
    assert undisturbed["scheme"] == "none" and undisturbed["items"] == 6_000_000 and not undisturbed["failures"]
    cli.await_no_process()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "fault_tolerance.scheme=mini_batch"], "has the scheme mini_batch, which has no thresholds to tune"),
        (
            ["--set", "stages.split.operator=gradient:LocalGradient"],
            "no threshold acts on job words",
        ),
        (
            ["--set", *ROLES],
            "job words is of Source, Processor and Sink, and pilots are of DataflowOperators alone",
        ),
        (["--set", "backup.servers=0"], "--set backup.servers=0: backup.servers: is 0"),
        (["--pilot-items", "400000"], "a pilot of 400,000 items has 2 windows, too few for 4 failures"),
        (["--set", "fault_tolerance.theta=-1"], "fault_tolerance.theta: is -1"),
        (["--accuracy", "1.5"], "1.5 is not in the range"),
        (["--out", "."], "the directory is not empty"),
    ],
)
def test_what_cannot_be_tuned_is_refused_and_nothing_is_started(
    cli: Cli, words: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    before = sorted(cli.directory.iterdir())
    assert cli.call("tune", "words.yaml", "--accuracy", "0.01", *arguments) == 2
    assert said in capfd.readouterr().err
    assert cli.processes() == [] and sorted(cli.directory.iterdir()) == before
