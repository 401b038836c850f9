"""One ZooKeeper server for all tests of the control plane, and a cluster of real processes for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_harness import Cluster
from kazoo.client import KazooClient

from riprap.controller.zookeeper import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server; tests that stop it use one of their own."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper, request: pytest.FixtureRequest) -> str:
    """The connect string of a part of the server that no other test sees."""
    path = "/" + "".join(c if c.isalnum() else "_" for c in request.node.nodeid)
    client = KazooClient(zookeeper.connect_string)
    client.start()
    client.ensure_path(path)
    client.stop()
    client.close()
    return zookeeper.connect_string + path


@pytest.fixture
def cluster(chroot: str, tmp_path: Path) -> Iterator[Cluster]:
    """Controllers and agents to start, all ended after the test."""
    with Cluster(chroot, tmp_path) as cluster:
        yield cluster
