"""A connection that is cut, as by a router, while client and server live on: libzmq makes another and says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from test_backup_servers import Cluster, await_that, saved_at_two, state

from riprap.backupserver import protocol
from riprap.backupserver.peer import Peer


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers to which the next record is lost with its connection."""
    found: list[str] = []
    post = Peer._post

    def posting(self: Peer, frames: Sequence[Any]) -> None:
        if self.address in found and protocol.unpack(frames[0])["type"] == "save":
            found.remove(self.address)
            self.socket.disconnect(self.address)
            self.socket.connect(self.address)
        else:
            post(self, frames)

    monkeypatch.setattr(Peer, "_post", posting)
    return found


def test_a_record_that_was_lost_is_sent_again_though_none_follows(cluster: Cluster, cuts: list[str]) -> None:
    client = saved_at_two(cluster)
    cuts.append(cluster.address(2))
    client.save(*state(2))
    await_that(client, lambda: client.durable == 2)
    assert not cuts
    cluster.kill(1)
    point = cluster.client(2, 1, 2).open()
    assert point.state is not None and point.state.epoch == 2
