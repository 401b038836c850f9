"""`riprap run --zookeeper` beside a cluster on the same ensemble: neither notices the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_harness import UNTIL_HURRIED, Cli, await_that

from riprap.controller.client import Client
from riprap.controller.session import disconnect, open_client


def said(cli: Cli, *arguments: str) -> Any:
    ended = cli.answer(*arguments)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def pids(status: dict[str, Any]) -> dict[str, int]:
    return {name: worker["pid"] for name, worker in status["workers"].items()}


@pytest.fixture
def zookeeper(home: Cli, cli: Cli) -> str:
    """The cluster's, which is the one that commands of this test find."""
    cli.environment["XDG_RUNTIME_DIR"] = home.environment["XDG_RUNTIME_DIR"]
    return str(json.loads(home.ask("up", "--json"))["zookeeper"])


def test_a_run_takes_its_own_agent_and_leaves_the_clusters_alone(cli: Cli, zookeeper: str) -> None:
    said(cli, "submit", "job.yaml", "--out", "theirs", "--json", "--set", "input.repeat=100000", *UNTIL_HURRIED)
    with Client(zookeeper) as client:
        before = client.wait("trial", 60, until=lambda s: s["phase"] == "RUNNING")
        (agent,) = client.agents().values()
        summary = said(cli, "run", "job.yaml", "--out", "own", "--json", "--zookeeper", zookeeper)
        after, agents = client.status("trial"), client.agents()
        assert summary["completed"] and summary["failures"] == []
        assert (after["phase"], pids(after)) == ("RUNNING", pids(before)), "the cluster's job, of the same name"
        assert [one["instance"] for one in agents.values()] == [agent["instance"]]
        assert client.jobs().keys() == {"trial"}
        client.cancel("trial")
        client.wait("trial", 60)
    events = [json.loads(line) for line in (cli.directory / "own/events.jsonl").read_text().splitlines()]
    exits = {event["worker"]: event["pid"] for event in events if event["event"] == "exited"}
    assert exits.keys() == before["workers"].keys() and len({*exits.values()}) == 1
    assert agent["pid"] not in exits.values(), "the cluster's agent has started a worker of the run"
    assert runs_in(zookeeper) == []
    cli.await_no_process()


def test_what_a_killed_run_left_is_removed_by_its_resume(cli: Cli, zookeeper: str) -> None:
    words = ("--zookeeper", zookeeper)
    run = cli.start("run", "job.yaml", "--out", "own", "--set", "input.repeat=20", *words)
    csv = cli.directory / "own/epochs.csv"
    await_that(lambda: csv.exists() and len(csv.read_text().splitlines()) > 3, 120, lambda: "nothing was committed")
    run.kill()
    run.communicate()
    assert len(runs_in(zookeeper)) == 1
    assert said(cli, "run", "--resume", "own", "--json", *words)["completed"]
    assert runs_in(zookeeper) == []
    cli.await_no_process()


def runs_in(zookeeper: str) -> list[str]:
    """What is left of runs in the ensemble."""
    client = open_client(zookeeper)
    try:
        return list(client.get_children("/riprap/runs"))
    finally:
        disconnect(client)
