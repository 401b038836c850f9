"""States of stages that go on with another number of tasks: each key is in one of them, and has all that it had."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from riprap.codec.key_groups import GROUPS, dealt, groups_of
from riprap.operators.states import Decaying, HashMap, KeySet, Number, Vector, Windowed
from riprap.operators.states.base import Backup, State

Built = Callable[[], State]
KEYS = np.random.default_rng(3).integers(-(2**62), 2**62, 500)


def windowed() -> Windowed[HashMap]:
    return Windowed(lambda: HashMap(values="int64"), "sliding", 2)


def decaying() -> Decaying[HashMap]:
    return Decaying(HashMap, 0.5)


def fill(state: State, keys: np.ndarray) -> None:
    """Each key in two windows."""
    if isinstance(state, KeySet):
        state.add(keys)
    elif isinstance(state, HashMap):
        state.add(keys, np.abs(keys % 97))
    elif isinstance(state, Windowed | Decaying):
        for epoch in (1, 2):
            state.add(epoch, keys, np.abs(keys % 97) + epoch)
            state.close(epoch)


def content(state: State) -> dict[int, float]:
    inner = state.content() if isinstance(state, Windowed | Decaying) else state
    if isinstance(inner, KeySet):
        return dict.fromkeys(inner.items().tolist(), 1.0)  # type: ignore[union-attr]
    keys, values = inner.items()  # type: ignore[attr-defined]
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


def of_task(task: int, tasks: int) -> range:
    """The groups of one of so many tasks."""
    owners = [group * tasks // GROUPS for group in range(GROUPS)]
    return range(owners.index(task), GROUPS - owners[::-1].index(task))


@pytest.mark.parametrize("make", [lambda: HashMap(values="int64"), KeySet, windowed, decaying])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (4, 4)])
def test_all_keys_are_taken_over_once(make: Built, before: int, after: int) -> None:
    order, bounds = dealt(groups_of(KEYS), before)
    former, truth = [], make()
    fill(truth, KEYS)
    for begin, end in pairwise(bounds):
        state = make()
        fill(state, KEYS[order[begin:end]])
        former.append(state.backup_all())
    found: dict[int, float] = {}
    for task in range(after):
        state = make()
        state.recover_groups(former, of_task(task, after))
        part = content(state)
        assert part and not found.keys() & part.keys()
        assert all(group in of_task(task, after) for group in groups_of(np.array(list(part))).tolist())
        found |= part
        again = make()
        again.recover_state(state.backup_all())
        assert content(again) == part, "what is saved of it is all of it"
    assert found == content(truth)


def test_byte_strings_are_taken_over_too() -> None:
    words = [b"alpha", b"beta", b"gamma", b"", b"delta"]
    keys = np.frombuffer(b"".join(words), np.uint8), np.cumsum([0, *map(len, words)], dtype=np.int64)
    whole = HashMap("bytes", values="int64")
    whole.add(keys, np.arange(5))
    found = []
    for task in range(3):
        part = HashMap("bytes", values="int64")
        part.recover_groups([whole.backup_all()], of_task(task, 3))
        (data, ends), values = part.items()
        found += [(data[ends[i] : ends[i + 1]].tobytes(), int(value)) for i, value in enumerate(values)]
    assert sorted(found) == sorted(zip(words, range(5), strict=True))


@pytest.mark.parametrize("state", [Number("difference"), Vector(4)])
def test_a_state_that_has_no_keys_cannot_be_parted(state: State) -> None:
    with pytest.raises(ValueError, match="not kept by key"):
        state.recover_groups([Backup(True, ())], range(4))
