"""A logged input: what counts is in the log first, and every life reads the same blocks and cuts from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from dataflow_parts import DataflowPort, chain, layout_of
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.logged_reader import AHEAD_MAX, LoggedReader
from riprap.engine.flow.progress import INPUT, At, Heard, TaskProgress

WINDOW_S = 1.0
LAYOUT = layout_of(chain(("read", 1), ("count", 1), scheme="mini_batch"), "read.0")


class Some(NamedTuple):
    text: np.ndarray
    offsets: np.ndarray
    places: Mapping[str, Any]

    @property
    def count(self) -> int:  # type: ignore[override]
        return len(self.offsets) - 1


class Growing:
    """An input whose items are the numbers from 0 to `there`; its place says how many were taken."""

    def __init__(self) -> None:
        self.there = self.taken = 0

    def go_to(self, places: Mapping[str, Any]) -> None:
        self.taken = places.get("all", 0)

    def take(self, lines: int, nbytes: int, rest: bool) -> Some | None:
        count = min(lines, nbytes, self.there - self.taken)
        if count == 0:
            return None
        numbers = np.arange(self.taken, self.taken + count)
        self.taken += count
        return Some(numbers, np.arange(count + 1), {"all": self.taken, "done": None})


class Lives:
    """A reader and what outlives it: the records, the state, the items that are there."""

    def __init__(self, window_items: int = 10, block_items: int = 4) -> None:
        self.sizes = window_items, block_items
        self.port = DataflowPort(LAYOUT)
        self.there = self.granted = self.durable = 0
        self.final = False
        self.saved_state: dict[str, Any] = TaskProgress().pack()
        self.read: list[tuple[object, ...]] = []
        """What the state of the present life includes, as names of blocks."""
        self.begin()

    def begin(self) -> None:
        """A new life: from the newest state, and the records behind it that are durable."""
        self.progress, self.source = TaskProgress.unpack(self.saved_state), Growing()
        self.source.there = self.there
        items, blocks = self.sizes
        self.reader = LoggedReader(self.source, items, WINDOW_S, blocks)
        live = [saved for saved in self.port.saved if saved[1] > 2 * self.progress.included - 6]  # servers trim late
        records = [Block(Kind.DATA, epoch, Key(0, 0, 0, 0), 0, arrays, meta=meta) for _, epoch, meta, arrays in live]
        self.reader.restore(records, self.progress, self.port.now())
        self.reader.seek(self.progress.done.get(INPUT, Heard()).at.number)
        self.reader.grant(self.granted, self.final)
        self.read = self.read[: self.progress.included]

    def settle(self) -> None:
        """All that was saved is durable."""
        self.durable = len(self.port.saved)
        self.reader.on_durable(self.durable)

    def grant(self, windows: int, final: bool = False) -> None:
        self.granted, self.final = max(self.granted, windows), final
        self.reader.grant(self.granted, final)

    def grow(self, items: int) -> None:
        self.there += items
        self.source.there = self.there

    def log(self) -> None:
        self.reader.fill(self.port, self.progress)

    def process(self, most: int = 1 << 30) -> list[Entry]:
        """Blocks that are durable, until there are no more or so many."""
        entries: list[Entry] = []
        while len(entries) < most and self.reader.may_read and not self.reader.wait_s(self.port.now()):
            entry = self.reader.entry(self.port.now())
            self.read.append(name(entry.block))
            self.progress.included = entry.number
            self.progress.done.setdefault(INPUT, Heard()).at = At(entry.block.key.row)
            self.reader.note(entry.block, self.progress.source)
            entries.append(entry)
        return entries

    def all(self) -> list[Entry]:
        self.log()
        self.settle()
        return self.process()


def name(block: Block) -> tuple[object, ...]:
    arrays = [array.tobytes() for array in block.arrays]
    return block.kind, block.epoch, block.key, block.items, block.meta.get("items"), block.meta.get("last"), *arrays


def ends(entries: list[Entry]) -> list[tuple[int, int, bool]]:
    """Window, items and whether it is the last, of each cut."""
    blocks = [entry.block for entry in entries if entry.block.kind == Kind.PUNCTUATION]
    return [(block.epoch, block.meta["items"], block.meta["last"]) for block in blocks]


def test_nothing_is_handed_out_before_its_record_is_durable() -> None:
    lives = Lives()
    lives.grant(4)
    lives.grow(10)
    lives.log()
    assert len(lives.port.saved) == 4 and not lives.process()  # 4 + 4 + 2 items, and the cut
    lives.reader.on_durable(2)
    assert [entry.block.items for entry in lives.process()] == [4, 4]
    lives.reader.on_durable(4)
    assert ends(lives.process()) == [(1, 10, False)]


def test_nothing_is_lost_while_the_store_has_no_room() -> None:
    lives = Lives()
    lives.grant(4)
    lives.grow(6)
    lives.port.full = True
    lives.log()
    lives.log()
    assert lives.source.taken == 4 and not lives.port.saved
    lives.port.full = False
    assert [entry.block.items for entry in lives.all()] == [4, 2]


def test_a_window_closes_after_a_time_too_and_an_empty_one_as_well() -> None:
    lives = Lives()
    lives.grant(4)
    lives.grow(3)
    assert not ends(lives.all())
    lives.port.clock = WINDOW_S
    assert ends(lives.all()) == [(1, 3, False)]
    lives.port.clock = 1.5 * WINDOW_S
    assert not lives.all()
    lives.port.clock = 2 * WINDOW_S
    assert ends(lives.all()) == [(2, 0, False)]


def test_the_window_granted_last_stays_open_until_the_next_grant_or_the_end() -> None:
    lives = Lives()
    lives.grant(2)
    lives.grow(100)
    assert ends(lives.all()) == [(1, 10, False)]
    assert lives.source.taken == 20
    lives.grant(2, final=True)
    assert ends(lives.all()) == [(2, 10, True)] and lives.reader.finished
    assert lives.source.taken == 20


def test_at_the_end_the_windows_that_are_left_close_at_once_with_what_is_there() -> None:
    lives = Lives()
    lives.grant(4)
    lives.grow(13)
    lives.all()
    lives.grow(2)
    lives.grant(4, final=True)
    assert ends(lives.all()) == [(2, 5, False), (3, 0, False), (4, 0, True)]
    assert lives.reader.finished and not lives.all()


def test_a_source_that_is_far_behind_closes_its_windows_at_once() -> None:
    lives = Lives()
    for windows in (4, 20, 40):
        lives.grant(windows)
    assert [window for window, _, _ in ends(lives.all())] == [1, 2, 3, 4]


def test_so_many_blocks_are_logged_ahead_at_most() -> None:
    lives = Lives(window_items=1000, block_items=1)
    lives.grant(4)
    lives.grow(200)
    lives.log()
    lives.log()
    assert len(lives.port.saved) == AHEAD_MAX


def test_numbers_of_entries_that_come_between_are_not_taken_twice() -> None:
    lives = Lives()
    lives.grant(4)
    lives.grow(4)
    lives.log()
    lives.progress.received += 1  # feedback came
    lives.grow(4)
    assert [entry.number for entry in lives.all()] == [1, 3]
    assert [epoch for _, epoch, _, _ in lives.port.saved] == [2, 6]


def test_a_new_life_tells_nothing_of_a_place_that_is_done_with() -> None:
    lives = Lives()
    lives.grant(2)
    lives.grow(4)
    lives.all()
    assert lives.progress.source["places"] == {"all": 4}


DEEDS = st.lists(
    st.sampled_from(["grow", "grow", "log", "durable", "process", "save", "time", "grant", "kill"]), max_size=60
)


@given(DEEDS, st.integers(1, 9), st.integers(1, 5), st.booleans())
def test_whoever_dies_when_blocks_and_cuts_are_the_same_and_every_item_counts_once(
    deeds: list[str], window_items: int, block_items: int, torn: bool
) -> None:
    """Torn: what was not durable is lost with a life; else all of it is there again."""
    lives = Lives(window_items, block_items)
    known: dict[object, tuple[object, ...]] = {}
    done: Counter[str] = Counter()
    for deed in [*deeds, "kill"]:
        done[deed] += 1
        if deed == "grow":
            lives.grow(done[deed] % 7)
        elif deed == "log":
            lives.log()
        elif deed == "durable":
            lives.settle()
        elif deed == "process":
            lives.process(done[deed] % 4 + 1)
        elif deed == "save":
            lives.settle()  # a state that is safe was saved behind them
            lives.saved_state = lives.progress.pack()
        elif deed == "time":
            lives.port.clock += 0.6 * WINDOW_S
        elif deed == "grant":
            lives.grant(lives.granted + 3)
        else:
            del lives.port.saved[lives.durable if torn else len(lives.port.saved) :]
            lives.begin()
        for block in lives.read:
            assert known.setdefault(block[2], block) == block
    lives.grant(lives.granted + 100 + lives.there, final=True)
    while not lives.reader.finished:
        lives.all()
    for block in lives.read:
        assert known.setdefault(block[2], block) == block
    items = [number for block in lives.read if block[0] == Kind.DATA for number in np.frombuffer(block[6], np.int64)]  # type: ignore[call-overload]
    assert items == list(range(lives.there))
    closed = [block[1] for block in lives.read if block[0] == Kind.PUNCTUATION]
    assert closed == list(range(1, Epoch(lives.granted) + 1))
