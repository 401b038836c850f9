"""Workers on hosts of their own, in network namespaces: tcp between them, a host that is cut off, an agent that dies.

Where namespaces are not permitted these tests fail with a message that says what is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import REPO, UNTIL_HURRIED, Cli, await_that, hurry, write_shards, write_topology

from bench.hosts_cluster import HostsCluster
from bench.namespaces import Hosts
from riprap.controller.client import Client
from riprap.engine.run_directory.directory import read_events

WORKERS = 5  # one source, three processors, one sink
ITEMS = 500_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards and a topology of `ITEMS` items."""
    folder = tmp_path_factory.mktemp("hosts")
    write_shards(folder / "shards", rows=50_000)
    repeat = ("repeat: 1", f"repeat: {ITEMS // 50_000}")
    shards = ("path: shards", f"path: {folder / 'shards'}")
    # No hedge, and a row of an epoch for each: else who is lost may be one that has parity alone.
    patient = ("r: 1}", "r: 1, hedge: none, rows: 3}")
    write_topology(folder / "job.yaml", sets=[repeat, shards, patient, ("micro_batch: 500", "micro_batch: 1000")])
    return folder


@pytest.fixture(scope="module")
def on_one_host(folder: Path) -> str:
    """The model's digest of the same job on one host, over ipc."""
    return str(json.loads(Cli(folder).ask("run", "job.yaml", "--json", "--out", "one-host"))["model"]["sha256"])


@pytest.fixture(scope="module")
def shared(folder: Path, on_one_host: str) -> Iterator[HostsCluster]:
    """A cluster of as many hosts as workers, and one more to take over; links of 200 Mbit/s."""
    with pytest.MonkeyPatch.context() as patch, Hosts(WORKERS + 1, rate_mbit=200) as hosts:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)  # there is the module of the source
        with HostsCluster(hosts, folder) as cluster:
            yield cluster


@pytest.fixture
def cluster(shared: HostsCluster) -> HostsCluster:
    """The same, with all agents there."""
    shared.await_agents()
    return shared


def await_status(cluster: HostsCluster, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until the condition holds; AssertionError with the last answer when the job ends before, or after 30 s."""
    deadline = time.monotonic() + 30
    with Client(cluster.zookeeper, timeout_s=120) as client:
        while not condition(status := client.status(job)):
            assert time.monotonic() < deadline and status["phase"] not in ("FAILED", "COMPLETED"), status
            time.sleep(0.02)
    return status


def started(cluster: HostsCluster, folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """A job under way, each worker on a host of its own: its name, run directory and status.

    It reads slowly until `finished` has it hurry, however long a fault takes on busy cores.
    """
    (folder / "hurry").unlink(missing_ok=True)
    name, out = cluster.submit(str(folder / "job.yaml"), [UNTIL_HURRIED[1]])
    running = await_status(cluster, name, lambda status: committed(status) > 5)
    assert len({host_of(running, worker) for worker in running["workers"]}) == WORKERS
    return name, out, running


def finished(cluster: HostsCluster, folder: Path, name: str, out: Path) -> dict[str, Any]:
    """The summary of a job that was held back."""
    hurry(folder)
    return cluster.wait(name, out)


def with_data(out: Path) -> str:
    """A processor that is dealt data now. One that was late in the mean, as any may be on busy cores, has parity alone
    for a while: nothing is decoded when it is lost then."""
    advice = [event["workers"] for event in read_events(out) if event["event"] == "avoided"]
    avoided = advice[-1] if advice else []
    return next(name for name in ("processor.2", "processor.1", "processor.0") if name not in avoided)


def replaced(worker: str) -> Callable[[dict[str, Any]], bool]:
    """The worker's second life has processed items."""
    return lambda status: status["workers"][worker]["incarnation"] == 2 and status["workers"][worker]["items"] > 0


def committed(status: dict[str, Any]) -> int:
    return int(status["workers"]["sink.0"]["epoch"])


def host_of(status: dict[str, Any], worker: str) -> int:
    return int(status["workers"][worker]["host"].removeprefix("h"))


def test_tcp_between_hosts_gives_the_same_model(folder: Path, cluster: HostsCluster, on_one_host: str) -> None:
    name, out, _ = started(cluster, folder)
    summary = finished(cluster, folder, name, out)
    assert summary["model"]["sha256"] == on_one_host
    assert summary["items"] == ITEMS and summary["failures"] == []


def test_a_host_that_is_cut_off_is_replaced_and_fenced(folder: Path, cluster: HostsCluster, on_one_host: str) -> None:
    name, out, running = started(cluster, folder)
    worker = with_data(out)
    lost, old = host_of(running, worker), psutil.Process(running["workers"][worker]["pid"])
    cluster.hosts.link(lost, "down")
    try:
        moved = await_status(cluster, name, replaced(worker))
        assert host_of(moved, worker) != lost
        assert old.is_running(), "nobody can reach the old incarnation to end it, so peers must refuse it"
    finally:
        cluster.hosts.link(lost, "up")
    await_that(lambda: not old.is_running(), 120, lambda: "the old incarnation still runs after the cut has healed")
    summary = finished(cluster, folder, name, out)
    assert [(failure["worker"], failure["incarnation"]) for failure in summary["failures"]] == [(worker, 1)]
    assert summary["items"] == ITEMS and summary["lost"]["items"] == 0 and summary["decoded_items"] > 0
    assert summary["model"]["sha256"] == on_one_host


def test_two_workers_that_are_cut_off_from_each_other_connect_anew(
    folder: Path, cluster: HostsCluster, on_one_host: str
) -> None:
    """Longer than 2 s: so long TCP may try to deliver what nobody acknowledges."""
    name, out, running = started(cluster, folder)
    worker, sink = host_of(running, with_data(out)), host_of(running, "sink.0")
    before = cluster.hosts.connections(worker, sink)
    assert before
    with cluster.hosts.cut(worker, sink):
        await_that(lambda: not before <= cluster.hosts.connections(worker, sink), 30, lambda: f"tries on: {before}")
    summary = finished(cluster, folder, name, out)
    assert summary["model"]["sha256"] == on_one_host
    assert summary["items"] == ITEMS and summary["failures"] == []


def test_a_killed_agent_takes_its_worker_along_and_another_host_takes_over(
    folder: Path, cluster: HostsCluster, on_one_host: str
) -> None:
    name, out, running = started(cluster, folder)
    worker = with_data(out)
    lost = host_of(running, worker)
    cluster.kill_agent(lost)
    try:
        moved = await_status(cluster, name, replaced(worker))
    finally:
        cluster.start_agent(lost)
    assert host_of(moved, worker) != lost
    summary = finished(cluster, folder, name, out)
    assert [(failure["worker"], failure["incarnation"]) for failure in summary["failures"]] == [(worker, 1)]
    assert summary["items"] == ITEMS and summary["lost"]["items"] == 0 and summary["decoded_items"] > 0
    assert summary["model"]["sha256"] == on_one_host


def test_a_host_without_the_keys_gets_nowhere(folder: Path, cluster: HostsCluster, on_one_host: str) -> None:
    """Its client, its agent and its controller are refused; the job under way does not notice."""
    name, out, _ = started(cluster, folder)
    riprap = [sys.executable, "-P", "-m", "riprap.engine.cli.main"]
    there = ["--address", cluster.hosts.address(WORKERS)]
    for words in (["jobs"], ["cancel", name], ["agent", "--host", "evil", *there], ["controller", *there]):
        command = cluster.hosts.command(WORKERS, *riprap, *words, "--zookeeper", cluster.zookeeper)
        environment = os.environ | {"RIPRAP_KEYS": str(folder / "other keys")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and "belongs to others" in done.stderr, done.stderr
    summary = finished(cluster, folder, name, out)
    assert summary["model"]["sha256"] == on_one_host and summary["failures"] == []


def test_hosts_of_a_killed_process_are_removed_by_the_next() -> None:
    script = """if True:
        import subprocess
        from bench.namespaces import Hosts
        with Hosts(1) as hosts:
            inside = subprocess.Popen(hosts.command(0, "sleep", "600"), stdout=subprocess.DEVNULL)
            print(inside.pid, hosts.name(0), flush=True)
            inside.wait()
    """
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, name = owner.stdout.readline().split()
    inside = psutil.Process(int(pid))
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert inside.is_running() and Path("/run/netns", name).exists()
    subprocess.run(
        [sys.executable, "-c", "from bench.namespaces import Hosts\nwith Hosts(0): pass"], cwd=REPO, check=True
    )
    assert not Path("/run/netns", name).exists()
    await_that(lambda: not inside.is_running(), 120, lambda: f"process {pid} still runs in {name}")


@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_where_namespaces_are_not_permitted_the_message_says_what_to_do(capability: str) -> None:
    script = "from bench.namespaces import Hosts\nwith Hosts(1): pass"
    command = ["setpriv", "--bounding-set", f"-{capability}", sys.executable, "-c", script]
    refused = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "Operation not permitted" in refused.stderr
    assert "remedy: run this as root where namespaces and traffic shaping are permitted" in refused.stderr
