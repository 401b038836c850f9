"""A `riprap run` keeps the keys with which it began, whatever becomes of its user's folder meanwhile."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry

from riprap.codec.trust.keys import FOLDER_VARIABLE, Authority
from riprap.codec.trust.rotation import keep_next, promote

NEW = b"n" * 32
EPOCHS = 300
LENGTH = ("--set", f"input.repeat={EPOCHS // 10}", *UNTIL_HURRIED)


class Running(NamedTuple):
    """A run, and where."""

    cli: Cli
    process: subprocess.Popen[str]

    def ended(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=120)
        return self.process.returncode, err

    def hurry(self) -> None:
        hurry(self.cli.directory)

    def summary(self) -> dict[str, object]:
        return dict(json.loads((self.cli.directory / "out/summary.json").read_text()))


@pytest.fixture
def stall_s() -> float:
    """The job's stall deadline: far beyond the time that services take to be given up, also on busy cores."""
    return 60


@pytest.fixture
def running(cli: Cli, stall_s: float) -> Iterator[Running]:
    """A run in its middle, in a folder whose secret has just been replaced."""
    folder = cli.directory / "keys"
    cli.environment[FOLDER_VARIABLE] = str(folder)
    process = cli.start("run", "job.yaml", "--out", "out", *LENGTH, "--set", f"cluster.stall_timeout_s={stall_s}")
    epochs = cli.directory / "out/epochs.csv"
    await_that(lambda: epochs.exists() and epochs.read_bytes().count(b"\n") > 5, 120, lambda: str(process.poll()))
    keep_next(NEW, folder)
    assert promote(Authority(NEW).id, folder)
    yield Running(cli, process)
    cli.await_no_process()


def test_it_goes_on_to_its_end(running: Running) -> None:
    running.hurry()
    assert running.ended()[0] == 0 and running.summary()["completed"]


REASONS = {
    "controller": ("the controller keeps dying", "no controller leads"),
    "backup": ("no backup server has confirmed",),
    "agent": ("the agent keeps dying", "no agent is there"),
}
"""Which of several comes first depends on how long a service takes to start and die again."""


@pytest.mark.parametrize(
    ("service", "stall_s"),
    [
        ("controller", 60),
        pytest.param("agent", 60, marks=pytest.mark.long),
        pytest.param("backup", 5, marks=pytest.mark.long),  # so long do workers wait for its word
    ],
    ids=REASONS,
)
def test_one_of_its_services_that_dies_ends_it_and_it_is_resumed_with_the_new_keys(
    running: Running, service: str
) -> None:
    family = running.cli.pids_of(service)
    os.kill(min(family), signal.SIGKILL)  # the others are its forks
    code, said = running.ended()
    assert code == 1 and "go on where it ended with: riprap run --resume" in said, said
    assert any(reason in said for reason in REASONS[service]), said
    running.hurry()
    words = shlex.split(said.partition("go on where it ended with: riprap ")[2].splitlines()[0])
    resumed = running.cli.run(*words)
    assert resumed.returncode == 0, resumed.stderr
    assert running.summary()["completed"] and running.summary()["items"] == EPOCHS * 500
