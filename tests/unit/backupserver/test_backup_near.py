"""A restore point comes from the server that is nearest: others send it only where that one has not all of it."""

from __future__ import annotations

import numpy as np
import pytest
from test_backup_servers import Cluster, await_that, state

from riprap.backupserver import peer as peers
from riprap.backupserver.peer import Answer, Peer, is_near


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of servers that have sent records, in order, each time."""
    found: list[str] = []
    take = Peer._take

    def noting(self: Peer, message: dict[str, object], frames: object) -> None:
        take(self, message, frames)  # type: ignore[arg-type]
        if message["type"] == "opened" and isinstance(self.answer, Answer) and self.answer.bodies:
            found.append(self.address)

    monkeypatch.setattr(Peer, "_take", noting)
    return found


def near(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *numbers: int) -> None:
    """Only these servers are on this host."""
    here = [cluster.address(number) for number in numbers]
    monkeypatch.setattr(peers, "is_near", lambda address: address in here)


def saved_at(cluster: Cluster, *numbers: int) -> None:
    """A state of epoch 1 is at all of them."""
    for number in numbers:
        cluster.start(number)
    client = cluster.client(1, *numbers)
    client.open()
    client.save(*state(1))
    await_that(client, lambda: client.durable == 1)


@pytest.mark.parametrize("here", [1, 2, 3])
def test_the_server_of_this_host_alone_sends(
    cluster: Cluster, sent: list[str], monkeypatch: pytest.MonkeyPatch, here: int
) -> None:
    saved_at(cluster, 1, 2, 3)
    near(monkeypatch, cluster, here)
    client = cluster.client(2, 1, 2, 3)
    point = client.open()
    assert point.state is not None and np.array_equal(point.state.arrays[0], np.full(5, 1.0))
    assert sent == [cluster.address(here)]
    client.save(*state(2))
    await_that(client, lambda: client.durable == client._sequence)
    assert all(one.in_sync for one in client._peers), "the others know it all, and need not have sent it"


def test_of_servers_elsewhere_one_sends(cluster: Cluster, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    saved_at(cluster, 1, 2, 3)
    near(monkeypatch, cluster)
    point = cluster.client(2, 1, 2, 3).open()
    assert point.state is not None and point.state.epoch == 1
    assert len(sent) == 1


def test_all_send_where_none_is_sure_to_have_all(
    cluster: Cluster, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_at(cluster, 1, 2)
    cluster.clients[0].close(0.0)  # else it brings them in sync once more
    for number in (1, 2):
        cluster.kill(number)
        cluster.start(number)
    near(monkeypatch, cluster, 1)
    point = cluster.client(2, 1, 2).open()
    assert point.state is not None and point.state.epoch == 1
    assert sorted(sent) == [cluster.address(1), cluster.address(2)]


def test_another_one_sends_where_the_near_one_has_missed_something(
    cluster: Cluster, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_at(cluster, 1, 2)
    client = cluster.clients[0]
    cluster.kill(1)
    client.save(*state(2))
    await_that(client, lambda: client.durable == 2)
    client.close(0.0)
    cluster.start(1)
    near(monkeypatch, cluster, 1)
    point = cluster.client(2, 1, 2).open()
    assert point.state is not None and point.state.epoch == 2
    assert sent[-1] == cluster.address(2)


def test_another_one_sends_where_the_near_one_is_dead(
    cluster: Cluster, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_at(cluster, 1, 2)
    cluster.kill(1)
    near(monkeypatch, cluster, 1)
    point = cluster.client(2, 1, 2).open()
    assert point.state is not None and point.state.epoch == 1 and sent == [cluster.address(2)]


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("ipc://@somewhere", True), ("tcp://127.0.0.1:7070", True), ("tcp://localhost:7070", True),
        ("tcp://203.0.113.7:7070", False), ("tcp://[2001:db8::7]:7070", False),
    ],
)  # fmt: skip
def test_which_servers_are_of_this_host(address: str, here: bool) -> None:
    assert is_near(address) == here
