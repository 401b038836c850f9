"""The discipline `ordered`: however blocks arrive, they are taken in one order."""

from __future__ import annotations

import random
from collections import deque

import pytest

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.progress import LinkKey
from riprap.engine.flow.rotation import Rotation

LINKS: tuple[LinkKey, ...] = ((0, 0), (0, 1), (2, 0))
SIZES = {(0, 0): (3, 0, 1), (0, 1): (1, 2, 0), (2, 0): (0, 5, 2)}
"""Blocks of each link in each window, in front of its punctuation."""


def sent(link: LinkKey) -> list[Block]:
    """All that comes on a link, in order."""
    blocks = []
    for window, size in enumerate(SIZES[link], 1):
        blocks += [Block(Kind.DATA, Epoch(window), items=i + 1) for i in range(size)]
        blocks.append(Block(Kind.PUNCTUATION, Epoch(window)))
    return blocks


def taken(seed: int) -> list[tuple[LinkKey, int, int]]:
    """The link, window and items of each block, in the order in which they are taken when they arrive in an order that
    the seed draws."""
    draw, coming = random.Random(seed), {link: deque(sent(link)) for link in LINKS}
    waiting: dict[LinkKey, deque[Block]] = {link: deque() for link in LINKS}
    rotation, order = Rotation(dict.fromkeys(draw.sample(LINKS, len(LINKS)), 0)), []
    while left := [link for link in LINKS if coming[link]]:
        link = draw.choice(left)
        waiting[link].append(coming[link].popleft())
        while rotation.turn is not None and waiting[rotation.turn]:
            of, block = rotation.turn, waiting[rotation.turn].popleft()
            rotation.note(block)
            order.append((of, block.epoch, block.items))
    assert not any(waiting.values())
    return order


def test_a_thousand_orders_of_arrival_are_one_order() -> None:
    assert len({tuple(taken(seed)) for seed in range(1000)}) == 1


def test_links_take_turns_until_they_have_closed_the_window() -> None:
    order = taken(0)
    assert [window for _, window, _ in order] == sorted(window for _, window, _ in order)
    first = [(link, items) for link, window, items in order if window == 1]
    a, b, c = LINKS
    assert first == [(a, 1), (b, 1), (c, 0), (a, 2), (b, 0), (a, 3), (a, 0)]


@pytest.mark.parametrize("links", [(), LINKS[:1]])
def test_a_task_with_one_link_or_none_waits_for_nobody(links: tuple[LinkKey, ...]) -> None:
    rotation = Rotation(dict.fromkeys(links, 0))
    for block in sent(LINKS[0]) if links else ():
        assert rotation.turn == LINKS[0]
        rotation.note(block)
    assert rotation.turn == (LINKS[0] if links else None)


def test_who_begins_within_a_window_waits_for_those_that_have_not_closed_it() -> None:
    a, b, c = LINKS
    rotation = Rotation({a: 4, b: 5, c: 4})
    for link in (a, c, a, c):
        assert rotation.turn == link
        rotation.note(Block(Kind.DATA, Epoch(5)))
    rotation.note(Block(Kind.PUNCTUATION, Epoch(5)))
    rotation.note(Block(Kind.PUNCTUATION, Epoch(5)))
    assert rotation.turn == a
    rotation.note(Block(Kind.DATA, Epoch(6)))
    assert rotation.turn == b


BACK: LinkKey = (3, 0)


@pytest.mark.parametrize("lead", [0, 2])
def test_what_was_fed_back_comes_whole_and_just_before_the_window_that_waits_for_it(lead: int) -> None:
    a, b, _ = LINKS
    rotation, order = Rotation({a: 0, BACK: 0, b: 0}, {BACK: lead}), []
    blocks = {link: deque((window, i) for window in range(1, 6) for i in range(3)) for link in (a, b, BACK)}
    while rotation.turn is not None and blocks[rotation.turn]:
        window, i = blocks[of := rotation.turn].popleft()
        kind = Kind.PUNCTUATION if i == 2 else Kind.FEEDBACK if of == BACK else Kind.DATA
        rotation.note(Block(kind, Epoch(window)))
        order.append((of, window))
    for window in range(1, 6 - lead):
        assert order.count((BACK, window)) == 3
        at = [place for place, one in enumerate(order) if one == (BACK, window)]
        assert order[at[0] - 1][1] == window + lead and at == [at[0], at[0] + 1, at[0] + 2]
        assert len(order) == at[2] + 1 or order[at[2] + 1] == (a, window + 1 + lead)


def test_who_begins_again_knows_how_much_was_fed_back() -> None:
    a, b, _ = LINKS
    assert Rotation({a: 4, b: 4, BACK: 3}, {BACK: 0}).turn == BACK
    assert Rotation({a: 4, b: 4, BACK: 3}, {BACK: 1}).turn == a
