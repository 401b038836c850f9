"""A working directory with shards and a sound topology, in which nothing may be left running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Cli, write_shards, write_topology
from shared_cluster import SharedCluster

from riprap.controller.zookeeper import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ZooKeeper for the runs of tests that are about something else."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("ensemble")) as server:
        yield server.connect_string


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    """A cluster for jobs whose services nothing happens to; at its end no process may be left."""
    cluster = SharedCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def cli(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cli]:
    """`riprap` in a directory with `shards/` and `job.yaml`; what a test leaves running is killed.

    Runs of a module with `SHARED_ENSEMBLE = True` use one ZooKeeper.
    """
    write_shards(tmp_path / "shards")
    write_topology(tmp_path / "job.yaml")
    is_shared = getattr(request.module, "SHARED_ENSEMBLE", False)
    cli = Cli(tmp_path, request.getfixturevalue("ensemble") if is_shared else "")
    yield cli
    cli.kill_all()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A cluster of this host alone for the tests of a file, in a directory as that of `cli`; nothing of it may be
    left."""
    home = Cli(tmp_path_factory.mktemp("home"))
    write_shards(home.directory / "shards")
    write_topology(home.directory / "job.yaml")
    try:
        home.ask("up", "--standby", "0")
        yield home
        home.ask("down")
        home.await_no_process()
    finally:
        home.kill_all()
