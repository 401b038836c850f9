"""The log of a backup server: whatever a crash, a bad disk or a full one does to it, it serves whole records only."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_records import NAME, OTHER, Found, body, closed, found, save

from riprap.backupserver.body import DTYPES, pack_body, unpack_body
from riprap.backupserver.protocol import origins
from riprap.backupserver.record import ORIGINS_KEPT, Head, Origin
from riprap.backupserver.storage import open_storage
from riprap.backupserver.storage_local import LocalStorage
from riprap.backupserver.store import Store
from riprap.codec.errors import ConfigError, FrameError


def small_log(folder: Path) -> tuple[bytes, list[Found], list[int]]:
    """A log of ten records: its bytes, and after each record what can be restored and where the log ends."""
    store = Store(LocalStorage(str(folder)))
    truths, ends = [(None, [])], [0]
    steps = [("fence", 0, 0), ("item", 1, 1), ("state", 1, 2), ("item", 2, 3), ("item", 3, 4), ("state", 2, 5)]
    steps += [("item", 3, 6), ("state", 3, 7), ("item", 4, 8), ("item", 4, 9)]
    for kind, epoch, sequence in steps:
        save(store, kind, epoch, sequence)
        truths.append(found(store))
        ends.append(store.segments.size)
    closed(store)
    (segment,) = folder.glob("*.segment")
    return segment.read_bytes(), truths, ends


def reopened(folder: Path, content: bytes) -> Store:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.segment"):
        old.unlink()
    (folder / "000000000001.segment").write_bytes(content)
    return Store(LocalStorage(str(folder)))


def test_a_log_that_is_cut_anywhere_serves_what_was_whole(tmp_path: Path) -> None:
    content, truths, ends = small_log(tmp_path / "whole")
    for size in range(len(content) + 1):
        store = reopened(tmp_path / "cut", content[:size])
        records = sum(end <= size for end in ends) - 1
        assert found(store) == truths[records], f"cut after {size} bytes"
        assert bool(store.damage) == (size not in ends), "a torn tail is told of"
        save(store, "state", 50, 99)
        assert found(store) == (50, [])
        closed(store)
        again = Store(LocalStorage(str(tmp_path / "cut")))
        assert found(again) == (50, []), "what is written behind a torn tail is found again"
        closed(again)


def test_a_flipped_bit_anywhere_costs_one_record_and_is_told_of(tmp_path: Path) -> None:
    content, _, ends = small_log(tmp_path / "whole")
    steps = [(1, 1), (2, 3), (3, 4), (3, 6), (4, 8), (4, 9)]
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= 1 << (offset % 8)
        store = reopened(tmp_path / "flipped", bytes(damaged))
        assert store.damage, f"offset {offset}"
        state, items = found(store)
        hit = sum(end <= offset for end in ends)  # the number of the record, from 1
        newest = 2 if hit == 8 else 3
        assert state == newest, f"offset {offset}: the newest whole state"
        expected = [entry for entry in steps if entry[0] > newest and entry != _item_of(hit)]
        assert items == expected, f"offset {offset}"
        closed(store)


def _item_of(number: int) -> tuple[int, int] | None:
    return {2: (1, 1), 4: (2, 3), 5: (3, 4), 7: (3, 6), 9: (4, 8), 10: (4, 9)}.get(number)


def test_a_record_that_rots_while_the_server_runs_is_not_served(tmp_path: Path) -> None:
    store = Store(LocalStorage(str(tmp_path)))
    save(store, "state", 1, 1)
    save(store, "item", 2, 2)
    end = store.segments.size
    save(store, "state", 2, 3)
    (segment,) = tmp_path.glob("*.segment")
    content = bytearray(segment.read_bytes())
    content[end + 60] ^= 4
    segment.write_bytes(content)
    assert found(store) == (1, [(2, 2)])
    dropped: list[str] = []
    assert len([*store.restore(NAME, dropped)]) == 2 and dropped == ["the state of epoch 2"]


class Model:
    """What a dictionary would keep of one worker."""

    def __init__(self) -> None:
        self.states: dict[tuple[int, int], int] = {}
        self.items: dict[tuple[int, int], int] = {}

    def cut(self, number: int) -> tuple[int, int]:
        """Without the newest so many records; the newest that is left."""
        kept = [(0, 0), *sorted([*self.states, *self.items])][:-number] or [(0, 0)]
        self.states = {key: epoch for key, epoch in self.states.items() if key in kept}
        self.items = {key: epoch for key, epoch in self.items.items() if key in kept}
        return kept[-1]

    def records(self) -> list[tuple[str, tuple[int, int], int]]:
        """All that there are, in their order."""
        states = [("state", key, epoch) for key, epoch in self.states.items()]
        return sorted([*states, *(("item", key, epoch) for key, epoch in self.items.items())], key=lambda one: one[1])

    def found(self) -> Found:
        state = self.states[max(self.states)] if self.states else None
        kept = sorted(key for key, epoch in self.items.items() if epoch > (state or 0))
        return state, [(self.items[key], key[1]) for key in kept]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["state", "item", "item", "begin", "cut", "reopen", "compact", "sync"]), st.integers(1, 3)
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(actions=ACTIONS)
def test_random_histories_agree_with_a_dictionary(tmp_path_factory: pytest.TempPathFactory, actions: list) -> None:
    folder = str(tmp_path_factory.mktemp("history"))
    store = Store(LocalStorage(folder), segment_bytes=600)
    models, fences, epochs = {NAME: Model(), OTHER: Model()}, {NAME: 1, OTHER: 1}, {NAME: 0, OTHER: 0}
    for sequence, (action, number) in enumerate(actions, 1):
        name = NAME if number < 3 else OTHER
        if action == "begin":
            fences[name] += number
            store.append([(Head("fence", name, fences[name], 0, 0), [])])
        elif action == "cut":
            fences[name] += 1
            store.begin_incarnation(name, fences[name])
            origin = models[name].cut(number)
            store.go_on_from(name, [Origin(fences[name], *origin)])
            for kind, key, epoch in models[name].records():
                save(store, kind, epoch, key[1], name, key[0])
        elif action == "reopen":
            closed(store)
            store = Store(LocalStorage(folder), segment_bytes=600)
            assert not store.damage
        elif action == "compact":
            store.compact()
        elif action == "sync":
            store.segments.sync()
        else:
            epoch = epochs[name] + number
            if action == "state":
                epochs[name] = epoch
                models[name].states[fences[name], sequence] = epoch
            else:
                models[name].items[fences[name], sequence] = epoch
            save(store, action, epoch, sequence, name, fences[name])
        for one, model in models.items():
            assert found(store, one) == model.found()
            assert store.fence(one) in (0, fences[one])
    closed(store)


def test_what_was_cut_off_stays_so_in_whatever_order_the_log_is_read(tmp_path: Path) -> None:
    """Also where what says so was moved behind later records, and where the state to go on from had been dropped."""
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=600)
    for epoch in range(1, 5):
        save(store, "state", epoch, epoch)
    save(store, "item", 9, 5)
    store.begin_incarnation(NAME, 2)
    store.go_on_from(NAME, [Origin(2, 1, 1)])
    assert found(store) == (None, []), "the client sends what it went on from"
    save(store, "state", 1, 1)
    save(store, "item", 2, 1, fence=2)
    for _ in range(3):
        store.append([(entry.head, []) for entry in store.logs[NAME].fences.values()])
        assert found(store) == (1, [(2, 1)])
        closed(store)
        store = Store(LocalStorage(str(tmp_path)), segment_bytes=600)
        assert found(store) == (1, [(2, 1)])
    for fence in range(3, 40):
        store.begin_incarnation(NAME, fence)
        store.go_on_from(NAME, [Origin(fence, fence - 1, 1)])
    assert len(store.logs[NAME].fences) == ORIGINS_KEPT
    closed(store)


def test_incarnations_that_save_nothing_bring_nothing_back(tmp_path: Path) -> None:
    """However many they are: each goes on from where the one before did."""
    store = Store(LocalStorage(str(tmp_path)))
    origins = [Origin(2, 1, 1), *(Origin(fence, 2, 1) for fence in range(3, 40))]
    for origin in origins:
        store.begin_incarnation(NAME, origin.by)
        store.go_on_from(NAME, [origin])
    save(store, "item", 9, 2)
    assert found(store) == (None, []), "the first incarnation's, which the second knew nothing of"
    save(store, "item", 3, 1, fence=2)
    assert found(store) == (None, [(3, 1)])
    assert store.origins(NAME) == [origins[0], origins[-1]]
    closed(store)


@pytest.mark.parametrize(
    "told",
    [None, 5, [5], [[1, 1]], [[1, 1, 1, 1]], [[2, -1, 1]], [[2, 1, "1"]], [[2, 1, 1.0]], [[4, 1, 1]], [[1, 0, 0]] * 18],
)
def test_origins_that_are_none_are_malformed(told: object) -> None:
    with pytest.raises(FrameError):
        origins({"origins": told}, 3)
    assert origins({"origins": [[3, 1, 7]]}, 3) == [Origin(3, 1, 7)]


def test_parts_without_end_take_bounded_space_once_they_are_released(tmp_path: Path) -> None:
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=4096)
    for number in range(1, 2000):
        save(store, "checkpoint", number, number)
        store.release(NAME, number - 1)
        store.compact()
        store.segments.end_sync(wait=True)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.segment")) < 4 * 4096
    for number, there in ((1997, 0), (1998, 1), (1999, 2), (5000, 2)):
        assert len([*store.parts(NAME, number, [])]) == there
    closed(store)
    again = Store(LocalStorage(str(tmp_path)), segment_bytes=4096)
    assert [*again.parts(NAME, 1998, [])][-1][0].epoch == 1998, "copied parts are found again"
    closed(again)


def test_items_without_a_state_take_bounded_space_once_they_are_released(tmp_path: Path) -> None:
    """As those of a large state, which is saved in slices: nothing of it supersedes what came before."""
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=4096)
    save(store, "state", 1, 1)
    for number in range(2, 2000):
        save(store, "item", number, number)
        if number % 10 == 0:
            store.release(NAME, 0, since=number - 5)
        store.compact()
        store.segments.end_sync(wait=True)
    assert found(store) == (None, [(number, number) for number in range(1985, 2000)])
    assert sum(path.stat().st_size for path in tmp_path.glob("*.segment")) < 4 * 4096
    store.release(OTHER, 0, since=5)
    closed(store)


def test_states_without_end_take_bounded_space(tmp_path: Path) -> None:
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=4096)
    for number in range(1, 3000):
        save(store, "item", number + 1, 2 * number)
        save(store, "state", number, 2 * number + 1)
        store.compact()
        store.segments.end_sync(wait=True)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.segment")) < 4 * 4096
    assert found(store) == (2999, [(3000, 5998)])


class Flaky(LocalStorage):
    """Fails at the call whose number is given, part of a write done."""

    fail_at = 0
    calls = 0

    def append(self, name: str, buffers: Sequence[Any], at: int) -> None:
        if self._fails():
            super().append(name, [b"".join(map(bytes, buffers))[:30]], at)
            raise OSError(errno.ENOSPC, "no space left")
        super().append(name, buffers, at)

    def sync(self, name: str) -> None:
        if self._fails():
            raise OSError(errno.EIO, "input/output error")
        super().sync(name)

    def remove(self, name: str) -> None:
        if self._fails():
            raise OSError(errno.EIO, "input/output error")
        super().remove(name)

    def _fails(self) -> bool:
        self.calls += 1
        return self.calls == self.fail_at


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    storage = Flaky(str(tmp_path))
    store = Store(storage)
    save(store, "state", 1, 1)
    storage.fail_at = storage.calls + 1
    with pytest.raises(OSError, match="no space"):
        save(store, "state", 2, 2)
    assert found(store) == (1, [])
    save(store, "state", 3, 3)
    assert found(store) == (3, [])
    closed(store)
    again = Store(LocalStorage(str(tmp_path)))
    assert found(again) == (3, []) and not again.damage, "the torn part was cut off"
    closed(again)


def test_a_crash_at_every_step_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    for fail_at in range(1, 8):
        folder = tmp_path / str(fail_at)
        storage = Flaky(str(folder))
        store = Store(storage, segment_bytes=500)
        save(store, "item", 9, 1, OTHER)
        for number in range(1, 12):
            save(store, "state", number, number + 1)
        truth, other = found(store), found(store, OTHER)
        storage.calls, storage.fail_at = 0, fail_at
        try:
            for _ in range(6):
                store.compact()
                store.segments.end_sync(wait=True)
        except OSError:
            pass
        closed(store)
        again = Store(LocalStorage(str(folder)))
        assert found(again) == truth and found(again, OTHER) == other
        closed(again)


class Slow(LocalStorage):
    """Its disk needs as long for a sync as the test wants."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.may_end = threading.Event()
        self.synced: list[str] = []

    def sync(self, name: str) -> None:
        assert self.may_end.wait(120), "the test has not let it end"
        super().sync(name)
        self.synced.append(name)


def test_a_sync_under_way_holds_up_nobody(tmp_path: Path) -> None:
    storage = Slow(str(tmp_path))
    store = Store(storage)
    save(store, "state", 1, 1)
    assert store.segments.begin_sync() and not store.segments.begin_sync()
    save(store, "item", 2, 2)
    store.begin_incarnation(OTHER, 3)
    assert found(store) == (1, [(2, 2)]) and store.fence(OTHER) == 3
    store.segments.end_sync()
    assert (store.segments.appended, store.segments.synced, storage.synced) == (3, 0, [])
    storage.may_end.set()
    store.segments.end_sync(wait=True)
    assert store.segments.synced == 1, "not what came meanwhile"
    store.segments.sync()
    assert store.segments.synced == 3 and len(storage.synced) == 2
    closed(store)


def test_a_segment_stays_until_what_supersedes_it_has_been_synced(tmp_path: Path) -> None:
    storage = Slow(str(tmp_path))
    store = Store(storage, segment_bytes=1)
    for number in range(1, 5):
        save(store, "state", number, number)
        store.compact()
    assert len(list(tmp_path.glob("*.segment"))) == 4
    storage.may_end.set()
    store.segments.end_sync(wait=True)
    store.compact()
    assert len(list(tmp_path.glob("*.segment"))) == 3, "the sync was begun when only the first was superseded"
    store.segments.end_sync(wait=True)
    store.compact()
    assert len(list(tmp_path.glob("*.segment"))) == 2 and found(store) == (4, [])
    closed(store)


def test_two_servers_on_one_directory_are_refused(tmp_path: Path) -> None:
    first = open_storage(str(tmp_path))
    with pytest.raises(ConfigError, match="another backup server's"):
        open_storage(str(tmp_path))
    first.close()
    open_storage(str(tmp_path)).close()


def test_objects_of_a_memory_file_system_hold_the_same() -> None:
    address = "memory://riprap-test-store"
    store = Store(open_storage(address))
    for number in range(1, 30):
        save(store, "item", number + 1, 2 * number)
        save(store, "state", number, 2 * number + 1)
        store.compact()
        store.segments.end_sync(wait=True)
    assert store.statistics()["segments"] < 12
    again = Store(open_storage(address))
    assert found(again) == (29, [(30, 58)]) and not again.damage


def test_an_unknown_file_system_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        open_storage("nosuch://bucket/path")


@given(st.binary(max_size=200))
def test_bodies_that_are_no_bodies_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        unpack_body(memoryview(data))


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_damaged_body_is_refused_or_still_a_body(offset: int, bit: int) -> None:
    """The checksum has refused it before; here nothing but FrameError may come out."""
    whole = bytearray(b"".join(map(bytes, body(5.0))))
    whole[offset % len(whole)] ^= 1 << bit
    with contextlib.suppress(FrameError):
        unpack_body(memoryview(bytes(whole)))


@pytest.mark.parametrize("odd", [np.zeros(2, [("a", "<i8")]), np.zeros(2, "<c16"), np.array(["a"])])
def test_what_could_not_be_read_back_is_not_written(odd: np.ndarray) -> None:
    with pytest.raises(ValueError, match="a record holds arrays of"):
        pack_body({}, [odd])


@pytest.mark.parametrize("code", sorted(DTYPES))
def test_all_types_of_the_wire_come_back(code: str) -> None:
    array = np.arange(6).astype(code).reshape(2, 3)
    packed = b"".join(map(bytes, pack_body({}, [array])))
    assert (unpack_body(memoryview(packed))[1][0] == array).all()


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.segment"))


def fill(store: Store, name: str, epochs: int) -> None:
    for epoch in range(1, epochs + 1):
        save(store, "item", epoch, 2 * epoch, name)
        save(store, "state", epoch, 2 * epoch + 1, name)


def test_a_forgotten_job_is_gone_for_good_and_no_other_is(tmp_path: Path) -> None:
    gone, kept = ("one-a/sink.0", "one-a/processor.1"), ("one-b/sink.0", "two/sink.0")
    store = Store(LocalStorage(str(tmp_path)))
    for name in (*gone, *kept):
        fill(store, name, 5)
    truth = {name: found(store, name) for name in kept}
    assert store.forget("one-a") == 2 and store.forget("one-a") == 0 and store.forget("nobody") == 0
    for _ in range(3):  # it holds over restarts, before and after anything was compacted
        assert not set(store.logs) & set(gone) and {name: found(store, name) for name in kept} == truth
        assert store.is_forgotten(gone[0]) and not store.is_forgotten(kept[0])
        closed(store)
        store = Store(LocalStorage(str(tmp_path)))
    closed(store)


def test_the_segments_of_a_forgotten_job_are_deleted_and_so_is_its_end(tmp_path: Path) -> None:
    store = Store(LocalStorage(str(tmp_path)), segment_bytes=2000)
    fill(store, "two/sink.0", 1)
    fill(store, "one/sink.0", 50)
    truth, before = found(store, "two/sink.0"), store.statistics()["bytes"]
    store.forget("one")
    for _ in range(50):
        store.compact()
        store.segments.sync()
    assert store.statistics()["bytes"] < before / 5
    assert not store.is_forgotten("one/sink.0"), "nothing is left that it would have to keep away"
    closed(store)
    store = Store(LocalStorage(str(tmp_path)))
    assert set(store.logs) == {"two/sink.0"} and found(store, "two/sink.0") == truth
    closed(store)
