"""Number, vector and matrix: indexes, whole replacement, views, and values that are not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riprap.operators.states import Matrix, Number, Vector


@pytest.mark.parametrize("index", [-1, 4, 2**62, -(2**63)])
def test_an_index_out_of_range_is_refused_and_what_is_before_it_applied(index: int) -> None:
    state = Vector(4)
    with pytest.raises(ValueError, match=f"item 2: index {index} of 4"):
        state.add([0, 1, index, 3], [1.0, 2.0, 3.0, 4.0])
    assert state.values.tolist() == [1, 2, 0, 0] and state.state_divergence() == 3.0


def test_a_bad_index_behind_the_stop_waits_for_its_call() -> None:
    state = Vector(4)
    state.theta = 0.5
    assert state.add([0, 9], [1.0, 1.0]) == 1
    with pytest.raises(ValueError, match="item 0: index 9"):
        state.add([9], [1.0])


def test_the_values_are_shown_and_not_given_away() -> None:
    state = Matrix((2, 3))
    view = state.values
    state.add([4], [2.5])
    assert view.tolist() == [[0, 0, 0], [0, 2.5, 0]] and state.shape == (2, 3)
    with pytest.raises(ValueError):
        view[0, 0] = 1.0


def test_a_whole_array_replaces_the_values_in_one_step() -> None:
    state = Vector(4, "euclidean")
    state.theta = 1.0
    state.backup_state()
    state.overwrite([3.0, 0.0, 4.0, 0.0])
    assert state.state_divergence() == 5.0 and state.exceeded
    state.overwrite(np.zeros(4, np.float32))
    assert state.state_divergence() == 0.0
    with pytest.raises(ValueError, match="shape"):
        state.overwrite(np.zeros(5))
    state.overwrite(np.ones(8)[::2])
    assert state.values.tolist() == [1.0] * 4


def test_a_replaced_array_is_backed_up_by_its_changes() -> None:
    state = Vector(100)
    state.backup_state()
    state.overwrite(np.where(np.arange(100) % 10 == 3, 7.0, 0.0))
    full, (indexes, values) = state.backup_state()
    assert not full and indexes.tolist() == list(range(3, 100, 10)) and values.tolist() == [7.0] * 10


def test_more_changes_than_half_are_backed_up_as_a_whole() -> None:
    state = Vector(10)
    state.backup_state()
    state.add(range(4), np.ones(4))
    assert not state.backup_state().full
    state.add(range(5), np.ones(5))
    assert state.backup_state().full


def test_maximum_is_an_upper_bound_where_values_go_back() -> None:
    state = Vector(3, "maximum")
    state.add([0, 0, 1], [5.0, -4.0, 2.0])
    assert state.state_divergence() == 5.0
    state.backup_state()
    state.add([0], [-1.5])
    assert state.state_divergence() == 1.5


@pytest.mark.parametrize("divergence", ["manhattan", "euclidean", "maximum"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_infinitely_far(divergence: str, value: float) -> None:
    state = Vector(2, divergence)
    state.theta = 1e300
    assert state.assign([0, 1], [value, 1.0]) == 1
    assert state.state_divergence() == math.inf
    state.backup_state()
    assert state.assign([1], [0.5]) == 1 and state.state_divergence() == 0.5
    state.theta = math.inf
    assert state.assign([0, 1, 0], [value, 2.0, 1.0]) == 3


def test_a_long_run_of_small_steps_does_not_drift() -> None:
    state = Vector(2)
    state.add([0], [1e15])
    steps = np.full(300_000, 0.1)
    state.add(np.ones(len(steps), np.int64), steps)
    assert state.state_divergence() == 1e15 + state.values[1]
    state.add([0], [-1e15])
    assert state.state_divergence() == pytest.approx(state.values[1], rel=1e-12)


def test_a_number_goes_from_value_to_value() -> None:
    state = Number()
    state.theta = 2.0
    assert state.add([1.0, 1.0, -3.0, 2.0, 5.0, 1.0]) == 5 and state.value == 6.0
    assert state.assign([7.0, 6.0, 6.0]) == 1
    state.backup_state()
    assert state.assign([7.0, 9.0, 9.5]) == 3 and state.state_divergence() == 2.5


@pytest.mark.parametrize("indexes", [[0.0, 1.0], [[0], [1]], ["a", "b"], [0, 1, 2], [0]])
def test_indexes_of_the_wrong_kind_are_refused(indexes: object) -> None:
    state = Vector(3)
    with pytest.raises(ValueError):
        state.add(indexes, [1.0, 1.0])
    assert not state.values.any()


def test_shapes_and_divergences_are_checked() -> None:
    with pytest.raises(ValueError, match="shape"):
        Vector(-1)
    with pytest.raises(ValueError, match="shape"):
        Matrix((2, -3))
    with pytest.raises(ValueError, match="must be one of manhattan, euclidean, maximum"):
        Vector(3, "cardinality")
    with pytest.raises(ValueError, match="must be one of difference"):
        Number("maximum")
    empty = Vector(0)
    assert empty.add([], []) == 0 and empty.backup_state().full and empty.state_divergence() == 0.0


def test_a_full_backup_holds_no_more_than_what_is_not_zero() -> None:
    state, other = Vector(1000), Vector(1000)
    other.add(np.arange(1000), np.ones(1000))
    state.add([3, 999], [2.0, -4.5])
    backup = state.backup_all()
    assert backup.full and sum(array.nbytes for array in backup.arrays) == 2 * 16
    other.recover_state(backup)
    assert (other.values == state.values).all() and other.state_divergence() == 0
    state.add(np.arange(0, 1000, 3), np.ones(334))
    assert sum(array.nbytes for array in state.backup_all().arrays) == 8000, "as an array it is smaller"
