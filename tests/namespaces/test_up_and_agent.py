"""Two hosts started as docs/guide.md says, with `riprap up` and `riprap agent`, each in namespaces of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry, write_shards, write_topology

from bench.namespaces import Hosts
from riprap.controller.client import Client

ITEMS = 300_000


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts(2, rate_mbit=200) as hosts:
        yield hosts


class Host(Cli):
    """`riprap` on one host: in its namespaces of network and host name, with its own runtime folder."""

    def __init__(self, hosts: Hosts, number: int, folder: Path) -> None:
        super().__init__(folder)
        self.environment["XDG_RUNTIME_DIR"] = str(folder / f"runtime{number}")
        named = ("unshare", "--uts", "sh", "-c", f'hostname node{number} && exec "$@"', "sh")
        self.wrapper = hosts.command(number, *named)

    def said(self, *arguments: str) -> Any:
        ended = self.run(*arguments, "--json", wrapper=self.wrapper)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def agent(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start("agent", *arguments, wrapper=self.wrapper)


@pytest.fixture
def pair(hosts: Hosts, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    write_shards(tmp_path / "shards", rows=50_000)
    repeat = ("repeat: 1", f"repeat: {ITEMS // 50_000}")
    write_topology(tmp_path / "job.yaml", sets=[repeat, ("micro_batch: 500", "micro_batch: 10000")])
    pair = Host(hosts, 0, tmp_path), Host(hosts, 1, tmp_path)
    yield pair
    for host in pair:
        host.kill_all()


def is_second_life(worker: dict[str, Any]) -> bool:
    return bool(worker["incarnation"] > 1 and worker["state"] == "up")


def test_a_job_with_a_kill_on_two_hosts(hosts: Hosts, pair: tuple[Host, Host]) -> None:
    first, second = pair
    address, out = hosts.address(0), first.directory / "out"
    up = first.said("up", "--address", address, "--port", "2181")
    agent = second.agent("--zookeeper", f"{address}:2181")  # its address is the one that reaches ZooKeeper
    try:
        with Client(up["zookeeper"], timeout_s=120) as client:
            await_that(lambda: client.agents().keys() == {"node0", "node1"}, 120, lambda: str(client.agents()))
            assert client.agents()["node1"]["address"] == hosts.address(1)
            first.said("submit", "job.yaml", "--out", "out", "--set", "micro_batch=1000", *UNTIL_HURRIED)
            running = client.wait("trial", 60, until=lambda status: status["workers"]["sink.0"]["epoch"] > 5)
            places = {name: worker["host"] for name, worker in running["workers"].items()}
            assert {*places.values()} == {"node0", "node1"}
            killed = next(name for name, host in places.items() if name.startswith("processor") and host == "node1")
            assert (
                second.run("kill", "trial", killed, "--zookeeper", up["zookeeper"], wrapper=second.wrapper).returncode
                == 0
            )
            client.wait("trial", 120, until=lambda status: is_second_life(status["workers"][killed]))
            hurry(first.directory)
            ended = client.wait("trial", 120)
        assert ended["phase"] == "COMPLETED"
        assert [failure["worker"] for failure in ended["failures"]] == [killed]
        assert sum(int(line.split(",")[1]) for line in (out / "epochs.csv").read_text().splitlines()[1:]) == ITEMS
    finally:
        agent.terminate()
        agent.communicate()
        first.run("down", wrapper=first.wrapper)
    for host in pair:
        host.await_no_process()


def test_a_cluster_that_serves_one_host_is_said_to(hosts: Hosts, pair: tuple[Host, Host]) -> None:
    first, second = pair
    zookeeper = first.said("up")["zookeeper"]
    assert zookeeper.startswith("127.0.0.1:")
    port = zookeeper.partition(":")[2]
    refused = second.run("agent", "--zookeeper", f"{hosts.address(0)}:{port}", wrapper=second.wrapper)
    assert refused.returncode == 2
    assert "a `riprap up` which other hosts reach has its --address" in refused.stderr
    other = first.run("up", "--address", hosts.address(1), environment={"XDG_RUNTIME_DIR": str(first.directory / "x")},
                      wrapper=first.wrapper)  # fmt: skip
    assert other.returncode == 2 and f"{hosts.address(1)}: not an address of this host" in other.stderr
    first.run("down", wrapper=first.wrapper)
    first.await_no_process()
