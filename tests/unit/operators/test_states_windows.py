"""States of windows against lists of what came, through any backups, restores and orders of windows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riprap.operators.states import Decaying, HashMap, KeySet, Matrix, Number, Vector, Windowed
from riprap.operators.states.base import Backup, State

KEYS = 6
MAKES: dict[str, Callable[[], Any]] = {
    "number": Number,
    "vector": lambda: Vector(KEYS, "euclidean"),
    "matrix": lambda: Matrix((2, KEYS // 2), "maximum"),
    "map": lambda: HashMap("int64", "manhattan"),
    "set": KeySet,
}
REAL = [name for name in MAKES if name != "set"]
FACTOR = 0.5
Item = tuple[int, int, float]  # window, key, amount


def update(kind: str, state: Any, epoch: int, key: int, amount: float) -> int:
    keys = {"number": (), "set": ([key],)}.get(kind, ([key],))
    return int(state.add(epoch, *keys, *(() if kind == "set" else ([amount],))))


def read(kind: str, content: Any) -> list[float]:
    """The value of each key."""
    if kind == "number":
        return [content.value]
    if kind == "set":
        return [float(there) for there in content.contains(np.arange(KEYS))]
    return (content.get(np.arange(KEYS)) if kind == "map" else content.values.ravel()).tolist()


def expected(kind: str, items: list[Item], weight: Callable[[int], float]) -> list[float]:
    sums = [0.0] * KEYS
    for epoch, key, amount in items:
        sums[key] += amount * weight(epoch)
    if kind == "set":
        return [float(any(k == key and weight(e) for e, k, _ in items)) for key in range(KEYS)]
    return [sum(sums)] if kind == "number" else sums


def weights(window: str, length: int, closed: int) -> Callable[[int], float]:
    """What items of a window count once `closed` is the last that is closed."""
    if window == "decaying":
        return lambda epoch: FACTOR ** (closed - epoch) if epoch <= closed else 0.0
    if window == "sliding":
        return lambda epoch: float(closed - length < epoch <= closed)
    return lambda epoch: float((epoch - 1) // length == (closed - 1) // length)


def made(kind: str, window: str, length: int) -> Windowed[Any] | Decaying[Any]:
    return Decaying(MAKES[kind], FACTOR) if window == "decaying" else Windowed(MAKES[kind], window, length)


CASES = [(k, w, n) for k in MAKES for w, n in (("hopping", 1), ("hopping", 3), ("sliding", 1), ("sliding", 3))]
CASES += [(kind, "decaying", 1) for kind in REAL]


@pytest.mark.parametrize(("kind", "window", "length"), CASES)
def test_what_a_window_holds_also_after_it_was_restored(kind: str, window: str, length: int) -> None:
    """Items of the next window come before this one closes; a restored state goes on as the one that was saved."""
    draw = random.Random(1)
    for _ in range(4):
        state, backups, items = made(kind, window, length), list[Backup](), list[Item]()
        for epoch in range(1, 9):
            for _ in range(draw.randint(0, 12)):
                item = (epoch + (draw.random() < 0.3), draw.randrange(KEYS), draw.randint(1, 9))
                items.append(item)
                assert update(kind, state, *item) == 1
                if draw.random() < 0.2:
                    backup = state.backup_state()
                    backups = [*([] if backup.full else backups), backup]
            state.close(epoch)
            truth = expected(kind, items, weights(window, length, epoch))
            assert read(kind, state.content()) == pytest.approx(truth)
            if draw.random() < 0.5:
                backup = state.backup_all() if draw.random() < 0.3 else state.backup_state()
                backups = [*([] if backup.full else backups), backup]
                state = made(kind, window, length)
                for backup in backups:
                    state.recover_state(backup)
                assert read(kind, state.content()) == pytest.approx(truth)
                assert state.state_divergence() == 0


@pytest.mark.parametrize(("kind", "window", "length"), CASES)
def test_an_update_stops_where_all_panes_together_exceed_theta(kind: str, window: str, length: int) -> None:
    state = made(kind, window, length)
    state.backup_state()
    state.theta = 2.5
    taken = [update(kind, state, 1 + n % 2, n, n + 1.0) for n in range(5)]
    assert taken == [1] * 5 and state.exceeded
    assert state.state_divergence() >= 5.0
    state.backup_state()
    assert not state.exceeded and state.state_divergence() == 0


def test_a_difference_from_the_backup_fades_with_what_it_is_of() -> None:
    state = Decaying(lambda: Vector(2), 0.5)
    state.add(1, [0], [8.0])
    assert state.state_divergence() == 16.0, "before its window has closed it counts as if it were of the one before"
    state.close(1)
    assert state.state_divergence() == 8.0
    for epoch in (2, 3, 4):
        state.close(epoch)
    assert state.state_divergence() == 1.0 and state.content().values.tolist() == [1.0, 0.0]


def test_what_comes_early_decays_from_the_end_of_its_own_window_on() -> None:
    """It is in the windows behind it alone, and counts once, however far ahead its sender was."""
    state = Decaying(lambda: HashMap("int64"), 0.5)
    for epoch in (3, 1, 2, 3):
        state.add(epoch, [7], [8.0])
    held = []
    for epoch in (1, 2, 3, 4):
        state.close(epoch)
        held.append(state.content().get([7])[0])
    assert held == [8.0, 12.0, 22.0, 11.0]


def test_weights_begin_anew_before_they_are_too_large() -> None:
    state = Decaying(lambda: HashMap("int64"), 0.001)
    for epoch in range(1, 200):
        state.add(epoch, [7], [3.0])
        state.close(epoch)
        assert state.content().get([7])[0] == pytest.approx(3.0 / (1 - 0.001) if epoch > 5 else 3.0, rel=2e-3)
        assert math.isfinite(state.state_divergence())


@pytest.mark.parametrize("factor", [0.5, 1e-60, 1e-100])
def test_the_smallest_factors_leave_what_is_new(factor: float) -> None:
    state = Decaying(lambda: Vector(1), factor)
    for epoch in range(1, 30):
        state.add(epoch, [0], [3e100])
        state.close(epoch)
    assert state.content().values[0] == pytest.approx(3e100 / (1 - factor))


@pytest.mark.parametrize("factor", [0.9, 0.5, 1e-60])
@pytest.mark.parametrize("closes_first", [False, True])
def test_a_state_may_begin_or_go_on_after_many_micro_batches(factor: float, closes_first: bool) -> None:
    """As a task does that restarts empty, or that had no items for long."""
    state = Decaying(lambda: Vector(1), factor)
    state.add(1, [0], [8.0])
    state.close(1)
    if closes_first:
        state.close(99_999)
    state.add(100_000, [0], [3.0])
    state.close(100_000)
    assert state.content().values.tolist() == pytest.approx([3.0]) and math.isfinite(state.state_divergence())


def test_changes_are_taken_into_a_pane_that_was_saved_empty() -> None:
    """As after a block without words: the pane is there, and has nothing."""
    state, again = (Windowed(lambda: HashMap("int64", "maximum"), "sliding", 2) for _ in range(2))
    state.theta, state.save_above = 9.0, 2.0
    backups = []
    for keys, amounts in (((), ()), ((1, 2), (1.0, 5.0))):
        state.add(1, np.array(keys, np.int64), np.array(amounts))
        backups.append(state.backup_state())
    assert [backup.full for backup in backups] == [True, False]
    for backup in backups:
        again.recover_state(backup)
    again.close(1)
    assert again.content().get([1, 2]).tolist() == [0.0, 5.0]


@pytest.mark.parametrize("early", [False, True])
def test_a_state_that_begins_in_a_late_window_has_weights_too(early: bool) -> None:
    """As that of a worker that starts again with nothing; what it had before, if anything, has faded."""
    state = Decaying(Number, 0.5)
    if early:
        state.add(1, [8.0])
        state.close(1)
    for epoch in (5000, 5001):
        state.add(epoch, [3.0])
        state.close(epoch)
    assert state.content().value == 4.5 and state.state_divergence() == 4.5


@pytest.mark.parametrize("make", [KeySet, lambda: HashMap("int64", "maximum", "int64")])
def test_what_has_no_real_values_cannot_decay(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="cannot decay"):
        Decaying(make, 0.5)


@pytest.mark.parametrize("factor", [0.0, 1.0, -1, math.nan, 5e-324, 1e-101])
def test_a_factor_lies_between_0_and_1(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        Decaying(Number, factor)


def test_which_thresholds_a_state_can_have() -> None:
    def of(state: State) -> list[tuple[str, int]]:
        every = [("none", 1), *((w, n) for w in ("hopping", "sliding", "decaying") for n in (2, 3, 4, 6))]
        return [one for one in every if state.forgets(*one)]

    assert of(Number()) == [("none", 1)]
    three = [("none", 1), ("hopping", 3), ("hopping", 6), ("sliding", 3), ("sliding", 4), ("sliding", 6)]
    assert of(Windowed(Number, "hopping", 3)) == three
    assert of(Windowed(Number, "sliding", 3)) == [one for one in three if one[0] != "hopping"]
    assert of(Decaying(Number)) == [("none", 1), *(("decaying", n) for n in (2, 3, 4, 6))]


def test_backups_of_another_form_are_refused() -> None:
    numbers = np.array([1, 2, 1], np.int64)
    for state in (Windowed(Number, "hopping"), Decaying(Number)):
        with pytest.raises(ValueError):
            state.recover_state(Backup(True, (numbers,)))
        with pytest.raises(ValueError):
            state.recover_state(Backup(True, (np.array([1.0, 2.0]),)))
