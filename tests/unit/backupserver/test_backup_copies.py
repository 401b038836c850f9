"""A copy of a task reads what another copy has saved: of its own task alone, and nobody is shut out by it."""

from __future__ import annotations

import pytest
from kept_records import NAME, OTHER
from test_backup_servers import WAIT_S, Cluster, await_that, state

from riprap.backupserver import copies
from riprap.backupserver.client import BackupClient
from riprap.backupserver.copies import CopyReader
from riprap.codec.trust.keys import WorkerKeys, own_authority
from riprap.codec.trust.rotation import keyring

COPY = f"{NAME}~1"


def reader(cluster: Cluster, name: str = COPY, holder: str = COPY, servers: tuple[int, ...] = (1,)) -> CopyReader:
    """Of the first incarnation of `name`, with a key of `holder`."""
    keys = WorkerKeys(own_authority().life(holder, 1), keyring().servers)
    return CopyReader([cluster.address(number) for number in servers], name, 1, keys)


def saved(cluster: Cluster, *servers: int, epoch: int = 6) -> BackupClient:
    """A client of the primary that has a state of this epoch and an item behind it."""
    client = cluster.client(1, *servers)
    client.open()
    client.save(*state(epoch))
    client.save("item", epoch + 1, {"n": 1}, [])
    await_that(client, lambda: client.durable == 2)
    return client


def test_a_copy_gets_what_the_other_has_saved_where_that_is_newer(cluster: Cluster) -> None:
    cluster.start()
    client = saved(cluster, 1)
    name, point = reader(cluster).newest([f"{NAME}~2", NAME], 6)
    assert name == NAME and point.state is not None and point.state.epoch == 6
    assert point.state.arrays[0].tolist() == [6.0] * 5
    assert [record.meta for record in point.items] == [{"n": 1}]
    assert reader(cluster).newest([NAME], 7) == ("", type(point)())
    client.save(*state(8))
    await_that(client, lambda: client.durable == 3)  # it is not shut out


def test_of_several_servers_and_copies_the_newest_counts(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    saved(cluster, 1, epoch=6)
    saved(cluster, 2, epoch=16)
    name, point = reader(cluster, servers=(1, 2)).newest([NAME], -1)
    assert name == NAME and point.state is not None and point.state.epoch == 16


def test_another_tasks_records_are_not_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SILENCE_S", 0.5)
    cluster.start()
    saved(cluster, 1)
    assert reader(cluster, OTHER, OTHER).newest([NAME], -1)[0] == "", "of another task"
    assert cluster.ask()["malformed"] == 1
    assert reader(cluster, COPY, OTHER).newest([NAME], -1)[0] == "", "with another worker's key"
    assert cluster.ask()["intruders"] == 1


def test_a_server_that_is_silent_has_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hold up who could go on from its own records."""
    monkeypatch.setattr(copies, "SILENCE_S", 0.5)
    cluster.start(2)
    client = saved(cluster, 2)
    assert reader(cluster, servers=(1, 2)).newest([NAME], -1)[0] == NAME
    assert client.close(WAIT_S)
