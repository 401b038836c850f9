"""Turns of a task, as blocks carry them and receivers keep them."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import FrameError
from riprap.engine.flow.turns import PACKED_BYTES_MAX, PLAIN_BYTES, TURN_BYTES, TURNS_MAX, Turns, pack, unpack

LINKS = st.lists(st.integers(0, 2 ** (8 * TURN_BYTES) - 1), max_size=100)


def turns_of(*links: int, start: int = 0) -> Turns:
    turns = Turns(start)
    for link in links:
        turns.note(link)
    return turns


@settings(deadline=None)
@given(links=LINKS, place=st.integers(0, 1 << 40), times=st.integers(1, 50))
def test_what_is_packed_is_unpacked(links: list[int], place: int, times: int) -> None:
    said = turns_of(*links).behind(0) * times
    packed = pack(place, said)
    assert unpack(packed) == (place, said)
    assert len(packed[2]) <= max(PLAIN_BYTES, len(said) + 16)


@given(links=LINKS, parts=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), max_size=6))
def test_parts_that_overlap_add_up_to_the_whole(links: list[int], parts: list[tuple[int, int]]) -> None:
    """As the blocks of several links tell them."""
    whole, heard = turns_of(*links).behind(0), Turns()
    for end, overlap in sorted(parts):
        start = max(0, heard.end - overlap)
        heard.extend(start, whole[TURN_BYTES * start : TURN_BYTES * end])
    told = min(len(links), max((end for end, _ in parts), default=0))
    assert heard.links(0) == links[:told]
    heard.forget(told // 2)
    assert (heard.start, heard.end) == (told // 2, told)
    assert heard.links(0) == heard.links(told // 2) == links[told // 2 : told]


def test_what_comes_before_a_gap_is_worth_nothing() -> None:
    heard = turns_of(1, 2, 3)
    heard.extend(5, turns_of(7, 8).behind(0))
    assert (heard.start, heard.end, heard.links(0)) == (5, 7, [7, 8])


def test_what_is_known_is_not_added_once_more() -> None:
    heard = turns_of(1, 2, 3)
    heard.extend(0, turns_of(1, 2).behind(0))
    assert heard.links(0) == [1, 2, 3]
    heard.extend(1, turns_of(2, 3, 4).behind(0))
    assert heard.links(0) == [1, 2, 3, 4]


def test_too_many_turns_for_a_header_are_left_out_and_leave_a_gap() -> None:
    noise = os.urandom(2 * PACKED_BYTES_MAX)
    assert pack(10, noise) == [10 + len(noise) // TURN_BYTES, 0, b""]
    alike = bytes(TURN_BYTES * (TURNS_MAX + 1))
    assert unpack(pack(0, alike)) == (TURNS_MAX + 1, b"")
    assert unpack(pack(0, alike[TURN_BYTES:])) == (0, alike[TURN_BYTES:]), "so many still fit"


LONG = bytes(2 * PLAIN_BYTES)


@pytest.mark.parametrize(
    "packed",
    [
        None, 7, [], [0, 1], [0, 1, b"ab", 0], [-1, 1, b"ab"], [0, -1, b""], [0, 1, b"abc"], [0, 2, b"ab"],
        [0, 1, "ab"], [1 << 62, 1, b"ab"], [0.0, 1, b"ab"], {"place": 0}, [0, TURNS_MAX + 1, zlib.compress(LONG)],
        *(
            [0, PLAIN_BYTES, wrong]
            for wrong in (
                LONG, zlib.compress(LONG[:-2]), zlib.compress(LONG + b"ab"), zlib.compress(LONG)[:-1],
                zlib.compress(LONG) + b"x",
            )
        ),
    ],
)  # fmt: skip
def test_what_nobody_packs_is_refused(packed: Any) -> None:
    with pytest.raises(FrameError):
        unpack(packed)
