"""Workers on hosts of their own, in network namespaces: tcp between them, a host that is cut off, an agent that dies.

Where namespaces are not permitted these tests fail with a message that says what is needed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import Cli, write_shards, write_topology

from bench.hosts_cluster import HostsCluster
from bench.namespaces import Hosts
from controller.client import Client

WORKERS = 5  # one source, three processors, one sink
ITEMS = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards and a topology of `ITEMS` items."""
    folder = tmp_path_factory.mktemp("hosts")
    write_shards(folder / "shards", rows=50_000)
    repeat = ("repeat: 1", f"repeat: {ITEMS // 50_000}")
    shards = ("path: shards", f"path: {folder / 'shards'}")
    write_topology(folder / "job.yaml", sets=[repeat, shards, ("micro_batch: 500", "micro_batch: 10000")])
    return folder


@pytest.fixture(scope="module")
def on_one_host(folder: Path) -> str:
    """The model's digest of the same job on one host, over ipc."""
    done = Cli(folder).run("run", "job.yaml", "--json", "--out", "one-host")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["model"]["sha256"])


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """As many hosts as workers, and one more to take over; links of 200 Mbit/s, so that jobs last a while."""
    with Hosts(WORKERS + 1, rate_mbit=200) as hosts:
        yield hosts


@pytest.fixture
def cluster(hosts: Hosts, tmp_path: Path) -> Iterator[HostsCluster]:
    """A cluster on them."""
    with HostsCluster(hosts, tmp_path) as cluster:
        yield cluster


def await_status(cluster: HostsCluster, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until the condition holds; AssertionError with the last answer after 30 s."""
    deadline = time.monotonic() + 30
    with Client(cluster.zookeeper, timeout_s=30) as client:
        while not condition(status := client.status(job)):
            assert time.monotonic() < deadline and status["phase"] != "FAILED", status
            time.sleep(0.02)
    return status


def committed(status: dict[str, Any]) -> int:
    return int(status["workers"]["sink.0"]["epoch"])


def host_of(status: dict[str, Any], worker: str) -> int:
    return int(status["workers"][worker]["host"].removeprefix("h"))


def test_tcp_between_hosts_gives_the_same_model(folder: Path, cluster: HostsCluster, on_one_host: str) -> None:
    name, out = cluster.submit(str(folder / "job.yaml"), [])
    running = await_status(cluster, name, lambda status: committed(status) > 0)
    assert len({host_of(running, worker) for worker in running["workers"]}) == WORKERS, "each worker on its own host"
    summary = cluster.wait(name, out)
    assert summary["model"]["sha256"] == on_one_host
    assert summary["items"] == ITEMS and summary["failures"] == []


def test_a_host_that_is_cut_off_is_replaced_and_fenced(
    folder: Path, hosts: Hosts, cluster: HostsCluster, on_one_host: str
) -> None:
    name, out = cluster.submit(str(folder / "job.yaml"), ["input.repeat=60"])
    running = await_status(cluster, name, lambda status: committed(status) > 5)
    lost = host_of(running, "processor.1")
    hosts.link(lost, "down")
    moved = await_status(cluster, name, lambda s: s["workers"]["processor.1"]["incarnation"] == 2)
    assert host_of(moved, "processor.1") != lost
    before = committed(moved)
    hosts.link(lost, "up")
    await_status(cluster, name, lambda status: committed(status) > before + 5)
    summary = cluster.wait(name, out)
    assert summary["items"] == 60 * 50_000 and summary["lost"]["items"] == 0
    assert summary["model"]["sha256"] == cluster.run(str(folder / "job.yaml"), ["input.repeat=60"])["model"]["sha256"]


def test_a_killed_agent_takes_its_worker_along_and_another_host_takes_over(
    folder: Path, cluster: HostsCluster, on_one_host: str
) -> None:
    name, out = cluster.submit(str(folder / "job.yaml"), [])
    running = await_status(cluster, name, lambda status: committed(status) > 5)
    cluster.kill_agent(host_of(running, "processor.2"))
    summary = cluster.wait(name, out)
    assert summary["model"]["sha256"] == on_one_host
    assert summary["items"] == ITEMS and summary["lost"]["items"] == 0
