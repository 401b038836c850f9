"""How a source reads its input: windows that add up, blocks that keep their names, and going on anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.reader import Reader


class Counting:
    """An input whose items are their own numbers."""

    item_bytes = 8.0

    def __init__(self, items: int) -> None:
        self.items = items

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        assert 0 <= start < stop <= self.items
        return (np.arange(start, stop),)


def rest(reader: Reader) -> list[Block]:
    blocks = []
    while not reader.finished:
        blocks.append(reader.next(1.0))
    return blocks


def names(blocks: list[Block]) -> list[tuple[object, ...]]:
    return [(b.kind, b.epoch, b.key, b.items, *(a.tobytes() for a in b.arrays)) for b in blocks]


@given(st.integers(0, 60), st.integers(1, 8), st.integers(1, 10))
def test_after_a_seek_to_any_block_the_same_blocks_follow(items: int, windows: int, block_items: int) -> None:
    whole = rest(Reader(Counting(items), windows, 8 * block_items, 0))
    for done, block in enumerate(whole, 1):
        reader = Reader(Counting(items), windows, 8 * block_items, 0)
        reader.seek(block.key.row)
        assert names(rest(reader)) == names(whole[done:])


@given(st.integers(0, 200), st.integers(1, 12), st.integers(1, 10))
def test_windows_hold_all_items_in_order_and_each_is_closed_once(items: int, windows: int, block_items: int) -> None:
    blocks = rest(Reader(Counting(items), windows, 8 * block_items, 0))
    read = [number for block in blocks if block.kind == Kind.DATA for number in block.arrays[0]]
    assert read == list(range(items))
    ends = [block for block in blocks if block.kind == Kind.PUNCTUATION]
    assert [block.epoch for block in ends] == list(range(1, windows + 1))
    assert sum(block.meta["items"] for block in ends) == items
    assert [block.meta["last"] for block in ends] == [False] * (windows - 1) + [True]
    assert max(block.items for block in blocks) <= block_items


@given(st.integers(0, 100), st.integers(1, 10), st.integers(1, 10))
def test_rows_grow_so_that_they_name_the_blocks(items: int, windows: int, block_items: int) -> None:
    rows = [block.key.row for block in rest(Reader(Counting(items), windows, 8 * block_items, 0))]
    assert rows == sorted(set(rows)) and rows[0] >= 1 and rows[-1] == items + windows


def test_the_number_of_a_window_is_that_of_its_punctuation() -> None:
    reader = Reader(Counting(10), 3, 16, 0)
    ends = [block for block in rest(Reader(Counting(10), 3, 16, 0)) if block.kind == Kind.PUNCTUATION]
    assert [reader.number(epoch) for epoch in (0, 1, 2, 3)] == [0, *(block.key.row for block in ends)]


def test_a_seek_to_zero_begins_anew() -> None:
    reader = Reader(Counting(9), 2, 16, 0)
    first = names(rest(reader))
    assert reader.finished
    reader.seek(0)
    assert not reader.finished and names(rest(reader)) == first


def test_a_window_says_when_it_was_opened() -> None:
    reader = Reader(Counting(4), 2, 16, 0)
    reader.next(5.0)
    assert reader.next(6.0).meta["opened_at"] == 5.0
    reader.next(7.0)
    assert reader.next(8.0).meta["opened_at"] == 7.0


def test_who_goes_on_within_a_window_says_when_it_began_to_read_and_not_when_it_closed() -> None:
    """A new incarnation, and a reader that goes back in place."""
    first = Reader(Counting(8), 1, 16, 0)
    second, third = first.next(1.0), first.next(2.0)
    for reader in (Reader(Counting(8), 1, 16, 0), first):
        reader.seek(third.key.row)
        assert reader.next(11.0).key.row > third.key.row > second.key.row
        reader.next(12.0)
        end = reader.next(15.0)
        assert end.kind == Kind.PUNCTUATION and end.meta["opened_at"] == 11.0


@pytest.mark.parametrize("block_bytes", [1, 7, 8])
def test_a_block_has_an_item_at_least(block_bytes: int) -> None:
    assert Reader(Counting(4), 2, block_bytes, 0).next(0.0).items == 1


def granted(reader: Reader) -> list[Block]:
    blocks = []
    while reader.may_read:
        blocks.append(reader.next(1.0))
    return blocks


@given(st.integers(1, 9), st.integers(1, 5), st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_without_end_only_the_final_grant_closes_the_last_window(
    window_items: int, block_items: int, grants: list[int]
) -> None:
    reader = Reader(Counting(1 << 62), None, 8 * block_items, window_items)
    assert not granted(reader)
    blocks = []
    for windows in grants:
        reader.grant(windows, False)
        blocks += granted(reader)
        assert not reader.finished
    end = max(grants)
    assert [b.epoch for b in blocks if b.kind == Kind.PUNCTUATION] == list(range(1, end))
    assert reader.position == end * window_items  # all is read, but the window stays open
    reader.grant(end, True)
    blocks += granted(reader)
    assert reader.finished
    assert [b.meta["last"] for b in blocks if b.kind == Kind.PUNCTUATION] == [False] * (end - 1) + [True]
    finite = rest(Reader(Counting(end * window_items), end, 8 * block_items, 0))
    assert names(blocks) == names(finite)  # a finite input of the same cut
    for done, block in enumerate(blocks, 1):
        again = Reader(Counting(1 << 62), None, 8 * block_items, window_items)
        again.grant(end, True)
        again.seek(block.key.row)
        assert names(granted(again)) == names(blocks[done:])


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 12), st.integers(0, 3), st.integers(1, 4))
def test_epochs_are_found_again_from_any_block(
    items: int, micro_batch: int, block_items: int, padding: int, unit: int
) -> None:
    def reader() -> EpochReader:
        epochs = -(-items // micro_batch) + padding
        return EpochReader(Counting(items), epochs, micro_batch, 8 * block_items, unit)

    whole = rest(reader())
    assert [b.meta["items"] for b in whole if b.kind == Kind.PUNCTUATION and b.meta["items"]] == [
        min(micro_batch, items - start) for start in range(0, items, micro_batch)
    ]
    for done, block in enumerate(whole, 1):
        again = reader()
        again.seek(block.key.row)
        assert names(rest(again)) == names(whole[done:])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_epochs_without_end_are_those_of_a_stream_that_ends_where_the_last_grant_does(
    micro_batch: int, block_items: int, end: int
) -> None:
    endless = EpochReader(Counting(1 << 62), None, micro_batch, 8 * block_items, 1)
    endless.grant(end, True)
    finite = EpochReader(Counting(end * micro_batch), end, micro_batch, 8 * block_items, 1)
    blocks = rest(finite)
    assert names(granted(endless)) == names(blocks) and endless.finished
    for done, block in enumerate(blocks, 1):
        endless.seek(block.key.row)
        assert names(granted(endless)) == names(blocks[done:])
