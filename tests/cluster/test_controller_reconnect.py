"""Connections to ZooKeeper and to the leader that are cut, or lead nowhere though nobody hangs up."""

from __future__ import annotations

import select
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import zmq
from cluster_harness import PATIENCE_S, Cluster, await_that, topology

from riprap.codec.trust.curve import serve_with
from riprap.codec.trust.keys import CONTROLLER, own_authority
from riprap.controller import session
from riprap.controller.election import try_to_lead
from riprap.controller.zookeeper import EmbeddedZooKeeper


class Way(socketserver.ThreadingTCPServer):
    """Passes bytes to a port and back; the next `to_lose` connections lead nowhere until their clients hang up, and so
    do those that are `silent`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Passage)
        self.beyond = (address, port)
        self.address = "{}:{}".format(*self.server_address)
        self.open: list[socket.socket] = []
        self.silent: list[socket.socket] = []
        self.to_lose = 0
        self.lost: SimpleQueue[None] = SimpleQueue()
        """Has one entry for each lost connection that its client has given up."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def cut(self, to_lose: int) -> None:
        """End the connections that there are, and lose that many of those to come."""
        self.to_lose = to_lose
        for one in self.open:
            one.shutdown(socket.SHUT_RDWR)


class Passage(socketserver.BaseRequestHandler):
    """One connection."""

    server: Way
    request: socket.socket

    def handle(self) -> None:
        if self.server.to_lose:
            self.server.to_lose -= 1
            while self.request.recv(4096):
                pass
            self.server.lost.put(None)
            return
        self.server.open.append(self.request)
        with socket.create_connection(self.server.beyond) as beyond:
            others = {self.request: beyond, beyond: self.request}
            while True:
                for end in select.select([*others], [], [])[0]:
                    if not (data := end.recv(4096)):
                        return
                    if self.request not in self.server.silent:
                        others[end].sendall(data)


@pytest.fixture
def way(zookeeper: EmbeddedZooKeeper) -> Iterator[Way]:
    with Way(zookeeper.address, zookeeper.port) as way:
        yield way
        way.shutdown()


def test_a_session_outlives_requests_to_connect_that_are_lost(way: Way, chroot: str) -> None:
    """Kazoo waits for each answer as long as the session lives: two would take twice that."""
    part = chroot.partition("/")[2]
    client = session.connect(f"{way.address}/{part}", session_timeout_s=4)
    try:
        client.create("/kept", b"data", ephemeral=True)
        begun = client.client_id
        way.cut(to_lose=2)
        assert client.retry(client.get, "/kept")[0] == b"data"
        assert (client.client_id, way.to_lose) == (begun, 0)
        for _ in range(2):
            way.lost.get(timeout=120)
    finally:
        session.disconnect(client)


@pytest.fixture
def beyond(way: Way, chroot: str, tmp_path: Path) -> Iterator[Cluster]:
    """Controllers that reach the server by `way`; the rest of their cluster does not need it."""
    (tmp_path / "beyond").mkdir()
    with Cluster(f"{way.address}/{chroot.partition('/')[2]}", tmp_path / "beyond") as beyond:
        yield beyond


def led_from_beyond(cluster: Cluster, beyond: Cluster) -> subprocess.Popen[bytes]:
    """The leader of a job that has begun."""
    leader = beyond.start("controller")
    await_that("a leader", lambda: "leading, term" in beyond.log_of(leader).read_text())
    cluster.start("agent", "h1")
    cluster.run(topology())
    return leader


def test_a_client_turns_to_another_leader_though_the_one_before_still_answers(
    way: Way, cluster: Cluster, beyond: Cluster
) -> None:
    led_from_beyond(cluster, beyond)
    cluster.start("controller")
    before = cluster.status()["controller"]
    way.cut(1_000_000)
    cluster.until("another leader", lambda status: status["controller"] != before)
    assert cluster.status_at(before)["controller"] == before, "it does not know yet"
    assert cluster.finish()["failures"] == []


def test_a_leader_that_is_cut_off_logs_nothing_that_never_happens(way: Way, cluster: Cluster, beyond: Cluster) -> None:
    """It hears no agent any more, and would replace all workers, if it still led."""
    leader = led_from_beyond(cluster, beyond)
    cluster.start("controller")
    before = cluster.status()["controller"]
    way.cut(1_000_000)
    cluster.until("another leader", lambda status: status["controller"] != before)
    await_that("losses in its eyes", lambda: cluster.status_at(before)["failures"])
    way.to_lose = 0
    await_that("its end", lambda: "leading no more" in beyond.log_of(leader).read_text())
    assert cluster.finish()["failures"] == [] == cluster.events("detected")
    assert [event["phase"] for event in cluster.events("phase")] == ["DEPLOYING", "RUNNING", "FINISHING", "COMPLETED"]


def test_what_a_leader_decides_while_it_reaches_no_server_is_logged_once_it_does(
    way: Way, cluster: Cluster, beyond: Cluster
) -> None:
    led_from_beyond(cluster, beyond)
    before = cluster.status()
    way.cut(1_000_000)
    cluster.kill(before["workers"]["processor.0"]["pid"])
    await_that("the loss", lambda: cluster.status_at(before["controller"])["failures"])
    way.to_lose = 0
    cluster.until("its replacement", lambda status: status["workers"]["processor.0"]["items"] > 0)
    assert cluster.finish()["phase"] == "COMPLETED"
    assert [event["worker"] for event in cluster.events("detected")] == ["processor.0"]


def test_an_agent_gives_a_connection_up_over_which_nobody_hears_it(cluster: Cluster, chroot: str) -> None:
    """Its host was cut off, and TCP waits for long before it tries again."""
    leader = session.connect(chroot)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1000))
        serve_with(router, own_authority().pair(CONTROLLER), CONTROLLER)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with Way("127.0.0.1", port) as way:
            assert try_to_lead(leader, f"tcp://{way.address}", 1, lambda: None)
            cluster.start("agent", "h1")
            before = router.recv_multipart()[0]
            way.silent = list(way.open)
            while router.recv_multipart()[0] == before:
                pass
            way.shutdown()
    session.disconnect(leader)
