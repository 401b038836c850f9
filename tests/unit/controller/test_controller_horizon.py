"""How far sources of a stream without end may go: grants never shrink, and a drain ends them all with one window."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import TOPOLOGY, Driver, running
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.core import Core
from riprap.controller.horizon import AHEAD_MIN, FIRST, Granting, Horizon
from riprap.controller.record import Assignment, JobRecord
from riprap.controller.reports import EXITED, UP
from riprap.controller.steps import restart_lost


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


ENDLESS = TOPOLOGY | {"edges": [{"from": "source", "to": "sink"}], "schema": {"items": None, "windows": None}}


def horizon_told(driver: Driver) -> list[Any]:
    return list(driver.sent[-1]["jobs"]["job"]["view"]["horizon"])


def test_nobody_hears_of_a_grant_or_a_drain_before_it_is_durable() -> None:
    driver = running(topology=ENDLESS)
    assert horizon_told(driver) == [4, False]
    driver.confirm = False
    driver.hear(source_0={"epoch": 3})
    granted = driver.persists[-1].record
    assert granted.horizon is not None and granted.horizon.windows > 4
    assert horizon_told(driver) == [4, False]
    driver.take(driver.core.drain("d", "job", driver.now))
    driver.take(driver.core.persisted("job", granted, driver.now))
    assert horizon_told(driver) == [granted.horizon.windows, False]
    assert "d" not in [reply.ticket for reply in driver.replies]
    final = driver.persists[-1].record
    assert final.horizon == (granted.horizon.windows, True, True)
    driver.take(driver.core.persisted("job", final, driver.now))
    assert horizon_told(driver) == [granted.horizon.windows, True]
    assert "d" in [reply.ticket for reply in driver.replies]


def test_the_next_leader_keeps_the_end_of_a_drained_stream() -> None:
    driver = running(topology=ENDLESS)
    driver.take(driver.core.drain("d", "job", driver.now))
    last = driver.persists[-1]
    driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (last.spec, last.record)}, {"h1": "i1"}, 9.0)
    driver.now = 9.0
    driver.hear(source_0={"epoch": 4})
    assert driver.core.jobs["job"].horizon == (4, True, True)
    driver.hear(sink_0={"epoch": 3, "done": True})
    assert driver.status["phase"] == "FAILED", "it has not closed all windows"


def test_a_drained_job_completes_when_its_sinks_have_closed_the_last_window() -> None:
    driver = running(topology=ENDLESS)
    driver.take(driver.core.drain("d", "job", driver.now))
    driver.hear(sink_0={"epoch": 4, "done": True})
    assert driver.status["phase"] == "FINISHING"


def test_a_resumed_stream_that_is_drained_at_once_ends_behind_its_sources() -> None:
    """They begin where the job stood; a limit before that would be an end that none of them ever comes to."""
    driver = Driver(topology=ENDLESS)
    driver.take(driver.core.drain("d", "job", driver.now))
    assert "d" in [reply.ticket for reply in driver.replies], "a leader that follows knows of it"
    driver.hear(source_0={"state": UP}, sink_0={"state": UP})
    assert driver.core.jobs["job"].horizon == (4, False, True)
    driver.hear(source_0={"epoch": 51, "stats": {"epoch": 51}})
    windows, final, _ = driver.core.jobs["job"].horizon
    assert windows > 51 and final
    driver.hear(sink_0={"epoch": windows, "done": True})
    assert driver.status["phase"] == "FINISHING"


AGAIN = ENDLESS | {"attempt": 2}


@pytest.mark.parametrize("knows", ["source_0", "sink_0"])
@pytest.mark.parametrize("drained", [False, True], ids=["as it stands", "drained again"])
def test_a_stream_whose_end_was_saved_ends_there_again(knows: str, drained: bool) -> None:
    """Its first attempt was drained, and died when it had saved that: nobody is to read on behind the last window."""
    driver = Driver(topology=AGAIN)
    if drained:
        driver.take(driver.core.drain("d", "job", driver.now))
    for name in ("source_0", "sink_0"):
        stats = {"epoch": 10, "last_window": 10 * (name == knows)}
        driver.hear(**{name: {"state": UP, "epoch": 10, "stats": stats}})
    assert driver.core.jobs["job"].horizon == (10, True, True)
    driver.hear(sink_0={"done": True})
    assert driver.status["phase"] == "FINISHING"


def test_a_sink_that_is_done_as_soon_as_it_is_restored_completes_the_job() -> None:
    """It may be heard before anybody else is."""
    driver = Driver(topology=AGAIN)
    sink = {"state": UP, "epoch": 10, "done": True, "stats": {"epoch": 10, "last_window": 10}}
    driver.hear(source_0={"state": UP}, sink_0=sink)
    driver.pass_time(0.1)
    assert driver.status["phase"] == "FINISHING"


@pytest.mark.parametrize("drained", [False, True], ids=["as it stands", "drained"])
def test_a_further_attempt_goes_no_further_before_all_have_said_whether_they_know_an_end(drained: bool) -> None:
    driver = Driver(topology=AGAIN)
    if drained:
        driver.take(driver.core.drain("d", "job", driver.now))
    driver.hear(source_0={"state": UP, "epoch": 9, "stats": {"epoch": 9}}, sink_0={"state": UP})
    assert driver.core.jobs["job"].horizon == (4, False, drained)
    driver.hear(sink_0={"stats": {"epoch": 9, "last_window": 0}})
    windows, final, _ = driver.core.jobs["job"].horizon
    assert windows > 9 and final is drained
    driver.hear(sink_0={"state": EXITED, "status": -9})
    driver.hear(source_0={"epoch": windows})
    later, _, _ = driver.core.jobs["job"].horizon
    assert final or later > windows, "a worker that is replaced meanwhile holds nobody up"


@pytest.mark.parametrize("said", [3, "10", True, None, 30])
def test_only_an_end_that_can_have_been_decided_before_is_believed(said: Any) -> None:
    """30: by a worker of an attempt that has granted windows already."""
    driver = running(topology=ENDLESS)
    if said == 30:
        driver.hear(source_0={"epoch": 4})
    driver.hear(sink_0={"stats": {"epoch": 0, "last_window": said}})
    assert not driver.core.jobs["job"].horizon.final


def test_only_a_stream_without_end_is_drained() -> None:
    driver = running()
    with pytest.raises(ConfigError, match="end of its own"):
        driver.core.drain("d", "job", driver.now)


BARRIER = {"scheme": "barrier", "interval_ms": 1000, "min_pause_ms": 0, "timeout_ms": 60_000, "tolerated_failures": 3}


def test_a_stream_that_is_drained_does_not_end_with_a_savepoint() -> None:
    """Who begins from it, the job that `riprap rescale` makes say, would read on for ever: nobody drains that."""
    driver = running(topology=ENDLESS | {"fault_tolerance": BARRIER})
    driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))
    driver.take(driver.core.drain("d", "job", driver.now))
    with pytest.raises(ConfigError, match="is drained"):
        driver.core.savepoint("s", "job", "/save", True, driver.now)
    part = {"checkpoint": 1, "stats": {"checkpoint": {"savepoint": "/save"}}}
    driver.hear(source_0=part, sink_0=part)
    assert driver.status["phase"] == "RUNNING", "what was asked for before is forgotten"
    driver.take(driver.core.savepoint("s", "job", "/copy", False, driver.now))
    assert driver.core.jobs["job"].checkpoints.wanted.keys() == {"/copy"}
