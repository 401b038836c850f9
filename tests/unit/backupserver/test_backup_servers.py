"""Real backup servers and clients: what is acknowledged survives, whoever is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import s3fs
import zmq
from kept_records import NAME, OTHER, found, save
from moto.server import ThreadedMotoServer

from riprap.backupserver.client import BackupClient, BackupUnavailable
from riprap.backupserver.forget import forget
from riprap.backupserver.storage import open_storage
from riprap.backupserver.store import Store
from riprap.codec.trust.curve import call_as, call_with
from riprap.codec.trust.keys import BACKUP, CLIENT, WorkerKeys, own_authority
from riprap.codec.trust.rotation import keyring

WAIT_S = 120.0


class Cluster:
    """Backup servers as processes, on abstract addresses that outlive them, and the clients of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix = folder, f"ipc://@riprap-test-{uuid.uuid4().hex[:12]}"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.clients: list[BackupClient] = []

    def address(self, number: int) -> str:
        return f"{self.prefix}-{number}"

    def start(self, number: int = 1, durability: str = "interval", limit_bytes: int = 0, piece_bytes: int = 0) -> None:
        code = "import resource, sys; from riprap.backupserver.server import serve\n"
        if limit_bytes:
            code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            code += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes}))\n"
        if piece_bytes:
            code += f"from riprap.backupserver import pieces; pieces.PIECE_BYTES = {piece_bytes}\n"
        code += "serve(sys.argv[1], sys.argv[2], sys.argv[3], 20)"
        words = [sys.executable, "-c", code, self.address(number), str(self.folder / str(number)), durability]
        self.processes[number] = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def kill(self, number: int = 1) -> None:
        self.processes[number].kill()
        self.processes.pop(number).wait()

    def client(self, incarnation: int, *numbers: int, deadline_s: float = WAIT_S, **more: Any) -> BackupClient:
        servers = [self.address(number) for number in numbers or (1,)]
        keys = WorkerKeys(own_authority().life(NAME, incarnation), keyring().servers)
        client = BackupClient(servers, NAME, incarnation, keys, deadline_s=deadline_s, **more)
        self.clients.append(client)
        return client

    def ask(self, number: int = 1, *frames: bytes) -> dict[str, Any]:
        """Send a raw message, then ask for the server's status."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, int(WAIT_S * 1000))
            call_as(socket, CLIENT, BACKUP)
            socket.connect(self.address(number))
            if frames:
                socket.send_multipart(frames)
            socket.send(msgpack.packb({"type": "status"}))
            while (answer := msgpack.unpackb(socket.recv_multipart()[0]))["type"] != "status":
                pass
        return dict(answer)

    def close(self) -> None:
        for client in self.clients:
            client.close(0.0)
        for number in list(self.processes):
            self.kill(number)


def await_that(client: BackupClient, condition: Callable[[], bool]) -> None:
    """Wait, on the client's own notice of progress."""
    for _ in range(int(WAIT_S / 0.05)):
        if condition():
            return
        client._grown.wait(0.05)
        client._grown.clear()
    raise AssertionError("it did not happen in time")


def state(epoch: int) -> tuple[str, int, dict[str, Any], list[np.ndarray]]:
    return "state", epoch, {"epoch": epoch}, [np.full(5, float(epoch))]


def item(epoch: int) -> tuple[str, int, dict[str, Any], list[np.ndarray]]:
    return "item", epoch, {}, [np.full(2, float(epoch))]


def saved_at_two(cluster: Cluster) -> BackupClient:
    """A client of two servers, both of which have its state of epoch 1."""
    cluster.start(1)
    cluster.start(2)
    client = cluster.client(1, 1, 2)
    client.open()
    client.save(*state(1))
    await_that(client, lambda: client.durable == 1)
    return client


def test_a_life_reads_and_writes_its_own_records_alone(cluster: Cluster) -> None:
    """Not another worker's of its job, and no other incarnation's, whatever it says it is."""
    cluster.start()
    sink = cluster.client(2)
    assert sink.open().state is None
    sink.save(*state(1))
    await_that(sink, lambda: sink.durable == 1)
    keys = own_authority()
    for holder in (keys.life(OTHER, 9), keys.life(NAME, 1), keys.life(NAME, 4), keys.pair(CLIENT)):
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, int(WAIT_S * 1000))
            call_with(socket, holder, keys.pair(BACKUP).public)
            socket.connect(cluster.address(1))
            for fence in (3, (1 << 62) - 1):
                socket.send(msgpack.packb({"type": "open", "name": NAME, "fence": fence, "fetch": True}))
    deadline = time.monotonic() + WAIT_S
    while (status := cluster.ask())["intruders"] < 8 and time.monotonic() < deadline:
        pass
    assert (status["intruders"], status["refused"]) == (8, 0)
    sink.save(*state(2))
    await_that(sink, lambda: sink.durable == 2)


def test_what_was_saved_is_restored_to_the_last_bit(cluster: Cluster) -> None:
    cluster.start()
    first = cluster.client(1)
    assert first.open().state is None
    rng = np.random.default_rng(1)
    saved = [
        ("item", 7, {"n": n}, [rng.random((500, 5)), rng.integers(0, 9, 3), np.array([True, False])]) for n in range(20)
    ]
    first.save(*state(6))
    for one in saved:
        assert first.save(*one)
    assert first.close(WAIT_S), "everything is durable"
    point = cluster.client(2).open()
    assert point.state is not None and point.state.epoch == 6 and point.dropped == ""
    assert [record.meta for record in point.items] == [{"n": n} for n in range(20)]
    for record, (_, _, _, arrays) in zip(point.items, saved):
        assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(record.arrays, arrays))


def test_a_forgotten_job_is_gone_from_servers_that_answer_and_its_last_worker_is_fenced(cluster: Cluster) -> None:
    client = saved_at_two(cluster)
    nobody = cluster.address(3)
    assert forget([cluster.address(1), cluster.address(2), nobody], "job", 2.0) == [nobody]
    for epoch in range(2, 50):
        client.save(*state(epoch))
    await_that(client, lambda: client.fenced)
    late = cluster.client(2, 1, 2)
    with pytest.raises(BackupUnavailable, match="a newer incarnation"):
        late.open()
    for one in (client, late):
        one.close(0.0)  # an incarnation that goes on asking would be taken for one of a new job of that name
    for number in (1, 2):
        cluster.kill(number)
        cluster.start(number)
        assert cluster.ask(number)["workers"] == 0, "for good"


@pytest.mark.parametrize("durability", ["always", "interval", "never"])
def test_a_server_killed_under_load_has_everything_that_was_acknowledged(cluster: Cluster, durability: str) -> None:
    rng = random.Random(7)
    cluster.start(durability=durability)
    client, epoch = cluster.client(1), 0
    client.open()
    for _ in range(3):
        for _ in range(rng.randrange(30, 200)):
            epoch += 1
            client.save(*state(epoch))
        await_that(client, lambda: client.durable > 0)
        durable = client.durable
        cluster.kill()
        cluster.start(durability=durability)
        await_that(client, lambda: client.durable >= client._sequence)
        assert client.durable >= durable
    cluster.kill()
    cluster.start(durability=durability)
    point = cluster.client(2).open()
    assert point.state is not None and point.state.epoch == epoch


def test_commits_are_grouped_and_synced_as_was_asked(cluster: Cluster) -> None:
    for number, durability in enumerate(("always", "never"), 1):
        cluster.start(number, durability)
        client = cluster.client(1, number)
        client.open()
        for epoch in range(1, 401):
            client.save(*state(epoch))
        await_that(client, lambda client=client: client.durable == 400)
        status = cluster.ask(number)
        assert 0 < status["groups"] < 400 and status["records"] <= 400
        assert status["syncs"] == (status["groups"] + 2 if durability == "always" else 0), (
            "the fence's and its origin's"
        )


def test_an_older_life_can_neither_write_nor_read(cluster: Cluster) -> None:
    cluster.start()
    old, new = cluster.client(1), cluster.client(2)
    old.open()
    old.save(*state(1))
    await_that(old, lambda: old.durable == 1)
    point = new.open()
    assert point.state is not None and point.state.epoch == 1
    old.save(*state(99))
    await_that(old, lambda: old.fenced)
    assert old.durable == 1 and cluster.ask()["refused"] >= 1
    with pytest.raises(BackupUnavailable, match="a newer incarnation"):
        cluster.client(1).open()
    cluster.kill()
    cluster.start()
    with pytest.raises(BackupUnavailable, match="a newer incarnation"):
        cluster.client(1).open()
    again = cluster.client(3).open()
    assert again.state is not None and again.state.epoch == 1


def test_a_standby_takes_over_and_the_one_that_comes_back_is_brought_in_sync(cluster: Cluster) -> None:
    client = saved_at_two(cluster)
    cluster.kill(1)
    client.save(*state(2))
    await_that(client, lambda: client.durable == 2)
    second = cluster.client(2, 1, 2)
    point = second.open()
    assert point.state is not None and point.state.epoch == 2, "the standby's answer is enough: it was in sync"
    second.save(*state(3))
    cluster.start(1)
    await_that(second, lambda: all(peer.in_sync for peer in second._peers) and second.durable == second._sequence)
    cluster.kill(2)
    third = cluster.client(3, 1, 2)
    point = third.open()
    assert point.state is not None and point.state.epoch == 3


def test_a_server_that_may_have_missed_something_is_not_trusted_alone(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    client = cluster.client(1, 1, 2)
    client.open()
    cluster.kill(1)
    client.save(*state(2))
    await_that(client, lambda: client.durable == 1)
    client.close(0.0)
    cluster.kill(2)
    cluster.start(1)
    with pytest.raises(BackupUnavailable, match=f"{cluster.prefix}-2 did not answer") as error:
        cluster.client(2, 1, 2, deadline_s=1.0).open()
    assert "take them out of backup.servers" in error.value.remedy
    cluster.start(2)
    point = cluster.client(2, 1, 2).open()
    assert point.state is not None and point.state.epoch == 2, "the newest of all answers"


def test_what_an_incarnation_saved_where_the_next_one_could_not_look_is_cut_off(cluster: Cluster) -> None:
    """It comes to light when that server is back, and must not be taken for what was saved since."""
    client = saved_at_two(cluster)
    cluster.kill(2)
    client.save(*item(5))
    client.save(*state(7))
    await_that(client, lambda: client.durable == 3)
    client.close(0.0)
    cluster.kill(1)
    cluster.start(2)
    second = cluster.client(2, 2)
    assert second.open().state.epoch == 1  # type: ignore[union-attr]
    second.save(*item(6))
    await_that(second, lambda: second.durable == second._sequence)
    second.close(0.0)
    cluster.start(1)
    third = cluster.client(3, 1, 2)
    assert [one.epoch for one in third.open().items] == [6]
    await_that(third, lambda: all(peer.in_sync for peer in third._peers))
    third.close(0.0)
    cluster.kill(2)
    for incarnation in (4, 5):  # the second time from its log alone
        point = cluster.client(incarnation, 1).open()
        assert point.state is not None and point.state.epoch == 1
        assert [one.epoch for one in point.items] == [6]
        cluster.kill(1)
        cluster.start(1)


def test_servers_that_are_not_there_are_named_at_the_deadline(cluster: Cluster) -> None:
    with pytest.raises(BackupUnavailable, match=cluster.address(1)):
        cluster.client(1, deadline_s=0.2).open()


def test_a_full_disk_holds_up_and_is_survived(cluster: Cluster) -> None:
    cluster.start(limit_bytes=60_000)
    client = cluster.client(1, window_bytes=100_000)
    client.open()
    number, refused = 0, False
    while not refused and number < 200:
        number += 1
        refused = not client.save("item", number, {}, [np.full(1000, float(number))])
    assert refused, "the window gives back-pressure"
    await_that(client, lambda: "File too large" in cluster.ask()["full"])
    assert client.durable < number
    cluster.kill()
    cluster.start()
    await_that(client, lambda: client.durable == client._sequence)
    client.close(WAIT_S)
    items = cluster.client(2).open().items
    assert [record.epoch for record in items] == list(range(1, number))
    assert all(record.arrays[0][0] == record.epoch for record in items)


def test_malformed_messages_are_dropped_and_counted(cluster: Cluster) -> None:
    cluster.start()
    rng = random.Random(3)
    pack = msgpack.packb
    odd = [
        b"", b"\xc1", pack(5), pack({}), pack({"type": 3}), pack({"type": "open"}), pack({"type": "open", "name": "x"}),
        pack({"type": "open", "name": "x" * 600, "fence": 1}), pack({"type": "open", "name": "x", "fence": -1}),
        pack({"type": "open", "name": "x", "fence": 2**63}), pack({"type": "nonsense", "name": "x", "fence": 0}),
        pack({"type": "save", "name": "x", "fence": 0, "kind": "fence", "seq": 1, "epoch": 1}),
        pack({"type": "save", "name": "x", "fence": 0, "kind": "state", "seq": "1", "epoch": 1}),
        *(rng.randbytes(rng.randrange(1, 80)) for _ in range(200)),
    ]  # fmt: skip
    for frame in odd:
        before = cluster.ask()["malformed"]
        assert cluster.ask(1, frame)["malformed"] == before + 1, frame
    assert cluster.ask()["records"] == 0 and cluster.processes[1].poll() is None


def test_the_worker_is_woken_when_something_has_become_durable(cluster: Cluster) -> None:
    cluster.start()
    woken = threading.Event()
    client = cluster.client(1, wake=woken.set)
    client.open()
    client.save(*state(1))
    assert woken.wait(WAIT_S) and client.durable == 1


def test_an_s3_bucket_holds_what_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3fs.S3FileSystem().mkdir("bucket")
        store = Store(open_storage("s3://bucket/riprap"))
        for number in (1, 2, 3):
            save(store, "item", number + 1, 2 * number)
            save(store, "state", number, 2 * number + 1)
            store.compact()
        assert found(Store(open_storage("s3://bucket/riprap"))) == (3, [(4, 6)])
    finally:
        server.stop()


def test_a_life_recalls_what_the_next_one_would_find(cluster: Cluster) -> None:
    cluster.start()
    first = cluster.client(1)
    first.open()
    for record in (state(1), ("item", 2, {}, [np.arange(2.0)])):
        first.save(*record)
    await_that(first, lambda: first.durable == 2)
    client = cluster.client(2)
    client.open()
    for record in (state(3), ("item", 3, {}, [np.arange(3.0)]), ("item", 5, {"of": 5}, [np.arange(5.0)])):
        client.save(*record)
    recalled = client.recall(WAIT_S)
    assert client.durable == client._sequence, "all of it is safe by then"
    found = cluster.client(3).open()
    assert recalled.state and found.state and recalled.state.epoch == found.state.epoch == 3
    assert [(one.epoch, one.meta, one.arrays[0].tolist()) for one in recalled.items] == [
        (one.epoch, one.meta, one.arrays[0].tolist()) for one in found.items
    ]
    assert [one.epoch for one in recalled.items] == [5]


def test_a_life_recalls_nothing_that_is_not_safe(cluster: Cluster) -> None:
    cluster.start()
    client = cluster.client(1)
    client.open()
    cluster.kill()
    client.save(*state(1))
    with pytest.raises(BackupUnavailable, match="no backup server has confirmed"):
        client.recall(0.2)


def part(number: int, value: float) -> tuple[str, int, dict[str, Any], list[np.ndarray]]:
    return "checkpoint", number, {"number": number}, [np.full(3, value)]


def test_parts_of_checkpoints_are_kept_until_a_later_one_is_whole(cluster: Cluster) -> None:
    """Two newest ones would not do: others may never have finished those (specification of snapshots, 2.4)."""
    cluster.start()
    first = cluster.client(1)
    first.open()
    for number in range(1, 7):
        first.save(*part(number, number))
    await_that(first, lambda: first.durable == 6)
    recalled = first.recall(WAIT_S, checkpoint=2)
    assert recalled.state is not None and recalled.state.arrays[0].tolist() == [2, 2, 2]
    second = cluster.client(2)
    point = second.open(checkpoint=2)
    assert point.state is not None and point.state.meta == {"number": 2}
    assert [one.meta for one in point.items] == [{"number": 1}], "of which it may hold the changes alone"
    second.release(2)
    second.save(*part(3, 33))
    await_that(second, lambda: second.durable == second._sequence)
    assert cluster.ask()["live_bytes"] > 0
    third = cluster.client(3)
    assert third.open(checkpoint=1).state is None, "released"
    newest = cluster.client(4).open(checkpoint=3)
    assert newest.state is not None and newest.state.arrays[0].tolist() == [33, 33, 33], "the later incarnation's"


def test_what_came_before_an_epoch_is_needed_no_more_once_a_record_says_so(cluster: Cluster) -> None:
    """States and items; parts of checkpoints have numbers of their own."""
    cluster.start()
    first = cluster.client(1)
    first.open()
    first.save(*state(2))
    first.save(*part(1, 1))
    for epoch in range(3, 7):
        first.save(*item(epoch))
    first.save(*item(7), since=5)
    await_that(first, lambda: first.durable == 7)
    recalled = first.recall(WAIT_S)
    second = cluster.client(2)
    for point in (recalled, second.open()):
        assert point.state is None and [one.epoch for one in point.items] == [5, 6, 7]
    second.save(*item(8))
    await_that(second, lambda: second.durable == second._sequence)
    again = cluster.client(3).open(checkpoint=1)
    assert again.state is not None, "that part was not released"


def test_parts_are_recalled_without_waiting_for_what_was_saved_since(cluster: Cluster) -> None:
    cluster.start()
    client = cluster.client(1)
    client.open()
    client.save(*part(1, 1))
    await_that(client, lambda: client.durable == 1)
    cluster.kill()
    client.save(*part(2, 2))
    recalled = client.recall(0.2, checkpoint=1)
    assert recalled.state is not None and recalled.state.meta == {"number": 1}
    assert client.recall(0.2, checkpoint=9).state is None
    assert client.recall(0.2).state is None, "the job goes back to its beginning"


def test_a_server_that_comes_back_gets_the_parts_that_it_missed(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    client = cluster.client(1, 1, 2)
    client.open()
    client.save(*part(1, 1))
    await_that(client, lambda: client.durable == 1)
    cluster.kill(2)
    client.save(*part(2, 2))
    await_that(client, lambda: client.durable == 2)
    cluster.start(2)
    await_that(client, lambda: all(peer.in_sync for peer in client._peers))
    cluster.kill(1)
    later = cluster.client(2, 2)
    point = later.open(checkpoint=2)
    assert point.state is not None and point.state.meta == {"number": 2}
