"""The arena and its borrowers: nothing that may still be read is written over, nothing is kept that nobody reads."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from riprap.codec.errors import FrameError
from riprap.engine.wire.arena import Arena, Slot
from riprap.engine.wire.borrowed import Borrowed, SlotView

MIB = 1 << 20
SLOTS = 2048


def borrow(arena: Arena, link: int, owner: int) -> Borrowed:
    arena.open_link(link, owner)
    return Borrowed(os.getpid(), arena.descriptor, arena.token, link, owner)


def filled(slot: Slot, value: int) -> np.ndarray:
    array: np.ndarray = np.frombuffer(slot, np.uint8)
    array[:] = value
    return array


def test_a_lent_slot_reads_as_written_and_is_read_only() -> None:
    arena = Arena(1, MIB)
    segment = borrow(arena, 0, 1)
    slot = arena.allocate(1000)
    assert slot is not None
    array = filled(slot, 7)
    assert arena.lend(slot, 0)
    view = np.frombuffer(segment.view(*slot.place, 1000), np.uint8)
    assert view.tolist() == [7] * 1000 and not view.flags.writeable
    array[0] = 9
    assert view[0] == 9  # the same memory


def test_a_slot_is_free_when_the_lender_and_all_borrowers_let_go() -> None:
    arena = Arena(2, MIB)
    segments = [borrow(arena, link, link + 1) for link in range(2)]
    slot = arena.allocate(100)
    assert slot is not None
    place = slot.place
    for link in range(2):
        assert arena.lend(slot, link)
    views: list[SlotView] = [segment.view(*place, 100) for segment in segments]
    del slot
    assert arena.collect() == 1
    views.pop()
    assert arena.collect() == 1
    views.pop()
    assert arena.collect() == 0
    assert [segment.holding for segment in segments] == [0, 0]


def test_a_slot_that_never_arrived_is_held_until_its_link_closes() -> None:
    arena = Arena(1, MIB)
    borrow(arena, 0, 1)
    slot = arena.allocate(100)
    assert slot is not None and arena.lend(slot, 0)
    del slot
    assert arena.collect() == 1
    arena.close_link(0)
    assert arena.collect() == 0


def test_a_released_slot_is_not_lent_again_on_that_link_nor_viewed() -> None:
    arena = Arena(2, MIB)
    segment, other = borrow(arena, 0, 1), borrow(arena, 1, 2)
    slot = arena.allocate(100)
    assert slot is not None and arena.lend(slot, 0)
    segment.view(*slot.place, 100)  # and gone at once
    assert not arena.lend(slot, 0)
    with pytest.raises(FrameError, match="released"):
        segment.view(*slot.place, 100)
    assert arena.lend(slot, 1)
    assert other.view(*slot.place, 100).nbytes == 100


def test_two_messages_with_the_same_slot_hold_it_together() -> None:
    arena = Arena(1, MIB)
    segment = borrow(arena, 0, 1)
    slot = arena.allocate(100)
    assert slot is not None and arena.lend(slot, 0)
    first, second = segment.view(*slot.place, 100), segment.view(*slot.place, 100)
    del slot, first
    assert arena.collect() == 1
    del second
    assert arena.collect() == 0


def test_a_slot_that_was_given_away_is_refused() -> None:
    arena = Arena(1, MIB)
    segment = borrow(arena, 0, 1)
    slot = arena.allocate(100)
    assert slot is not None
    place = slot.place
    del slot
    arena.collect()
    with pytest.raises(FrameError, match="given away"):
        segment.view(*place, 100)
    again = arena.allocate(100)
    assert again is not None and again.place[0] == place[0] and again.place[1] > place[1]
    with pytest.raises(FrameError, match="given away"):
        segment.view(*place, 100)


@pytest.mark.parametrize(
    "place", [(-1, 1, 0, 1), (1 << 20, 1, 0, 1), (0, 0, 0, 1), (0, 1, MIB, 1), (0, 1, 0, MIB + 1), (0, 1, 2 * MIB, 0)]
)
def test_a_place_outside_the_segment_is_refused(place: tuple[int, int, int, int]) -> None:
    arena = Arena(1, MIB)
    segment = borrow(arena, 0, 1)
    slot = arena.allocate(10)
    with pytest.raises(FrameError):
        segment.view(*place)
    assert segment.holding == 0 and slot is not None


def test_a_former_owner_sees_that_its_life_is_over() -> None:
    arena = Arena(2, MIB)
    former = borrow(arena, 0, 1)
    other = borrow(arena, 1, 2)
    assert former.is_current
    present = borrow(arena, 0, 3)
    assert not former.is_current and present.is_current and other.is_current
    arena.close_link(0)
    assert not present.is_current


def test_a_former_owner_that_lets_go_late_frees_nothing_of_the_present_one() -> None:
    arena = Arena(1, MIB)
    former = borrow(arena, 0, 1)
    old = arena.allocate(100)
    assert old is not None and arena.lend(old, 0)
    late = former.view(*old.place, 100)
    present = borrow(arena, 0, 2)
    del old
    assert arena.collect() == 0
    slot = arena.allocate(100)
    assert slot is not None and slot.place[0] == 0 and arena.lend(slot, 0)
    view = present.view(*slot.place, 100)
    del slot, late
    assert arena.collect() == 1
    assert view.nbytes == 100


def test_the_memory_outlives_the_lender() -> None:
    arena = Arena(1, MIB)
    segment = borrow(arena, 0, 1)
    slot = arena.allocate(100)
    assert slot is not None
    array = filled(slot, 5)
    arena.lend(slot, 0)
    view = np.frombuffer(segment.view(*slot.place, 100), np.uint8)
    del arena, slot, array, segment
    gc.collect()
    assert view.tolist() == [5] * 100


def test_room_comes_back_whole_and_from_the_lowest_addresses() -> None:
    arena = Arena(1, MIB)
    slots: list[Slot | None] = [arena.allocate(MIB // 4) for _ in range(4)]
    assert arena.allocate(1) is None
    starts = [slot.place[2] for slot in slots if slot]
    assert starts == [0, MIB // 4, MIB // 2, 3 * MIB // 4]
    for gone in (1, 0, 3, 2):
        slots[gone] = None
    assert arena.collect() == 0
    whole = arena.allocate(MIB)
    assert whole is not None and whole.place[2] == 0


def test_only_so_many_slots_are_given_out() -> None:
    arena = Arena(1, MIB)
    slots = [arena.allocate(1) for _ in range(SLOTS + 1)]
    assert slots[-1] is None and None not in slots[:-1]
    assert arena.refusal == ""


def test_slots_that_garbage_lets_go_of_meanwhile_come_back() -> None:
    arena = Arena(1, MIB)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(2 * SLOTS):
            slot = arena.allocate(64)
            assert slot is not None
            circle: list[Any] = [slot]
            circle.append(circle)
            del slot, circle
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert arena.collect() == 0
    whole = arena.allocate(MIB)
    assert whole is not None


def test_a_full_dev_shm_is_a_refusal_and_no_signal() -> None:
    script = "from riprap.engine.wire.arena import Arena; a = Arena(1, 1 << 26); "
    script += "print(a.allocate(1 << 20) is None, a.allocate(1 << 25) is None, a.refusal, a.allocate(1 << 20) is None)"
    said = in_small_dev_shm("4m", [sys.executable, "-c", script])
    assert said == f"False True {os.strerror(errno.ENOSPC)} False\n"


def in_small_dev_shm(size: str, command: list[str]) -> str:
    """What a command prints that runs in a mount namespace of its own, whose /dev/shm is as small as told."""
    shell = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", shell, "sh", *command]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("arguments", [(5000, 1), (1, 0), (1, 1, 9000)])
def test_sizes_out_of_range_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="an arena has"):
        Arena(*arguments)


def test_another_file_or_token_is_not_a_segment(tmp_path: Any) -> None:
    arena = Arena(1, MIB)
    with pytest.raises(OSError):
        Borrowed(os.getpid(), arena.descriptor, b"x" * 16, 0, 1)
    with pytest.raises(OSError):
        Borrowed(os.getpid(), arena.descriptor, arena.token, 1, 1)
    with pytest.raises(OSError):
        Borrowed(os.getpid(), 1 << 20, arena.token, 0, 1)
    with open(tmp_path / "file", "wb+") as file:
        file.write(b"\0" * 10)
        file.flush()
        with pytest.raises(OSError):
            Borrowed(os.getpid(), file.fileno(), arena.token, 0, 1)


class Sharing(RuleBasedStateMachine):
    """One lender, three links whose lives end and begin, messages that arrive late, twice or never."""

    arrays = Bundle("arrays")
    messages = Bundle("messages")
    views = Bundle("views")

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(3, 64 * 1024)
        self.owners = 0
        self.values = 0
        self.ends: list[Borrowed] = []
        for link in range(3):
            self.ends.append(self._open(link))

    def _open(self, link: int) -> Borrowed:
        self.owners += 1
        return borrow(self.arena, link, self.owners)

    @rule(target=arrays, nbytes=st.integers(1, 20_000))
    def allocate(self, nbytes: int) -> list[Any]:
        slot = self.arena.allocate(nbytes)
        if slot is None:
            return []
        self.values += 1
        array = filled(slot, self.values % 251)
        return [slot, array, self.values % 251]

    @rule(target=messages, entry=arrays, link=st.integers(0, 2))
    def lend(self, entry: list[Any], link: int) -> list[Any]:
        if not entry or not self.arena.lend(entry[0], link):
            return []
        return [link, self.ends[link], entry[0].place, entry[0].nbytes, entry[2]]

    @rule(entry=consumes(arrays))
    def forget(self, entry: list[Any]) -> None:
        entry.clear()

    @rule(target=views, message=messages)
    def arrive(self, message: list[Any]) -> list[Any]:
        if not message:
            return []
        link, end, place, nbytes, value = message
        if end is not self.ends[link]:
            return []  # its connection ended with the life it led to
        try:
            view = end.view(*place, nbytes)
        except FrameError:
            return []
        return [end, np.frombuffer(view, np.uint8), value]

    @rule(entry=consumes(views))
    def release(self, entry: list[Any]) -> None:
        entry.clear()

    @rule(entry=views)
    def read(self, entry: list[Any]) -> None:
        if entry:
            end, array, value = entry
            same = bool((array == value).all())
            assert same or not end.is_current

    @rule(link=st.integers(0, 2))
    def die(self, link: int) -> None:
        self.ends[link] = self._open(link)

    @invariant()
    def slots_do_not_overlap(self) -> None:
        assert self.arena.collect() <= SLOTS


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
