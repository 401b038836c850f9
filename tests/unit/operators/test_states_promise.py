"""What a hash map promises of each key: no new one is lost, and none lacks more than a part of its value."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from riprap.operators.states import HashMap, pack_keys, unpack_keys

PART, THETA = 0.25, 40.0


def promising(values: str = "int64") -> HashMap:
    state = HashMap("bytes", "maximum", values, PART)
    state.theta, state.save_above = THETA, 8.0
    return state


def add(state: HashMap, *counts: tuple[str, float]) -> int:
    words = pack_keys([word.encode() for word, _ in counts])
    return state.add(words, np.array([count for _, count in counts], state.get(words).dtype))


def counts(state: HashMap) -> dict[str, float]:
    keys, values = state.items()
    return dict(zip((key.decode() for key in unpack_keys(keys)), values.tolist()))


@pytest.mark.parametrize("values", ["int64", "float64"])
def test_what_is_not_in_the_backups_is_within_the_promise_unless_one_is_due(values: str) -> None:
    """Against a dictionary, whatever the moments of backups are, and however theta and the share change."""
    draw = random.Random(3)
    for _ in range(40):
        state, restored = promising(values), HashMap("bytes", "maximum", values)
        restored.recover_state(state.backup_state())
        for _ in range(300):
            taken = add(state, *((f"w{int(draw.expovariate(0.2))}", draw.randint(1, 9)) for _ in range(4)))
            assert taken == 4 or state.exceeded
            if draw.random() < 0.1:
                state.share = draw.choice((1.0, 0.5, 0.0))
            if state.exceeded or draw.random() < 0.1:
                restored.recover_state(state.backup_state())
                assert not state.exceeded
            saved = counts(restored)
            for word, count in counts(state).items():
                apart = count - saved.get(word, 0)
                assert apart <= min(THETA, PART * state.share * saved.get(word, 0)), (word, count, saved.get(word))


def test_an_update_stops_at_a_new_key_and_where_an_old_one_has_grown_by_more_than_its_part() -> None:
    state = promising()
    assert add(state, ("new", 1), ("other", 1)) == 1 and math.isinf(state.state_divergence())
    state.backup_state()
    assert add(state, ("new", 0), ("new", 20), ("new", 1)) == 2
    state.backup_state()
    assert add(state, *[("new", 1)] * 9) == 6, "a quarter of 21 is 5"


def test_what_is_rare_is_in_the_next_backup_and_what_is_frequent_only_beyond_the_line() -> None:
    state = promising()
    state.theta = math.inf
    add(state, ("rare", 2), ("often", 1000))
    state.backup_state()
    state.theta = THETA
    add(state, ("often", 7), ("rare", 1))
    data, offsets, saved = state.backup_state().arrays
    assert unpack_keys((data, offsets)) == [b"rare"] and saved.tolist() == [3]
    assert state.state_divergence() == 7


def test_a_lower_share_is_kept_at_once() -> None:
    state = promising()
    state.theta = math.inf
    add(state, ("word", 40))
    state.backup_state()
    state.theta = THETA
    add(state, ("word", 8))
    assert not state.exceeded
    state.share = 0.5
    assert state.exceeded


def test_without_a_threshold_nothing_stops() -> None:
    state = promising()
    state.theta = math.inf
    assert add(state, ("a", 1), ("b", 1)) == 2 and not state.exceeded


def test_what_is_restored_and_what_is_cleared_promise_the_same() -> None:
    state, restored = promising(), promising()
    state.theta = math.inf
    add(state, ("word", 40))
    restored.recover_state(state.backup_state())
    assert add(restored, ("word", 1), ("word", 10), ("word", 1)) == 2
    restored.clear()
    assert add(restored, ("word", 1), ("more", 1)) == 1


@pytest.mark.parametrize(("relative", "divergence"), [(-0.1, "maximum"), (math.nan, "maximum"), (0.1, "manhattan")])
def test_a_promise_that_cannot_be_kept_is_refused(relative: float, divergence: str) -> None:
    with pytest.raises(ValueError, match="relative"):
        HashMap("bytes", divergence, relative=relative)
