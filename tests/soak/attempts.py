"""Runs a job through the attempts of a schedule of faults, and checks how it ends and what it leaves behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from soaking import Wrong
from watched import DEADLINE_S, Cli, Watched

from riprap.engine.run.losses import sentences
from riprap.engine.run_directory.directory import read_events


class Attempted(Protocol):
    """A schedule: per start of the launcher, its faults, and the epoch at which it is killed (None: it lives)."""

    @property
    def attempts(self) -> list[tuple[list[str], int | None]]: ...


class Trial(Watched):
    """One schedule, in a run directory of its own, with a job name that no other job on this machine has.

    `topology` has JOB where the name of the job belongs; `words` are further ones of each attempt's command.
    """

    def __init__(self, directory: Path, schedule: Attempted, topology: str, words: Sequence[str] = ()) -> None:
        cli = Cli(directory)
        super().__init__(cli, directory / f"soak-{cli.mark[:12]}")
        self.schedule, self.words = schedule, words
        self.file = directory / f"{self.job}.yaml"
        self.file.write_text(topology.replace("JOB", self.job))

    def check(self, summary: dict[str, Any]) -> None:
        """Wrong unless the results are as they must be; the job has completed, and lost nothing."""

    def meanwhile(self, launcher: subprocess.Popen[str], number: int) -> None:
        """Begin what else is done while an attempt runs, counted from 0; not waited for."""

    def run(self) -> dict[str, Any]:
        """Run all attempts, check all; the summary, with how many faults were `injected`.

        The run directory goes when all is well.
        """
        try:
            summary = self._attempts()
            self.expect((summary["completed"], list(sentences(summary["lost"]))), (True, []), "completed, and losses")
            self.check(summary)
            self.check_traces()
            summary["injected"] = sum(event["event"] == "fault_injected" for event in read_events(self.out))
        finally:
            self.cli.kill_all()
        shutil.rmtree(self.out)
        self.file.unlink()
        return summary

    def _attempts(self) -> dict[str, Any]:
        out = ""
        for number, (faults, killed_at) in enumerate(self.schedule.attempts):
            words = ["--resume", str(self.out)] if number else [str(self.file), "--out", str(self.out)]
            words += [*self.words, *(word for fault in faults for word in ("--fault", fault))]
            launcher = self.cli.start("run", "--json", *words)
            self.meanwhile(launcher, number)
            if killed_at is not None:
                self._kill(launcher, number, killed_at)
            out, err = self._output(launcher)
            if killed_at is None and launcher.returncode:
                raise Wrong(f"exit code {launcher.returncode}: {err[-1500:]}")
        summary: dict[str, Any] = json.loads(out)
        return summary

    def _kill(self, launcher: subprocess.Popen[str], number: int, epoch: int) -> None:
        """SIGKILL the launcher of an attempt at its epoch, if it gets there; everything that it started goes with it.

        Where the one before came further than that, it is killed as soon as it has begun.
        """
        self.wait(lambda: self.is_at(number, epoch) or launcher.poll() is not None, "the launcher's end")
        launcher.kill()
        self.wait(lambda: not self.cli.processes(), "the end of what a killed launcher had started")

    def _output(self, launcher: subprocess.Popen[str]) -> tuple[str, str]:
        try:
            return launcher.communicate(timeout=max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            launcher.kill()
            err = launcher.communicate()[1]
            raise Wrong(f"it hung; after {DEADLINE_S:.0f} s it said: {err[-1500:]}") from None

    def is_at(self, number: int, epoch: int) -> bool:
        """Whether an attempt, counted from 0, has begun, and so many epochs are committed."""
        begun, rows = _lines(self.out / "attempts.jsonl"), _lines(self.out / "epochs.csv")
        return begun > number and rows > epoch


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
