"""A server behind a link that takes longer for a record than a server may be silent."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from test_backup_servers import Cluster, await_that, state

from riprap.backupserver import client as clients
from riprap.backupserver.client import BackupClient

LARGE = "state", 2, {"epoch": 2}, [np.arange(30_000.0)]
BYTES_S = 300_000


class SlowLink:
    """Passes so many bytes a second on to a server, and what that answers at once."""

    def __init__(self, server: str) -> None:
        self._server = server.replace("ipc://@", "\0")
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or the kernel takes all of it
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._ends: list[socket.socket] = []
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                self._ends += [near, far]
                far.connect(self._server)
                for ends, bytes_s in (((near, far), BYTES_S), ((far, near), 0)):
                    threading.Thread(target=_pass_on, args=(*ends, bytes_s), daemon=True).start()

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            _hang_up(end)
            end.close()


def _pass_on(source: socket.socket, target: socket.socket, bytes_s: int) -> None:
    with suppress(OSError):
        while data := source.recv(4096):
            time.sleep(len(data) / bytes_s if bytes_s else 0)
            target.sendall(data)
    for end in (source, target):
        _hang_up(end)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def slow(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Server 1 is behind a slow link; servers may be silent for a tenth of the time that `LARGE` takes there."""
    monkeypatch.setattr(clients, "SILENCE_S", 0.08)
    monkeypatch.setattr(clients, "PATIENCE_S", 0.08)
    for number in (1, 2):
        cluster.start(number)
        cluster.ask(number)  # it listens
    link = SlowLink(cluster.address(1))
    addresses = {1: link.address, 2: cluster.address(2)}
    monkeypatch.setattr(cluster, "address", addresses.__getitem__)
    yield cluster
    link.close()


def has_all(client: BackupClient) -> bool:
    """True when the slow server is in sync, and has acknowledged the large record."""
    return client._peers[0].in_sync and client._peers[0].acked >= 1


def test_a_record_gets_through_a_slow_link_to_the_only_server(slow: Cluster) -> None:
    client = slow.client(1, 1)
    client.open()
    client.save(*LARGE)
    await_that(client, lambda: client.durable == 1)


def test_a_slow_server_catches_up_while_the_others_go_on_without_it(slow: Cluster) -> None:
    client = slow.client(1, 1, 2)
    client.open()
    client.save(*LARGE)
    await_that(client, lambda: client.durable == 1)
    assert not has_all(client), "the other one is faster"
    await_that(client, lambda: has_all(client))
    slow.kill(2)
    point = slow.client(2, 1, 2).open()
    assert point.state is not None and np.array_equal(point.state.arrays[0], LARGE[3][0])


def test_one_that_catches_up_delays_nobody(slow: Cluster) -> None:
    client = slow.client(1, 1, 2)
    client.open()
    client.save(*LARGE)
    await_that(client, lambda: client.durable == 1)
    client.save("item", 3, {}, [np.zeros(2)])
    await_that(client, lambda: client.durable == 2)
    assert not has_all(client)
    client.save(*state(4))
    await_that(client, lambda: client.durable == 3 and client._peers[0].acked == 3 and client._peers[0].in_sync)
