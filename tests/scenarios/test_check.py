"""`riprap check`: sound operators pass, complaints come all at once with the user's lines, and a debugger works."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cli_harness import WORD_COUNT, Cli, write_topology

MINE = """\
import os

import numpy as np

from riprap.operators.learning.logistic_regression import Gradient as Sound
from riprap.operators.learning.logistic_regression import Model as SoundModel
from riprap.operators.inputs.shard_source import ShardSource


class Restless(ShardSource):
    def read(self, start, stop):
        return np.random.permutation(super().read(start, stop))


class Gradient(Sound):
    def process_data(self, items):
        self.last = items
        return super().process_data(items)


class Model(SoundModel):
    def snapshot(self):
        return None


class Halting(Sound):
    def process_data(self, items):
        if not os.path.exists("halted"):
            open("halted", "w").close()
            breakpoint()
        return super().process_data(items)


class Closed(Sound):
    def open(self, context):
        raise PermissionError("not today")
"""
OWN = ("--set", "stages.source.operator=mine:Restless", "--set", "stages.sink={operator: mine:Model}")


@pytest.fixture
def own(cli: Cli) -> Cli:
    """A directory with operators of the user's own."""
    (cli.directory / "mine.py").write_text(MINE)
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    return cli


def test_a_sound_topology_has_nothing_to_complain_about(cli: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.call("check", "job.yaml", "--items", "2000") == 0
    said = capfd.readouterr().out
    assert said.startswith("trial: trying 2,000 of 5,000 items\nok         source: ")
    assert "\n0 complaints, " in said and "\nnot checked: processor: process_linear is linear" in said
    assert not (cli.directory / "runs").exists() and cli.processes() == []


def test_all_complaints_come_at_once_with_their_lines(own: Cli) -> None:
    ended = own.run("check", "job.yaml", *OWN)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.count("COMPLAINT") == 3 and "\n3 complaints, " in ended.stdout
    for said, line in (
        ("Restless.read returned other rows the second time", 11),
        ("Gradient.process_data kept its items", 16),
        ("Model.snapshot returned None; expected a dictionary of arrays", 22),
    ):
        (found,) = [text for text in ended.stdout.splitlines() if said in text]
        assert found.endswith(f"({own.directory}/mine.py:{line})")
    assert "Traceback" not in ended.stderr and "riprap/" not in ended.stdout


def test_scripts_read_the_same(own: Cli) -> None:
    ended = own.run("check", "job.yaml", *OWN, "--json")
    said = json.loads(ended.stdout)
    assert ended.returncode == 1 and said["complaints"] == 3 and said["items"] == 5000
    broken = {check["stage"]: check["complaint"] for check in said["checks"] if check["complaint"]}
    assert broken["sink"]["method"] == "Model.snapshot" and broken["sink"]["place"].endswith("mine.py:22")
    assert all(check["ok"] or check["complaint"] or check["not_tried"] for check in said["checks"])
    assert any("another" not in line for line in said["not_checked"])


def test_dataflow_operators_are_checked_too(cli: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    (cli.directory / "text.txt").write_text("the whale and the sea\n" * 400)
    (cli.directory / "words.yaml").write_text(WORD_COUNT % (1, 100))
    assert cli.call("check", "words.yaml", "--items", "300") == 0
    said = capfd.readouterr().out
    assert "ok         count: backups are copies" in said and "ok         split: prepare leaves no trace" in said
    assert "count: a restored operator goes on as before (the scheme saves no states)" in said


@pytest.mark.parametrize(
    ("job", "more"),
    [("job.yaml", "repeat=forever"), ("words.yaml", "repeat=forever"), ("words.yaml", "follow=true")],
    ids=["of three roles", "of a dataflow", "followed"],
)
def test_a_stream_without_end_is_tried_at_its_beginning(
    cli: Cli, job: str, more: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (cli.directory / "text.txt").write_text("the whale and the sea\n" * 400)
    (cli.directory / "words.yaml").write_text((WORD_COUNT % (1, 100)).replace("parallelism: 2", "parallelism: 1"))
    live = ("--set", "fault_tolerance.scheme=mini_batch") if "follow" in more else ()
    assert cli.call("check", job, "--items", "300", "--set", f"input.{more}", *live) == 0, capfd.readouterr().err
    said = capfd.readouterr().out
    assert ": trying 300 items of a stream without end\n" in said and "\n0 complaints, " in said


def test_lines_that_come_from_a_server_are_not_there_to_be_tried_on(cli: Cli) -> None:
    (cli.directory / "text.txt").write_text("the whale and the sea\n" * 400)
    (cli.directory / "words.yaml").write_text((WORD_COUNT % (1, 100)).replace("parallelism: 2", "parallelism: 1"))
    live = ("--set", "input.path=tcp://127.0.0.1:9", "--set", "fault_tolerance.scheme=mini_batch")
    ended = cli.answer("check", "words.yaml", *live)
    assert ended.returncode == 2 and "as it comes" in ended.stderr and "manifest" not in ended.stderr
    assert cli.call("check", "words.yaml", *live, "--set", "input={path: text.txt}") == 0, "as the remedy says"


def test_what_is_wrong_before_anything_is_tried(own: Cli) -> None:
    ended = own.run("check", "job.yaml", "--set", "stages.processor.operator=mine:Closed")
    assert ended.returncode == 2
    assert "PermissionError: not today" in ended.stderr and "mine.py:36" in ended.stderr and "remedy: " in ended.stderr
    ended = own.run("check", "job.yaml", "--set", "fault_tolerance.k=3")
    assert ended.returncode == 2 and "at least k + r = 4 tasks" in ended.stderr


@pytest.mark.parametrize(("typed", "code"), [("p 6 * 7\nc\n", 0), ("q\n", 130)], ids=["go on", "leave"])
def test_a_breakpoint_stops_in_the_operator(own: Cli, typed: str, code: int) -> None:
    command = [sys.executable, "-P", "-m", "riprap.engine.cli.main", "check", "job.yaml", "--items", "300"]
    ended = subprocess.run(
        [*command, "--set", "stages.processor.operator=mine:Halting"],
        cwd=own.directory, env=own.environment, input=typed, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert "mine.py(" in ended.stdout and "(Pdb)" in ended.stdout
    assert ("42" in ended.stdout and "0 complaints" in ended.stdout) if code == 0 else "interrupted" in ended.stderr
    assert "Traceback" not in ended.stderr
