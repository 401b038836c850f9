"""What is said of servers that no test starts: without a quorum, of older versions, and gone."""

from __future__ import annotations

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError

from riprap.configs.zookeeper_auth import Identity, ZooKeeperAuth
from riprap.controller import refusals

SERVER = ("127.0.0.1", 1)
AUTH = ZooKeeperAuth("/auth.yaml", sasl=Identity("alice", "hunter2"))


def dropped_by(error: Exception) -> ConnectionDropped:
    dropped = ConnectionDropped("socket connection error")
    dropped.__context__ = error
    return dropped


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (dropped_by(ConnectionRefusedError()), "no ZooKeeper server answers at zk:1 within 15 s"),
        (dropped_by(TimeoutError()), "no ZooKeeper server answers"),
        (dropped_by(OSError(113, "No route to host")), "no ZooKeeper server answers"),
        (KazooTimeoutError("socket time-out during read"), "no ZooKeeper server answers"),
        (ConnectionDropped("socket connection broken"), "ends our connections: socket connection broken"),
        (dropped_by(ConnectionResetError(104, "reset")), "ends our connections: [Errno 104] reset"),
    ],
)
def test_what_is_said_when_time_is_over(error: Exception, said: str) -> None:
    failures = {SERVER: error}
    assert refusals.final(failures, AUTH, "zk:1", {}) is None, "it may yet come about"
    found = refusals.in_time(failures, None, "zk:1", 15.0)
    assert said in str(found) and found.remedy


def test_older_servers_drop_whom_they_do_not_know() -> None:
    error = AuthFailedError("Connection dropped in SASL")
    error.__cause__ = ConnectionDropped("socket connection broken")
    assert refusals.final({SERVER: error}, AUTH, "zk:1", {}) is None, "so do servers that end"
    found = refusals.in_time({SERVER: error}, AUTH, "zk:1", 15.0)
    assert "while SASL user alice authenticates" in str(found) and "hunter2" not in str(found)


def test_one_server_that_refuses_is_enough() -> None:
    failures = {SERVER: dropped_by(ConnectionRefusedError()), ("127.0.0.1", 2): AuthFailedError()}
    assert "refuses SASL user alice" in str(refusals.final(failures, AUTH, "zk:1,zk:2", {}))
