"""How far sources of a stream without end may go: grants never shrink, and a drain ends them all with one window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.horizon import AHEAD_MIN, FIRST, Granting, Horizon
from riprap.controller.record import Assignment, JobRecord


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 10)), max_size=60))
def test_grants_never_shrink_and_always_leave_a_window_to_read(steps: list[tuple[int, float]]) -> None:
    granting, horizon, reached, now = Granting(0.0), FIRST, 0, 0.0
    for windows, seconds in steps:
        reached, now = min(reached + windows, horizon.windows), now + seconds
        later = granting.after(horizon, reached, now)
        assert later.windows >= horizon.windows and later.windows > reached
        horizon = later


def test_stretches_follow_the_pace() -> None:
    granting, horizon = Granting(0.0), FIRST
    for tick in range(8):
        horizon = granting.after(horizon, horizon.windows, 0.1 * tick)
    assert granting.ahead == AHEAD_MIN << 8
    for tick in range(10):
        horizon = granting.after(horizon, horizon.windows, 100.0 * (tick + 1))
    assert granting.ahead == AHEAD_MIN


def test_a_final_horizon_stays() -> None:
    assert Granting(0.0).after(Horizon(4, True), 4, 1.0) == Horizon(4, True)


def test_the_horizon_is_a_decision_and_survives_a_change_of_leader() -> None:
    tasks = {WorkerId("source", 0): Assignment(Incarnation(1), "h", "i")}
    record = JobRecord(tasks=tasks, horizon=Horizon(7, True, True))
    assert JobRecord.from_json(record.to_json(3), "/x") == (record, 3)
    assert record.decides() != JobRecord(tasks=tasks, horizon=Horizon(7)).decides()
