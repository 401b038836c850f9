"""Placement: both ends compute it, rows spread over all workers, and groups are drawn evenly (LEC III-C, V-A)."""

from __future__ import annotations

from collections import Counter

import pytest
from fake_port import processor
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.ids import Epoch
from riprap.engine.spreads.placement import alternate, random_group, rotate

SIX = tuple(processor(i) for i in range(6))


@given(st.integers(1, 9), st.integers(0, 3), st.integers(0, 5), st.integers(1, 2**40), st.integers(0, 2**40))
def test_the_blocks_of_a_row_lie_on_different_workers(k: int, r: int, more: int, epoch: int, row: int) -> None:
    workers = tuple(processor(i) for i in range(k + r + more))
    for active in range(k, len(workers) + 1):
        placed = [rotate(workers, active, Epoch(epoch), row, s_index) for s_index in range(k + r)]
        assert len(set(placed)) == k + r
        assert set(placed[:k]) <= set(workers[:active]), "slow workers get parity at most"


@pytest.mark.parametrize("epoch", [1, 7])
def test_rotation_gives_every_worker_the_same_share_of_data_and_of_parity(epoch: int) -> None:
    data = Counter(rotate(SIX, 6, Epoch(epoch), row, i) for row in range(12) for i in range(4))
    parity = Counter(rotate(SIX, 6, Epoch(epoch), row, i) for row in range(12) for i in (4, 5))
    assert set(data.values()) == {8} and set(parity.values()) == {4}
    assert len(data) == len(parity) == 6


@given(st.permutations(SIX), st.integers(0, 100))
def test_alternating_does_not_depend_on_the_order_of_names(workers: list, block: int) -> None:
    assert alternate(sorted(workers), block) == SIX[block % 6]
    assert alternate(sorted(dict.fromkeys(workers, 1)), block) == SIX[block % 6]


def test_groups_are_whole_and_drawn_evenly() -> None:
    drawn = Counter(random_group(SIX, SIX, 2, Epoch(e), b) for e in range(1, 31) for b in range(100))
    assert set(drawn) == {SIX[0:2], SIX[2:4], SIX[4:6]}
    assert all(abs(count - 1000) < 120 for count in drawn.values())


def test_a_draw_is_a_function_of_epoch_and_block() -> None:
    draws = [random_group(SIX, SIX, 2, Epoch(1), block) for block in range(40)]
    assert draws == [random_group(SIX, list(reversed(SIX)), 2, Epoch(1), block) for block in range(40)]
    assert draws != [random_group(SIX, SIX, 2, Epoch(2), block) for block in range(40)]


def test_groups_without_a_live_member_are_passed_over() -> None:
    live = {SIX[1], SIX[4]}
    drawn = {random_group(SIX, live, 2, Epoch(1), block) for block in range(100)}
    assert drawn == {SIX[0:2], SIX[4:6]}
    assert len({random_group(SIX, (), 2, Epoch(1), block) for block in range(100)}) == 3, "none alive: any will do"
