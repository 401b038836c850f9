"""A backup server that starts again under other keys: workers with the former go on, strangers who hold them do not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import zmq
from kept_records import NAME
from test_backup_servers import WAIT_S, Cluster, await_that, state

from riprap.backupserver.client import BackupClient
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import (
    BACKUP,
    CLIENT,
    FOLDER_VARIABLE,
    Authority,
    KeyPair,
    WorkerKeys,
    open_authority,
    own_authority,
)
from riprap.codec.trust.rotation import follow, keep_next

OLD, NEW = Authority(b"o" * 32), Authority(b"n" * 32)
OLD_SERVER, NEW_SERVER = OLD.pair(BACKUP).public, NEW.pair(BACKUP).public


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Servers and incarnations of the folder's keys, OLD until it is rotated."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "keys"))
    open_authority(tmp_path / "keys", OLD.secret)
    own_authority.cache_clear()
    made = Cluster(tmp_path)
    yield made
    made.close()
    own_authority.cache_clear()


def rotate(cluster: Cluster) -> None:
    """Start the server again under NEW."""
    keep_next(NEW.secret, cluster.folder / "keys")
    assert follow(NEW.id)
    cluster.kill()
    cluster.start()


def saved(client: BackupClient, epoch: int) -> bool:
    number = client.save(*state(epoch))
    await_that(client, lambda: client.durable >= number)
    return True


def began(cluster: Cluster) -> BackupClient:
    """An incarnation that has saved its first state."""
    cluster.start()
    client = cluster.client(1)
    client.open()
    assert saved(client, 1)
    return client


@pytest.mark.parametrize("told_before", [True, False])
def test_a_life_goes_on_at_a_server_that_starts_again_under_other_keys(cluster: Cluster, told_before: bool) -> None:
    client = began(cluster)
    if told_before:
        client.use_keys([OLD_SERVER, NEW_SERVER])
    rotate(cluster)
    if not told_before:
        client.use_keys([NEW_SERVER])
    assert saved(client, 2)
    client.use_keys([NEW_SERVER])
    assert saved(client, 3)
    later = cluster.client(2)  # of the present keys
    point = later.open()
    assert point.state is not None and point.state.epoch == 3


def test_a_server_that_keeps_its_keys_is_used_while_its_connection_lasts(cluster: Cluster) -> None:
    client = began(cluster)
    client.use_keys([NEW_SERVER])
    for epoch in range(2, 5):
        assert saved(client, epoch)
        time.sleep(0.3)  # longer in all than a server may be silent before it is tried with other keys


def test_a_life_that_begins_meanwhile_tries_both_keys(cluster: Cluster) -> None:
    assert began(cluster).close(WAIT_S)
    rotate(cluster)
    keys = WorkerKeys(OLD.life(NAME, 2), (OLD_SERVER, NEW_SERVER))
    client = BackupClient([cluster.address(1)], NAME, 2, keys, deadline_s=WAIT_S)
    cluster.clients.append(client)
    point = client.open()
    assert point.state is not None and point.state.epoch == 1


def test_who_holds_the_former_keys_is_refused(cluster: Cluster) -> None:
    """Without the server's present key nobody can begin; with it, the former clients', say, open nothing."""
    began(cluster)
    rotate(cluster)
    status, steal = {"type": "status"}, {"type": "open", "name": NAME, "fence": 9, "fetch": True}
    assert asked(cluster, NEW.pair(CLIENT), NEW_SERVER, status)
    for key in (OLD_SERVER, NEW_SERVER):
        assert not asked(cluster, OLD.pair(CLIENT), key, status)
        assert not asked(cluster, OLD.pair(CLIENT), key, steal)
    assert not asked(cluster, OLD.life(NAME, 9), OLD_SERVER, steal)
    assert cluster.ask()["intruders"] == 2


def asked(cluster: Cluster, own: KeyPair, server: bytes, message: dict[str, object]) -> bool:
    """Whether the server answers."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as caller:
        caller.setsockopt(zmq.LINGER, 0)
        call_with(caller, own, server)
        caller.connect(cluster.address(1))
        caller.send(msgpack.packb(message))
        return bool(caller.poll(WAIT_S * 1000 if own == NEW.pair(CLIENT) else 1000))
