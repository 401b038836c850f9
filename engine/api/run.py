"""The handle of a job that runs: its progress, its commits, and orders to it.

run = job.start()
for epoch in run:
    print(epoch.items, run.metrics)
summary = run.wait()
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError, JobFailed, RiprapError
from riprap.controller import channel
from riprap.controller.messages import Message, sayable
from riprap.engine.api import messages
from riprap.engine.api.epochs import CommittedEpochs
from riprap.engine.api.page import page
from riprap.engine.api.progress import Progress
from riprap.engine.run_directory.attempts import resume_command
from riprap.engine.run_directory.directory import read_summary
from riprap.engine.run_directory.epochs import EpochRow
from riprap.operators.learning.estimators import load_model

LAUNCHER = (sys.executable, "-P", "-m", "riprap.engine.api.launcher")
ANSWER_S, CANCEL_S = 10.0, 60.0
"""Longest time for the launcher to kill a worker, and to end a job that is cancelled."""
LOOK_S = 0.1
"""Pause between two looks for epochs when the launcher says nothing."""


class Run:
    """A job under way, made by `Job.start` and `riprap.resume`. It ends with this program at the latest.

    Iterating yields each committed epoch as it comes, from the first, and ends with the job; JobFailed if it failed.
    Leaving a `with` block cancels a job that has not ended. All methods may be called from any thread.
    """

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket, started: Message, order: Message) -> None:
        self.job: str = started["job"]
        """The job's name."""
        self.directory = Path(started["run_dir"])
        """The run directory (docs/guide.md)."""
        self._sinks: int = started["sinks"]
        self._resume = resume_command(self.directory, order["zookeeper"], order["zookeeper_auth"] or "")
        self._process, self._end = process, end
        self._orders = threading.Lock()  # one at a time
        self._changed = threading.Condition()  # guards what follows
        self._progress = Progress()
        self._metrics: dict[str, float] = {}
        self._failures: list[dict[str, Any]] = []
        self._killed: Message | None = None
        self._last_words: Message = {}
        self._summary: dict[str, Any] = {}
        self._ended = False
        threading.Thread(target=self._listen, name=f"handle of {self.job}", daemon=True).start()

    def progress(self) -> Progress:
        """Progress of the job, as of the last tenth of a second (half a second when nothing is about to happen)."""
        with self._changed:
            return self._progress

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the job: the measurements of its operators, by name; empty before the first epoch."""
        with self._changed:
            return dict(self._metrics)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The failures so far, each as in summary.json: worker, incarnation, action, detected_ms, restored_ms, ..."""
        with self._changed:
            return list(self._failures)

    @property
    def ended(self) -> bool:
        """True when the job has ended, and everything that it needed is gone."""
        with self._changed:
            return self._ended

    def epochs(self) -> list[EpochRow]:
        """The epochs that are committed now: `epoch`, `items`, `latency_ms`, `committed_at` (monotonic seconds)."""
        return CommittedEpochs(self.directory, self._sinks).take()

    def __iter__(self) -> Iterator[EpochRow]:
        epochs = CommittedEpochs(self.directory, self._sinks)
        while True:
            ended = self.ended  # asked first: what was committed before is there by then
            yield from epochs.take(whole=not ended)
            if ended:
                self._raise_failure()
                return
            with self._changed:
                if not self._ended:
                    self._changed.wait(LOOK_S)

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the job's end and return its summary; `completed` is False in that of a cancelled one.

        JobFailed when the job failed, with the command that goes on with it; RiprapError when it has not ended after
        `timeout_s`. An interrupt (Ctrl-C) ends the waiting, not the job.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, timeout_s):
                raise RiprapError(
                    f"job {self.job} is still {self._progress.phase} after {timeout_s:g} s",
                    f"wait longer, cancel it, or see {self.directory}/logs",
                )
        self._raise_failure()
        return deepcopy(self._summary)

    def cancel(self) -> None:
        """End the job now; what is committed stays, and `riprap.resume` goes on from there. Returns once it has ended.

        A job that has ended stays as it is. RiprapError when it has not ended after a minute.
        """
        self._send({"type": messages.CANCEL})
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, CANCEL_S):
                raise RiprapError(
                    f"job {self.job} has not ended {CANCEL_S:g} s after it was cancelled",
                    f"kill process {self._process.pid}, with which all processes of the job end",
                )

    def kill(self, target: str) -> None:
        """SIGKILL a worker (`processor.1`) or a service (`controller`, `agent`, `zookeeper`, `backup`), as a test.

        ConfigError when none of that name is running now.
        """
        target = sayable(str(target))
        with self._orders:
            self._killed = None
            self._send({"type": messages.KILL, "target": target})
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._is_answered(target), ANSWER_S)
                answer, names, ended = self._killed, ", ".join(self._progress.workers) or "none yet", self._ended
        if answer is None or not answer["done"] or answer["target"] != target:
            remedy = "the job has ended: kill earlier, or give it more input" if ended else f"name one of: {names}"
            raise ConfigError(f"no {target} of job {self.job} is running now", remedy)

    def model(self) -> dict[str, np.ndarray]:
        """The trained model of a job with one sink, once it has completed (`load_model`); DataError before."""
        return load_model(self.directory / "model.npz")

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A figure of the run so far (docs/python_api.md), also written to `path`, a .png or .svg, if that is given."""
        from riprap.engine.plot.figure import draw

        return draw(self.directory, path)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self.ended:
            self.cancel()

    def __repr__(self) -> str:
        now = self.progress()
        return f"<Run of {self.job}: {now.phase}, epoch {now.epoch}, {now.items:,} items, {self.directory}>"

    def _repr_html_(self) -> str:
        return page(self.job, self.directory, self.progress(), self.metrics, self.failures)

    def _is_answered(self, target: str) -> bool:
        """The answer to an earlier order, which was not waited for any longer, does not count."""
        return self._killed is not None and self._killed["target"] == target

    def _send(self, message: Message) -> None:
        """Tell the launcher; nothing to one that is gone."""
        with suppress(OSError):
            channel.send(self._end, message)

    def _raise_failure(self) -> None:
        if "error" in self._last_words:
            raise messages.to_error(self._last_words)

    def _listen(self) -> None:
        """The thread that takes in the launcher's messages, until it has ended."""
        while received := channel.receive(self._end):
            with self._changed:
                self._take_in(received[0])
                self._changed.notify_all()
        code = self._process.wait()
        self._end.close()
        with self._changed:
            if self._last_words:
                self._summary = read_summary(self.directory)
                self._take_in_summary(self._summary)
            else:
                remedy = f"go on where it ended with: {self._resume}"
                gone = JobFailed(f"job {self.job} lost its launcher (exit code {code})", remedy)
                self._last_words = {"phase": "FAILED", **messages.of_error(gone)}
            self._progress = replace(self._progress, phase=self._last_words["phase"])
            self._ended = True
            self._changed.notify_all()

    def _take_in_summary(self, summary: Mapping[str, Any]) -> None:
        """Take in the summary, which says last, and most exactly, how the job did."""
        self._failures = summary.get("failures", self._failures)
        metrics = summary.get("metrics", self._metrics)
        self._metrics = {name: value for name, value in metrics.items() if value is not None}

    def _take_in(self, message: Message) -> None:
        if message["type"] == messages.PROGRESS:
            workers = {name: state for name, _, state in message["workers"]}
            fields = {name: message[name] for name in ("phase", "items", "total_items", "items_per_second")}
            self._progress = Progress(epoch=message["epochs"], workers=workers, **fields)
            self._metrics, self._failures = message["metrics"], message["failures"]
        elif message["type"] == messages.KILLED:
            self._killed = message
        elif message["type"] == messages.ENDED:
            self._last_words = message


def begin(order: Message, environment: Mapping[str, str]) -> Run:
    """Start a launcher on this order (messages.order), and return once the job is checked and its directory made.

    Raises what the launcher refuses the order with: ConfigError and DataError; nothing was started then.
    """
    ours, theirs = channel.pair()
    with theirs:
        process = subprocess.Popen(
            [*LAUNCHER, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # a terminal's Ctrl-C is the program's to handle
        )
    try:
        channel.send(ours, order)
        received = channel.receive(ours)
    except BaseException:  # the launcher ends when our end is closed
        ours.close()
        process.wait()
        raise
    if received is None or received[0]["type"] != messages.STARTED:
        ours.close()
        code = process.wait()
        if received is None:
            raise RiprapError(f"the launcher ended with exit code {code} before it started the job", "see its output")
        raise messages.to_error(received[0])
    return Run(process, ours, received[0], order)
