"""What a recovery says of itself: the limits that were in force, by state."""

from __future__ import annotations

import math

from riprap.engine.flow.losses import EVERYTHING, NOTHING, Limits, recovery_of
from riprap.operators.states import HashMap, Vector

BEFORE = Limits(250.0, 25.0, 50.0, 0.5)


def test_the_limits_are_said_with_the_state_that_they_bound() -> None:
    found = recovery_of(Vector(3, "euclidean"), BEFORE, 2, 7)
    assert found == {
        "failure": 2, "window": 7, "state": "Vector, euclidean", "divergence_max": 250.0, "each_max": None,
        "entries_max": None, "items_max": 25.0, "output_max": 50.0,
    }  # fmt: skip


def test_a_promise_of_each_entry_bounds_how_many_may_lack_something() -> None:
    state = HashMap("int64", "maximum", "int64", relative=0.01)
    state.add([1, 2, 3], [5, 5, 5])
    found = recovery_of(state, BEFORE._replace(items=0), 1, 1)
    assert (found["each_max"], found["entries_max"]) == (0.005, 3)
    assert recovery_of(state, BEFORE, 1, 1)["entries_max"] is None, "an item that is lost may be one of its kind"


def test_without_a_state_only_items_may_be_lost() -> None:
    found = recovery_of(None, BEFORE, 1, 1)
    assert (found["state"], found["divergence_max"], found["entries_max"], found["items_max"]) == ("", 0.0, 0, 25.0)


def test_what_has_no_bound_is_no_number_and_what_is_exact_is_0() -> None:
    state = HashMap("int64", "maximum", "int64", relative=0.01)
    everything = recovery_of(state, EVERYTHING, 0, 1)
    assert [everything[name] for name in ("divergence_max", "each_max", "items_max", "output_max")] == [None] * 4
    nothing = recovery_of(state, NOTHING, 1, 1)
    assert [nothing[name] for name in ("divergence_max", "each_max", "entries_max", "items_max")] == [0, 0, 0, 0]
    assert all(value is None or math.isfinite(value) for value in everything.values() if not isinstance(value, str))
