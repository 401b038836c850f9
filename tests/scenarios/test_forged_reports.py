"""Reports that no agent sent: a job is completed when its items add up, whatever somebody says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zmq
from cli_harness import SLOW_WORDS, UNTIL_HURRIED, WORD_COUNT, Cli, await_that, hurry

from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import AGENT, CONTROLLER
from riprap.controller import messages, paths
from riprap.controller.client import Client
from riprap.controller.deltas import Writer
from riprap.controller.reports import EXITED, UP, AgentReport, WorkerReport
from riprap.controller.session import disconnect, open_client
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
LATER = 1 << 40  # above any number of the agent's own reports
JOBS = {"rows": ("trial", "sink", 100_000, 200), "blocks": ("words", "count", 20_000, 200)}
"""Name, last stage, items, epochs."""
SLOW_SPLIT = ("--set", "stages.split.operator=slow_words:SlowSplit")
LASTING = {
    "trial": ("--set", "input.repeat=20", *UNTIL_HURRIED),
    "words": ("--set", "fault_tolerance={scheme: mini_batch}", *SLOW_SPLIT),
}
"""The options of a job that outlasts what is said of it."""


class Forger:
    """Talks to a job's controller as the agent of its workers would."""

    def __init__(self, zookeeper: str, job: str) -> None:
        ensemble = open_client(zookeeper)
        (self.host,) = ensemble.get_children(paths.AGENTS)
        self.instance = json.loads(ensemble.get(paths.agent(self.host))[0])["instance"]
        self.endpoint = json.loads(ensemble.get(paths.LEADER)[0])["endpoint"]
        disconnect(ensemble)
        with Client(zookeeper) as client:
            self.workers: Mapping[str, Any] = client.status(job)["workers"]
        self.job = job

    def say(self, rows: Callable[[WorkerReport], None]) -> None:
        """One report on all workers; `rows` sets what each row says."""
        reports = [
            WorkerReport(self.job, name, one["incarnation"], UP, one["pid"]) for name, one in self.workers.items()
        ]
        for row in reports:
            rows(row)
        forged = AgentReport(self.host, self.instance, LATER, rows=reports)
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            call_as(dealer, AGENT, CONTROLLER)
            dealer.connect(self.endpoint)
            message = {"type": "report", "instance": self.instance, **Writer().encode(LATER, forged.state())}
            dealer.send(messages.pack(message))


def started(cli: Cli, job: str) -> Any:
    """A run of many seconds, once its first epochs are committed."""
    (cli.directory / "slow_words.py").write_text(SLOW_WORDS % 400)
    (cli.directory / "text.txt").write_text("a line of some words\n" * 2000)
    (cli.directory / "words.yaml").write_text(WORD_COUNT % (10, 100))
    topology = "words.yaml" if job == "words" else "job.yaml"
    process = cli.start("run", topology, "--out", "out", *LASTING[job])
    name = "epochs.0.csv" if job == "words" else "epochs.csv"
    path = cli.directory / "out" / name
    await_that(lambda: path.exists() and path.read_bytes().count(b"\n") > 5, 120, lambda: "nothing was committed")
    return process


def zookeeper_of(out: Path) -> str:
    return str(next(event["zookeeper"] for event in read_events(out) if event["event"] == "cluster_started"))


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize(
    "clever", [pytest.param(False, marks=pytest.mark.long), True], ids=["only done", "with the right number"]
)
def test_forged_reports_end_a_job_as_failed_and_it_can_be_resumed(cli: Cli, kind: str, clever: bool) -> None:
    job, sink, items, epochs = JOBS[kind]
    process = started(cli, job)
    out = cli.directory / "out"
    forger = Forger(zookeeper_of(out), job)

    def ended(row: WorkerReport) -> None:
        sinks = [name for name in forger.workers if name.startswith(sink)]
        row.done = row.worker in sinks
        if clever:
            row.state, row.status = EXITED, 0
            row.accounted = items // len(sinks) if row.done else 0
            row.epoch = epochs if row.done else 0

    forger.say(ended)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert re.search(r"wrong or forged", said) and "riprap run --resume" in said, said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["completed"] is False and summary["items"] < items
    hurry(cli.directory)
    resumed = cli.answer("run", "--resume", "out", "--json")
    assert resumed.returncode == 0, resumed.stderr
    summary = json.loads(resumed.stdout)
    assert (summary["completed"], summary["items"], summary["attempts"]) == (True, items, 2)
    cli.await_no_process()
