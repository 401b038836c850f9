"""Digests of what copies put out: each difference is found at its place, and nothing is compared that is not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, layout_of

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.header import CARRIED
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.digests import (
    EARLY_MAX,
    NEWS_MAX,
    POINTS_MAX,
    TELL_S,
    DigestNews,
    Digests,
    Trail,
    are_digests,
    are_news,
    points,
)
from riprap.engine.flow.layout import Layout

B0, B1, C = WorkerId("b", 0), WorkerId("b", 0, 1), WorkerId("c", 0)
LINK = (1, 0)
TOPOLOGY = chain(("a", 1), ("b", 1), ("c", 1), scheme="partially_active", replicate=["b"])


def data(value: float = 0.0, items: int = 2, **fields: Any) -> Block:
    block = Block(Kind.DATA, Epoch(1), items=items, arrays=(np.full((items, 2), float(value)),))
    for name, given in fields.items():
        setattr(block, name, given)
    return block


def end(**meta: Any) -> Block:
    return Block(Kind.PUNCTUATION, Epoch(1), meta={"items": 6, "last": False, "opened_at": 0.5} | meta)


class Copy:
    """One copy's digests of one link, and the blocks that it has put out there."""

    def __init__(self, me: WorkerId) -> None:
        self.port = DataflowPort(layout_of(TOPOLOGY, str(me)))
        self.digests, self.number = Digests(me, self.port), 0

    def put(self, window: int, *blocks: Block) -> list[Any]:
        """A window; the digests that its end carries."""
        for block in blocks:
            self.number += 1
            block.epoch, block.key = Epoch(window), Key(0, 0, self.number, 0)
            self.digests.put(LINK, block)
        told: list[Any] = blocks[-1].meta["digests"]
        return told

    @property
    def compared(self) -> int:
        return self.port.counts.get("windows_compared", 0)


def window() -> list[Block]:
    return [data(1), data(2), data(3), end()]


def changed(place: int, block: Block) -> list[Block]:
    blocks = window()
    blocks[place] = block
    return blocks


def compare(own: Sequence[Block], others: Sequence[Block]) -> None:
    one, other = Copy(B0), Copy(B1)
    one.put(1, *own)
    one.digests.hear(LINK, 1, C, other.put(1, *others))


def test_copies_that_put_out_the_same_compare_equal() -> None:
    one, other = Copy(B0), Copy(B1)
    for number in (1, 2, 3):
        told = other.put(number, *window())
        one.put(number, *window())
        one.digests.hear(LINK, number, C, told)
    assert one.compared == 3


def test_the_clocks_of_copies_may_differ() -> None:
    compare(window(), changed(3, end(opened_at=7.0, clock=3, opened_ago=0.1)))


def test_the_layout_in_memory_makes_no_difference() -> None:
    compare(window(), changed(1, data(arrays=(np.full((2, 4), 2.0)[:, ::2],))))


@pytest.mark.parametrize("dtype", sorted(CARRIED, key=str))
def test_all_that_the_wire_carries_is_digested(dtype: np.dtype) -> None:
    for shape in ((), (0, 3), (2, 2)):
        payload = np.zeros(shape, dtype)
        payload.setflags(write=False)
        compare([data(arrays=(payload,)), end()], [data(arrays=(payload.copy(),)), end()])


BLOCK_2, END = "block 2, items 3 to 4", "block 4, behind 6 items"


@pytest.mark.parametrize(
    ("others", "where"),
    [
        (changed(1, data(7)), BLOCK_2),
        (changed(1, data(2, arrays=(np.full((2, 2), 2.0, np.float32),))), BLOCK_2),
        (changed(1, data(2, arrays=(np.full(4, 2.0),))), BLOCK_2),
        (changed(1, data(2, arrays=(np.full((2, 2), 2.0), np.zeros(0)))), BLOCK_2),
        (changed(1, data(2, items=3, arrays=data(2).arrays)), BLOCK_2),
        (changed(3, end(items=7)), END),
        (changed(3, end(time=4)), END),
        (changed(3, end(idle=True)), END),
        (changed(3, end(last=True)), END),
        ([data(1), data(3), end()], BLOCK_2),
        ([data(1), end()], BLOCK_2),
        ([data(1), data(2), data(3), data(4), end()], END),
        ([data(2), data(1), data(3), end()], "block 1, items 1 to 2"),
    ],
)
def test_the_first_difference_is_named(others: list[Block], where: str) -> None:
    with pytest.raises(JobFailed) as raised:
        compare(window(), others)
    assert raised.value.args[0] == (
        "copies of b.0 differ: in window 1, b.0 has put out to c.0 something else than the other, "
        f"first in {where} of the window"
    )
    assert "no clocks, unordered sets, or unseeded random numbers; see docs/schemes.md" in raised.value.remedy


def test_of_many_blocks_few_digests_are_told_and_the_difference_lies_between_two() -> None:
    many = 10 * POINTS_MAX
    blocks: Callable[[], list[Block]] = lambda: [data(i) for i in range(many - 1)]  # noqa: E731
    others = blocks()
    others[44] = data(-1)
    with pytest.raises(JobFailed, match="first in blocks 41 to 50, items 81 to 100 of the window"):
        compare([*blocks(), end()], [*others, end()])
    assert len(Copy(B0).put(1, *blocks(), end())[1]) == 4 * POINTS_MAX


def test_a_window_told_of_early_is_compared_once_it_is_put_out_here() -> None:
    one, other = Copy(B0), Copy(B1)
    for number in (1, 2):
        one.digests.hear(LINK, number, C, other.put(number, *(window() if number == 1 else changed(0, data(9)))))
    assert not one.compared
    one.put(1, *window())
    assert one.compared == 1
    with pytest.raises(JobFailed, match=r"in window 2, .* block 1, items 1 to 2"):
        one.put(2, *window())


def test_of_early_windows_the_newest_wait() -> None:
    one, other = Copy(B0), Copy(B1)
    for number in range(1, EARLY_MAX + 3):
        one.digests.hear(LINK, number, C, other.put(number, end()))
    for number in range(1, EARLY_MAX + 3):
        one.put(number, end())
    assert one.compared == EARLY_MAX


def test_what_a_copy_has_not_put_out_itself_is_not_compared() -> None:
    one, other = Copy(B0), Copy(B1)
    told = other.put(1, *changed(0, data(9)))
    one.put(2, *window())  # the first window behind its checkpoint
    one.digests.hear(LINK, 1, C, told)
    assert not one.compared


def test_what_no_receiver_tells_of_any_more_is_forgotten() -> None:
    one = Copy(B0)
    told = [one.put(number, *window()) for number in (1, 2)]
    one.digests.forget(LINK, 4)
    one.digests.hear(LINK, 1, C, told[0])
    one.digests.hear(LINK, 2, C, told[1])
    assert one.compared == 1


def test_windows_that_come_fast_are_told_of_together() -> None:
    """The first at once; then those of TELL_S, or as many as a message takes."""
    news, told, now = DigestNews(B0), [1, bytes(4)], 0.0
    shared = []
    for window in range(1, 12):
        now = window * TELL_S / 3.9
        news.add(window, told)
        if news.due(now):
            shared.append([number for number, _ in news.taken(now)])
    assert shared == [[1], [2, 3, 4, 5], [6, 7, 8, 9]]
    for window in range(12, 10 + NEWS_MAX - 1):
        news.add(window, told)
        assert not news.due(now)
    news.add(10 + NEWS_MAX - 1, told)
    assert news.due(now) and are_news(news.taken(now)) and news.taken(now) == []


@pytest.mark.parametrize("blocks", [1, 2, POINTS_MAX - 1, POINTS_MAX, POINTS_MAX + 1, 3 * POINTS_MAX, 10**15])
def test_points_are_few_and_end_with_the_last_block(blocks: int) -> None:
    found = points(blocks)
    assert found == sorted({*found}) and found[-1] == blocks
    assert len(found) == blocks or POINTS_MAX / 2 < len(found) <= POINTS_MAX
    assert are_digests([blocks, bytes(4 * len(found))]) and not are_digests([blocks, bytes(4 * len(found) - 1)])


def test_a_trail_tells_what_the_gate_lets_through() -> None:
    trail = Trail()
    for block in window():
        trail.add(block)
        assert are_digests(trail.told())


@pytest.mark.parametrize(("me", "copied"), [("a.0", False), ("b.0", True), ("b.0~1", True), ("c.0", False)])
def test_tasks_with_a_replica_alone_are_compared(me: str, copied: bool) -> None:
    assert Layout.of(TOPOLOGY, WorkerId.parse(me)).copied == copied
