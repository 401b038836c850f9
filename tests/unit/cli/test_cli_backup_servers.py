"""Where backup servers listen and keep things: the same in every attempt, and apart from those of other jobs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.engine.cli import backup
from riprap.engine.services.backup_servers import discard_storage, servers_of_cluster, servers_of_run, with_servers


def asking(topology: Topology, **values: object) -> Topology:
    return dataclasses.replace(topology, backup=dataclasses.replace(topology.backup, **values))


def test_a_runs_servers_are_the_same_in_every_attempt_and_no_others(topology: Topology, tmp_path: Path) -> None:
    two = asking(topology, servers=2)
    first, again = servers_of_run(two, tmp_path, "ab12"), servers_of_run(two, tmp_path, "ab12")
    assert first == again and len({server.address for server in first}) == 2
    assert [server.storage for server in first] == [f"{tmp_path}/backup/1", f"{tmp_path}/backup/2"]
    others = servers_of_run(two, tmp_path, "cd34")
    assert not {server.address for server in first} & {server.address for server in others}
    assert all(server.address.startswith("ipc://@riprap-") for server in first), "nothing is left behind"


@pytest.mark.parametrize("storage", ["/ssd/riprap", "s3://bucket/riprap/"])
def test_a_storage_of_the_topologys_own_is_shared_by_jobs(topology: Topology, tmp_path: Path, storage: str) -> None:
    named = asking(topology, storage=storage)
    one, other = (servers_of_run(named, tmp_path, run)[0].storage for run in ("ab", "cd"))
    assert one == f"{storage.rstrip('/')}/trial-ab/1" and other == f"{storage.rstrip('/')}/trial-cd/1"


def test_the_command_carries_what_the_topology_says(topology: Topology, tmp_path: Path) -> None:
    (server,) = servers_of_run(asking(topology, durability="always", interval_ms=7), tmp_path, "ab")
    assert server.command()[-4:] == ["--durability", "always", "--interval-ms", "7"]


@pytest.mark.parametrize(
    ("asked", "offered", "submitted"),
    [
        (1, ["ipc://@a"], ["ipc://@a"]),
        (2, ["tcp://a:1"], ["tcp://a:1"]),
        (1, [], []),
        (0, ["ipc://@a"], []),
        (["tcp://b:1", "tcp://c:1"], ["ipc://@a"], ["tcp://b:1", "tcp://c:1"]),
    ],
)
def test_where_workers_save(topology: Topology, asked: object, offered: list[str], submitted: list[str]) -> None:
    values = asking(topology, servers=asked).to_dict()
    found = with_servers(values, offered)
    assert found["backup"]["servers"] == submitted and Topology.from_dict(found).backup.addresses == tuple(submitted)
    assert values["backup"]["servers"] == asked, "the topology itself stays as it was"


def test_the_users_own_servers_mean_that_none_is_started(topology: Topology, tmp_path: Path) -> None:
    assert servers_of_run(asking(topology, servers=["tcp://b:1"]), tmp_path, "ab") == []


def test_a_clusters_addresses_outlive_it(tmp_path: Path) -> None:
    first = servers_of_cluster(tmp_path, 2, "")
    assert servers_of_cluster(tmp_path, 2, "") == first
    assert servers_of_cluster(tmp_path, 1, "") == first, "jobs still know both"
    more = servers_of_cluster(tmp_path, 3, "127.0.0.1")
    assert more[:2] == first and more[2].address.startswith("tcp://127.0.0.1:")
    assert len({server.storage for server in more}) == 3
    (tmp_path / "backup/addresses.json").unlink()
    assert not {one.address for one in servers_of_cluster(tmp_path, 2, "")} & {one.address for one in first}


@pytest.mark.parametrize("former", ["ipc://@riprap-backup-1", "tcp://192.0.2.10:7070"])
def test_servers_that_other_hosts_do_not_reach_are_not_offered_to_them(former: str, tmp_path: Path) -> None:
    addresses = tmp_path / "backup" / "addresses.json"
    addresses.parent.mkdir()
    addresses.write_text(json.dumps(["tcp://192.0.2.1:7070", former]))
    with pytest.raises(ConfigError, match=f"save at {former}, which is not at 192.0.2.1\n") as caught:
        servers_of_cluster(tmp_path, 1, "192.0.2.1")
    assert "`riprap down`" in caught.value.remedy and str(addresses.parent) in caught.value.remedy
    assert len(servers_of_cluster(tmp_path, 1, "")) == 2
    addresses.write_text(json.dumps(["tcp://192.0.2.1:7070"]))
    assert [server.address for server in servers_of_cluster(tmp_path, 1, "192.0.2.1")] == ["tcp://192.0.2.1:7070"]


def test_a_completed_jobs_storage_goes_and_nothing_beside_it(topology: Topology, tmp_path: Path) -> None:
    shared = asking(topology, servers=2, storage=str(tmp_path / "ssd"))
    servers, others = (servers_of_run(shared, tmp_path, run) for run in ("ab", "cd"))
    for server in (*servers, *others):
        Path(server.storage).mkdir(parents=True)
    discard_storage(servers)
    assert [path.name for path in (tmp_path / "ssd").iterdir()] == ["trial-cd"]
    assert len(list((tmp_path / "ssd/trial-cd").iterdir())) == 2


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:65536", "127.0.0.1:7070"])
def test_a_server_listens_at_no_other_address_than_the_one_given(address: str, tmp_path: Path) -> None:
    """libzmq takes a port by its last 16 bits."""
    with pytest.raises(ConfigError, match="not an address"):
        backup.command.main(["--listen", address, "--storage", str(tmp_path)], standalone_mode=False)
