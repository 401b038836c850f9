"""Keys by group: every key is in one, the same for ever; and what is dealt out by them is all of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.key_groups import GROUPS, dealt, groups_of, places_of_integers, taken

STRINGS = [b"", b"a", b"alpha", b"12345678", b"123456789", "straße".encode(), b"\0" * 8, b"\0" * 9]
INTEGERS = [0, 43, 109, 90, 9]
TEXT = [0, 89, 0, 7, 111, 118, 118, 26]


def packed(strings: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    return np.frombuffer(b"".join(strings), np.uint8), ends


def test_groups_never_change() -> None:
    """Savepoints hold what they dealt out: another hash would give keys to tasks that do not have them."""
    assert groups_of(np.array([0, 1, 2, -1, 2**62])).tolist() == INTEGERS
    assert groups_of(packed(STRINGS)).tolist() == TEXT


def test_keys_are_shared_out_evenly() -> None:
    counts = np.bincount(groups_of(np.arange(128_000)), minlength=GROUPS)
    assert len(counts) == GROUPS and counts.min() > 850 and counts.max() < 1150
    counts = np.bincount(groups_of(packed([b"key %d" % i for i in range(128_000)])), minlength=GROUPS)
    assert len(counts) == GROUPS and counts.min() > 850 and counts.max() < 1150


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200), st.integers(0, GROUPS), st.integers(0, GROUPS))
def test_the_places_of_a_range_of_groups(keys: list[int], first: int, stop: int) -> None:
    groups = groups_of(np.array(keys, np.int64)).tolist()
    expected = [place for place, group in enumerate(groups) if first <= group < stop]
    assert places_of_integers(np.array(keys, np.int64), first, stop).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200), st.integers(1, GROUPS))
def test_each_key_is_dealt_to_the_task_with_its_group_in_order(keys: list[int], tasks: int) -> None:
    groups = groups_of(np.array(keys, np.int64))
    order, bounds = dealt(groups, tasks)
    expected = [[i for i in range(len(keys)) if int(groups[i]) * tasks // GROUPS == task] for task in range(tasks)]
    assert [order[a:b].tolist() for a, b in pairwise(bounds)] == expected


@given(st.lists(st.binary(max_size=20), max_size=30), st.randoms())
def test_strings_are_taken_from_their_places(strings: list[bytes], rng) -> None:  # type: ignore[no-untyped-def]
    chosen = [i for i in range(len(strings)) if rng.random() < 0.5]
    data, ends = taken(*packed(strings), np.array(chosen, np.int64))
    assert [data[a:b].tobytes() for a, b in pairwise(ends)] == [strings[i] for i in chosen]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [-1, 2], [0, 99]])
def test_offsets_that_lead_astray_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets of keys"):
        groups_of((np.zeros(4, np.uint8), np.array(offsets, np.int64)))


@pytest.mark.parametrize("tasks", [0, GROUPS + 1])
def test_there_are_no_more_tasks_than_groups(tasks: int) -> None:
    with pytest.raises(ValueError, match="1 to 128"):
        dealt(np.zeros(1, np.uint8), tasks)
