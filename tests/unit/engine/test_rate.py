"""A source that is given a rate reads no faster, and floods nobody after a stall."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riprap.codec.blocks import Kind
from riprap.engine.flow.rate import UNLIMITED, InputRate, rate_of
from riprap.engine.flow.reader import Reader


class Ten:
    items, item_bytes = 10, 8.0

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return (np.arange(start, stop),)


def test_items_come_at_the_rate_on_average() -> None:
    rate, now, read = InputRate(100.0, 10), 5.0, []
    for position in range(0, 50, 5):
        now += rate.wait_s(position, now)
        read.append(now)
    assert read == pytest.approx([5.0 + 0.05 * block for block in range(10)])


def test_a_new_life_goes_on_at_the_rate_from_where_it_is() -> None:
    rate = InputRate(100.0, 10)
    assert rate.wait_s(1_000_000, 7.0) == 0.0
    assert rate.wait_s(1_000_001, 7.0) == pytest.approx(0.01)


def test_after_a_stall_an_epoch_at_most_is_caught_up() -> None:
    rate = InputRate(100.0, 10)
    assert rate.wait_s(0, 0.0) == 0.0
    free = [position for position in range(1, 100) if rate.wait_s(position, 60.0) == 0.0]
    assert free == list(range(1, 12)), "ten items behind, and the one whose time has come"


def test_without_a_rate_nobody_waits() -> None:
    assert UNLIMITED.wait_s(1 << 60, 0.0) == 0.0 and rate_of(None, 3, 10) is UNLIMITED
    shared = rate_of(30.0, 3, 10)
    assert (shared.items_per_s, shared.burst_items) == (10.0, 10)
    assert InputRate().items_per_s == math.inf


def test_a_reader_says_how_long_until_its_next_block() -> None:
    reader, now, ends = Reader(Ten(), 2, 16, 5, InputRate(10.0, 4)), 1.0, []
    while not reader.finished:
        now += reader.wait_s(now)
        if reader.next(now).kind == Kind.PUNCTUATION:
            ends.append(now)
    assert ends == pytest.approx([1.5, 2.0]), "a window ends when its last item would be followed by another"
