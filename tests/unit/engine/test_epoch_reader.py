"""Epochs cut into equal blocks, whose turn each is, and rows of them."""

from __future__ import annotations

import numpy as np
import pytest
from fake_port import Stream, items
from hypothesis import given
from hypothesis import strategies as st
from task_parts import epoch_reader

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.epoch_reader import EpochReader, RowsReader, cut


@given(st.integers(1, 10_000), st.integers(1, 500), st.integers(1, 10_000), st.integers(1, 16))
def test_an_epoch_is_cut_into_equal_blocks(count: int, item_bytes: int, block_bytes: int, unit: int) -> None:
    size = cut(count, item_bytes, block_bytes, unit)
    blocks = -(-count // size)
    assert 1 <= size <= count
    assert size == 1 or size * item_bytes < block_bytes + item_bytes, "an item more than fits at the most"
    assert count >= unit or blocks == count, "too few items: one each"
    assert (blocks - 1) * size < count <= blocks * size


@pytest.mark.parametrize(
    ("count", "item_bytes", "block_bytes", "unit", "expected"),
    [(100, 8, 800, 1, 100), (100, 8, 799, 1, 50), (100, 8, 800, 4, 25), (10, 8, 1 << 20, 4, 3), (3, 8, 64, 4, 1),
     (1, 8, 1, 1, 1), (100_000, 96, 262_144, 4, 2500), (100, 8, 4, 4, 1)],
)  # fmt: skip
def test_block_sizes(count: int, item_bytes: int, block_bytes: int, unit: int, expected: int) -> None:
    assert cut(count, item_bytes, block_bytes, unit) == expected


def read(reader: EpochReader) -> list[Block]:
    """All that is left of its input."""
    found = []
    while not reader.finished:
        found.append(reader.next(0.0))
    return found


@pytest.mark.parametrize("unit", [1, 4, 6])
def test_the_blocks_of_an_epoch_are_dealt_in_turn(unit: int) -> None:
    reader = epoch_reader(50, 72, unit)
    turns: dict[int, list[int]] = {}
    for block in read(reader):
        if block.kind == Kind.DATA:
            turns.setdefault(block.epoch, []).append(reader.turn(block.epoch, int(block.arrays[1][0])))
    assert [len(epoch) for epoch in turns.values()] == [reader_blocks(reader, epoch) for epoch in turns]
    assert all(epoch == [i % unit for i in range(len(epoch))] for epoch in turns.values())


def reader_blocks(reader: EpochReader, epoch: int) -> int:
    """Number of blocks that an epoch is cut into."""
    reader.seek(reader.number(epoch - 1))
    return reader.block_count()


def test_a_row_holds_the_blocks_that_would_be_dealt_one_by_one() -> None:
    plain = [block for block in read(epoch_reader(50, 72, 6)) if block.kind == Kind.DATA]
    rows = read(RowsReader(Stream(items(50)), 3, 20, 72, 6, row=6))
    pieces = [(block.epoch, piece) for block in rows for piece in block.arrays[:-1]]
    assert [epoch for epoch, _ in pieces] == [block.epoch for block in plain]
    assert all(np.array_equal(piece, block.arrays[0]) for (_, piece), block in zip(pieces, plain, strict=True))
    data = [block for block in rows if block.kind == Kind.DATA]
    assert [block.arrays[-1].tolist() for block in data] == [[0, 2], [12, 2], [20, 2], [32, 2], [40, 2]]
    assert [block.items for block in data] == [12, 8, 12, 8, 10]
    assert all(sum(map(len, block.arrays[:-1])) == block.items for block in data)


def test_a_row_is_read_once_more_from_its_number() -> None:
    first, again = (RowsReader(Stream(items(50)), 3, 20, 72, 6, row=6) for _ in range(2))
    blocks = read(first)
    for number, block in enumerate(blocks):
        again.seek(block.key.row)
        rest = read(again)
        assert [one.key for one in rest] == [one.key for one in blocks[number + 1 :]]
