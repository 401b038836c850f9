"""The disk of a backup server, when it is short of something: what is dead makes room, and what lives stays."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kept_records import NAME, OTHER, closed, found, save
from test_backup_copies import reader, saved
from test_backup_servers import WAIT_S, Cluster, await_that, saved_at_two, state

from riprap.backupserver.client import BackupUnavailable
from riprap.backupserver.storage_local import LocalStorage
from riprap.backupserver.store import Store


class Small(LocalStorage):
    """A disk that has room for so many bytes."""

    room = 1 << 40

    def append(self, name: str, buffers: Sequence[Any], at: int) -> None:
        used = sum(path.stat().st_size for path in self.directory.glob("*.segment"))
        if used + sum(map(len, buffers)) > self.room:
            raise OSError(errno.ENOSPC, "no space left")
        super().append(name, buffers, at)


class Unreadable(LocalStorage):
    """A disk, or what is between, that gives nothing for a while."""

    is_down = False

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if self.is_down:
            raise OSError(errno.EIO, "input/output error")
        return super().read(name, offset, length)


class Unsynced(LocalStorage):
    """A disk that gives up what it could not write, and says so once."""

    is_down = False

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.given_up: set[str] = set()

    def sync(self, name: str) -> None:
        if self.is_down:
            self.given_up.add(name)
            raise OSError(errno.EIO, "input/output error")
        super().sync(name)


def compact(store: Store) -> OSError | None:
    """As a server does, again and again; the error, if there was one."""
    try:
        store.compact()
    except OSError as error:
        return error
    finally:
        store.segments.sync()
    return None


def test_what_is_dead_is_deleted_though_there_is_no_room_to_copy_what_lives(tmp_path: Path) -> None:
    storage = Small(str(tmp_path))
    store = Store(storage, segment_bytes=4000)
    for number in range(1, 9):
        save(store, "item", 9, number, OTHER)
    for number in range(1, 60):
        save(store, "state", number, number)
    storage.room = sum(path.stat().st_size for path in tmp_path.glob("*.segment")) + 600
    for number in range(60, 63):
        save(store, "state", number, number)
    assert compact(store), "the items that live in the first segment have no room elsewhere"
    assert compact(store) is None
    assert compact(store) is None
    for number in range(63, 400):
        save(store, "state", number, number)
        compact(store)
    assert found(store, NAME) == (399, []) and len(found(store, OTHER)[1]) == 8
    closed(store)


def test_what_could_not_be_read_for_a_while_is_not_given_up(tmp_path: Path) -> None:
    storage = Unreadable(str(tmp_path))
    store = Store(storage, segment_bytes=2000)
    save(store, "state", 7, 1)
    for number in range(1, 30):
        save(store, "state", number, number, OTHER)
    storage.is_down = True
    for _ in range(3):
        assert compact(store) is None
    storage.is_down = False
    for number in range(30, 60):
        save(store, "state", number, number, OTHER)
        compact(store)
    assert found(store, NAME) == (7, []) and not store.damage
    assert store.statistics()["segments"] < 4, "it was copied when it could be read"
    closed(store)


def test_what_could_not_be_synced_is_copied_before_it_counts_as_safe(tmp_path: Path) -> None:
    """What was saved, and what was copied from a segment that is gone then."""
    storage = Unsynced(str(tmp_path))
    store = Store(storage)
    save(store, "state", 7, 1, OTHER)
    for number in range(1, 12):
        save(store, "state", number, number)
    store.segments.sync()
    store.segments.seal()
    store.compact()
    assert store.statistics()["segments"] == 2, "the other worker's state was copied"
    storage.is_down = True
    save(store, "state", 12, 12)
    for _ in range(3):
        with pytest.raises(OSError, match="input/output"):
            store.segments.sync()
        store.compact()
    assert store.statistics()["segments"] == 2, "nothing is copied before a sync succeeds"
    with contextlib.suppress(OSError):
        store.segments.end_sync(wait=True)
    storage.is_down = False
    for _ in range(4):
        assert compact(store) is None
    closed(store)
    for name in storage.given_up:
        (tmp_path / name).write_bytes(b"")
    again = Store(LocalStorage(str(tmp_path)))
    assert found(again) == (12, []) and found(again, OTHER) == (7, [])
    closed(again)


def test_a_log_of_many_segments_takes_few_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=1)
    for number in range(1, 100):
        save(store, "item", number, number)
    store.segments.sync()
    assert store.statistics()["segments"] == 99 and len(os.listdir("/proc/self/fd")) < before + 20
    closed(store)


def test_a_segment_that_holds_nothing_whole_is_deleted(tmp_path: Path) -> None:
    """As the server leaves one that is killed while it writes the first record, or has just begun it."""
    store = Store(LocalStorage(str(tmp_path)))
    save(store, "state", 1, 1)
    closed(store)
    (segment,) = tmp_path.glob("*.segment")
    for number, size in ((2, 60), (3, 0)):
        (tmp_path / f"{number:012d}.segment").write_bytes(segment.read_bytes()[:size])
    store = Store(LocalStorage(str(tmp_path)))
    assert "a torn tail" in store.damage
    for epoch in (2, 3, 4):
        save(store, "state", epoch, epoch)
        compact(store)
    assert sorted(path.stem[-1] for path in tmp_path.glob("*.segment")) == ["4"] and found(store) == (4, [])
    closed(store)


Hidden = Callable[[int], contextlib.AbstractContextManager[None]]


@pytest.fixture
def hidden(cluster: Cluster) -> Hidden:
    """Takes the segments away from a server that runs, as if nothing answered where they are, and gives them back."""

    @contextlib.contextmanager
    def hiding(number: int) -> Iterator[None]:
        segments = [*(cluster.folder / str(number)).glob("*.segment")]
        for one in segments:
            one.rename(one.with_suffix(".hidden"))
        yield
        for one in segments:
            one.with_suffix(".hidden").rename(one)

    return hiding


def test_what_cannot_be_read_for_a_while_is_waited_for(cluster: Cluster, hidden: Hidden) -> None:
    """To go on from something older would cut it off for good."""
    cluster.start()
    client = cluster.client(1)
    client.open()
    client.save(*state(1))
    client.save(*state(2))
    await_that(client, lambda: client.durable == 2)
    with ThreadPoolExecutor(1) as pool:
        with hidden(1):
            opened = pool.submit(cluster.client(2).open)
            while not opened.done() and not cluster.ask().get("unreadable"):
                pass
        point = opened.result(WAIT_S)
    assert point.state is not None and point.state.epoch == 2 and not point.dropped
    assert not cluster.ask()["unreadable"]


def test_who_cannot_read_in_time_is_named_with_the_reason(cluster: Cluster, hidden: Hidden) -> None:
    cluster.start()
    client = cluster.client(1)
    client.open()
    client.save(*state(1))
    await_that(client, lambda: client.durable == 1)
    with hidden(1), pytest.raises(BackupUnavailable, match=r"-1 \(.*No such file.*\) did not answer for 0.5 s"):
        cluster.client(2, deadline_s=0.5).open()


def test_another_server_stands_in_for_one_that_cannot_read(cluster: Cluster, hidden: Hidden) -> None:
    """It joins nevertheless, for it can write."""
    saved_at_two(cluster)
    with hidden(1):
        client = cluster.client(2, 1, 2)
        point = client.open()
        assert point.state is not None and point.state.epoch == 1
        client.save(*state(3))
        await_that(client, lambda: all(peer.in_sync for peer in client._peers))


def test_a_copy_goes_on_from_its_own_where_the_others_cannot_be_read(cluster: Cluster, hidden: Hidden) -> None:
    cluster.start()
    saved(cluster, 1)
    with hidden(1):
        assert reader(cluster).newest([NAME], -1)[0] == ""
    assert reader(cluster).newest([NAME], -1)[0] == NAME
