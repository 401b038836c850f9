"""A client on the server's host reads records where they stand in the log; whatever is odd there, it is sent them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_records import NAME, OTHER
from test_backup_copies import COPY, reader
from test_backup_servers import Cluster, await_that, state

from riprap.backupserver.client import BackupClient
from riprap.backupserver.pieces import Bodies
from riprap.backupserver.places import Unreadable, bodies_at, named
from riprap.backupserver.record import Head
from riprap.backupserver.storage import open_storage
from riprap.backupserver.store import Store


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frames of each piece that has come by a socket."""
    found: list[int] = []
    take = Bodies.take

    def noting(self: Bodies, message: dict[str, Any], frames: Any) -> None:
        found.append(len(frames))
        take(self, message, frames)

    monkeypatch.setattr(Bodies, "take", noting)
    return found


def saved(cluster: Cluster, *epochs: int) -> BackupClient:
    """Its states of these epochs, and an item behind them, are at a server."""
    cluster.start()
    client = cluster.client(1)
    client.open()
    for number, epoch in enumerate(epochs, 1):
        client.save(*state(epoch))
        await_that(client, lambda number=number: client.durable == number)
    client.save("item", epochs[-1] + 1, {"n": 1}, [np.arange(3)])
    await_that(client, lambda: client.durable == len(epochs) + 1)
    return client


def restored(client: BackupClient) -> tuple[int, list[float], list[dict[str, Any]], str]:
    """The restore point: epoch and values of the state, fields of the items, what was dropped."""
    point = client.open()
    assert point.state is not None
    items = [record.meta for record in point.items]
    return point.state.epoch, point.state.arrays[0].tolist(), items, point.dropped


WHOLE = (2, [2.0] * 5, [{"n": 1}], "")


def test_nothing_is_sent_on_one_host_and_what_is_read_can_be_given_to_another_server(
    cluster: Cluster, pieces: list[int]
) -> None:
    saved(cluster, 1, 2)
    cluster.start(2)
    client = cluster.client(2, 1, 2)
    assert restored(client) == WHOLE and pieces == []
    await_that(client, lambda: all(peer.in_sync for peer in client._peers))
    client.close(1.0)
    cluster.kill(1)
    assert restored(cluster.client(3, 2)) == WHOLE and pieces == []


def test_a_part_of_a_checkpoint_is_read_with_those_before_it(cluster: Cluster, pieces: list[int]) -> None:
    cluster.start()
    client = cluster.client(1)
    client.open()
    for number in (1, 2, 3):
        client.save("checkpoint", number, {"number": number}, [np.full(4, number)])
    await_that(client, lambda: client.durable == 3)
    point = cluster.client(2).open(2)
    assert point.state is not None and point.state.meta == {"number": 2} and pieces == []
    assert [record.meta for record in point.items] == [{"number": 1}]


def test_what_was_read_outlives_its_segment(cluster: Cluster) -> None:
    saved(cluster, 1, 2)
    point = cluster.client(2).open()
    shutil.rmtree(cluster.folder / "1")
    assert point.state is not None and point.state.arrays[0].tolist() == [2.0] * 5


def test_where_the_segments_are_not_to_be_had_records_are_sent(
    cluster: Cluster, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another mount namespace there is nothing at that path, or something else."""
    saved(cluster, 1, 2)
    monkeypatch.setattr(f"{Bodies.__module__}.bodies_at", lambda _, *rest: bodies_at("/nonexistent", *rest))
    client = cluster.client(2)
    assert restored(client) == WHOLE and pieces
    client.save(*state(4))
    await_that(client, lambda: client.durable == client._sequence)


def test_of_what_is_damaged_the_server_tells(cluster: Cluster, pieces: list[int]) -> None:
    """And gives the state before it."""
    saved(cluster, 1, 2)
    (segment,) = (cluster.folder / "1").glob("*.segment")
    data = bytearray(segment.read_bytes())
    at = data.index(np.full(5, 2.0).tobytes())
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"\x01")
    epoch, values, _, dropped = restored(cluster.client(2))
    assert (epoch, values) == (1, [1.0] * 5) and "the state of epoch 2" in dropped and pieces


def test_a_copy_reads_what_the_other_has_saved(
    cluster: Cluster, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(cluster, 1, 2)
    name, point = reader(cluster).newest([NAME], 1)
    assert name == NAME != COPY and point.state is not None and point.state.epoch == 2 and pieces == []

    def unreadable(*_: Any) -> list[memoryview]:
        raise Unreadable

    monkeypatch.setattr(f"{Bodies.__module__}.bodies_at", unreadable)
    _, sent = reader(cluster).newest([NAME], 1)
    assert sent.state is not None and sent.state.arrays[0].tolist() == [2.0] * 5 and pieces


@pytest.fixture
def log(tmp_path: Path) -> tuple[str, list[Any], list[Any]]:
    """The directory of a log, and what is said of two records of a worker there, with a third that is another's."""
    store = Store(open_storage(str(tmp_path / "log")))
    heads = [Head("state", NAME, 1, 1, 5), Head("item", NAME, 1, 2, 6), Head("state", OTHER, 1, 1, 5)]
    store.append([(head, [b"body of ", str(number).encode()]) for number, head in enumerate(heads)])
    records, places = named([*store.live(NAME), *store.live(OTHER)])
    folder = store.segments.storage.folder
    store.segments.close()
    return folder, records, places


def test_bodies_are_those_of_the_records(log: tuple[str, list[Any], list[Any]]) -> None:
    folder, records, places = log
    assert [bytes(body) for body in bodies_at(folder, NAME, records[:2], places[:2])] == [b"body of 0", b"body of 1"]
    assert bodies_at(folder, NAME, [], []) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda folder, records, places: (f"{folder}x", records[:1], places[:1]),
        lambda folder, records, places: (None, records[:1], places[:1]),
        lambda folder, records, places: (folder, records[:2], places[:1]),
        lambda folder, records, places: (folder, records[:1], None),
        lambda folder, records, places: (folder, records[2:], places[2:]),
        lambda folder, records, places: (folder, records[:1], places[1:2]),
        *(
            lambda folder, records, places, wrong=wrong: (folder, records[:1], [wrong(*places[0])])
            for wrong in (
                lambda segment, offset, length: [f"../log/{segment}", offset, length],
                lambda segment, offset, length: ["", offset, length],
                lambda segment, offset, length: ["lock", offset, length],
                lambda segment, offset, length: [segment, offset + 1, length],
                lambda segment, offset, length: [segment, -1, length],
                lambda segment, offset, length: [segment, 1 << 40, length],
                lambda segment, offset, length: [segment, offset, length + 1],
                lambda segment, offset, length: [segment, offset, 1 << 40],
                lambda segment, offset, length: [segment, offset],
                lambda segment, offset, length: {"segment": segment},
            )
        ),
    ],
)
def test_other_places_are_not_read(log: tuple[str, list[Any], list[Any]], change: Any) -> None:
    folder, records, places = change(*log)
    with pytest.raises(Unreadable):
        bodies_at(folder, NAME, records, places)
