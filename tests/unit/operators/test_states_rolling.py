"""Rolling backups: slices in turn, each with what has changed; any round of them and what follows is the state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.operators.states import HashMap, KeySet, Matrix, Vector
from riprap.operators.states.base import Sliced, State
from riprap.operators.states.checks import Keys, pack_keys
from riprap.operators.states.hash_map import DIVERGENCES, KINDS
from riprap.operators.states.tracked import TrackedState

ROOM = 200
MAKERS: dict[str, Callable[[], TrackedState]] = {
    "map": HashMap,
    "map of whole numbers": lambda: HashMap(values="int64"),
    "map of strings": lambda: HashMap(key="bytes"),
    "set": KeySet,
    "set of strings": lambda: KeySet(key="bytes"),
    "vector": lambda: Vector(ROOM),
    "matrix": lambda: Matrix((ROOM // 10, 10)),
}


def keys_of(state: TrackedState, numbers: np.ndarray) -> Keys:
    packed = getattr(state, "key", "int64") == "bytes"
    return pack_keys([b"%d" % number for number in numbers]) if packed else numbers


def update(state: TrackedState, numbers: list[int]) -> None:
    keys = keys_of(state, np.array(numbers, np.int64))
    if isinstance(state, KeySet):
        state.add(keys)
    else:
        state.add(keys, 1 + np.array(numbers, np.int64) % 7)  # type: ignore[attr-defined]


def content(state: State) -> tuple[list[float], ...]:
    """All entries in their order."""
    return tuple(array.tolist() for array in state.backup_all().arrays)


Steps = st.lists(st.lists(st.integers(0, ROOM - 1), max_size=12), min_size=1, max_size=25)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@settings(max_examples=60, deadline=None)
@given(first=st.lists(st.integers(0, ROOM - 1), min_size=1, max_size=60), steps=Steps, of=st.integers(1, 5))
def test_a_round_of_slices_and_what_follows_is_the_state(
    make: Callable[[], TrackedState], first: list[int], steps: list[list[int]], of: int
) -> None:
    state = make()
    update(state, first)
    backups, place, begins = [Sliced(state.backup_all())], 0, []
    for numbers in steps:
        update(state, numbers)
        begins += [len(backups)] if place == 0 else []
        backups.append(state.backup_rolling(place, of))
        full = backups[-1].backup.full
        place = 0 if full else (place + 1) % of
        if full:
            backups, begins = backups[-1:], []
    rounds = begins if place == 0 else begins[:-1]
    truth = content(state)
    for begin in [0, *rounds]:
        again = make()
        again.recover_chain(backups[begin:])
        assert content(again) == truth


def change_further(state: TrackedState, numbers: list[int]) -> None:
    """Further updates, after which entries are apart from what was saved by more, by less, or not at all."""
    update(state, numbers)
    if not isinstance(state, KeySet):
        keys = keys_of(state, np.array(numbers[::2], np.int64))
        state.add(keys, -1 - np.array(numbers[::2], np.int64) % 7)  # type: ignore[attr-defined]


MEASURED: dict[str, Callable[[], TrackedState]] = {
    "set": KeySet,
    **{f"vector, {name}": partial(Vector, ROOM, name) for name in Vector.DIVERGENCES},
    **{f"map of {key}, {name}": partial(HashMap, key, name) for key in KINDS for name in DIVERGENCES},
}


@pytest.mark.parametrize("make", MEASURED.values(), ids=MEASURED)
@settings(max_examples=30, deadline=None)
@given(steps=Steps, later=st.lists(st.integers(0, ROOM - 1), min_size=1, max_size=20), line=st.sampled_from([0.0, 3.0]))
def test_what_was_restored_goes_on_as_what_was_saved(
    make: Callable[[], TrackedState], steps: list[list[int]], later: list[int], line: float
) -> None:
    state, again = make(), make()
    update(state, [1, 2, 3])
    chain = [Sliced(state.backup_all())]
    for numbers in steps:
        update(state, numbers)
        chain.append(Sliced(state.backup_state()))
    again.recover_chain(chain)
    assert again.state_divergence() == state.state_divergence() == 0
    for one in state, again:
        one.save_above = line
        change_further(one, later)
    assert again.state_divergence() == state.state_divergence()
    assert [a.tolist() for a in again.backup_state().arrays] == [a.tolist() for a in state.backup_state().arrays]


def test_a_slice_is_a_part_of_what_there_was_at_the_beginning_of_its_round() -> None:
    state = Vector(1000)
    state.overwrite(np.arange(1000.0))
    state.backup_all()
    sizes = []
    for place in range(8):
        state.add(np.array([place]), np.ones(1))
        sizes.append(sum(array.nbytes for array in state.backup_rolling(place, 8).arrays))
    assert sizes == [8 * (125 + 2)] * 8, "125 values of the slice; the index and value that changed"


def test_a_chain_that_lacks_a_slice_is_refused() -> None:
    state = HashMap()
    state.add(np.arange(100), np.ones(100))
    state.backup_all()
    parts: list[Sliced] = [state.backup_rolling(place, 4) for place in range(4)]
    with pytest.raises(ValueError, match="up to entry 50 only"):
        HashMap().recover_chain([*parts[:2], parts[3]])


@pytest.mark.parametrize("make", [partial(HashMap, "int64", "maximum"), partial(Vector, 8, "maximum")])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(-3, 3)), max_size=20))
def test_what_stays_out_of_the_changes_is_in_no_slice(make: Callable[[], Any], steps: list[tuple[int, int]]) -> None:
    """Each entry restored is as far from the state as the divergence says at most, wherever it was between."""
    state, again = make(), make()
    state.theta, state.save_above = 100.0, 2.0
    state.add(np.arange(8), np.full(8, 10.0))
    state.backup_all()
    chain = []
    for place, (key, amount) in enumerate([*steps, (0, 0)]):
        state.add(np.array([key]), np.array([float(amount)]))
        chain.append(state.backup_rolling(place % 2, 2))
    again.recover_chain([*chain, state.backup_rolling(len(chain) % 2, 2)])
    differences = np.abs(state.entries()[-1] - again.entries()[-1])
    assert differences.max() <= state.state_divergence()
