"""The deadlines of a job: which one ends it, and how its message names the wait."""

from __future__ import annotations

from core_driver import TOPOLOGY, Driver, running

from riprap.controller.reports import UP

BARRIER = {"scheme": "barrier", "interval_ms": 1000, "min_pause_ms": 0, "timeout_ms": 5000, "tolerated_failures": 0}


def with_limits(**limits: float) -> dict[str, object]:
    return {**TOPOLOGY, "cluster": {"heartbeat_timeout_s": 1000, **limits}}


def test_of_two_deadlines_that_pass_at_once_one_ends_the_job() -> None:
    driver = running(topology={**with_limits(stall_timeout_s=8), "fault_tolerance": BARRIER})
    driver.pass_time(1.1)
    driver.take(driver.core.savepoint("s", "job", "/save", False, driver.now))
    driver.pass_time(9.0)
    assert driver.status["phase"] == "FAILED"
    assert driver.status["error"].startswith("checkpoints failed: 1 checkpoints in a row were not whole within 5 s")
    checkpoints = driver.core.jobs["job"].checkpoints
    assert checkpoints is not None and not checkpoints.triggered, "and a job that has failed begins none"


def without_a_host(**limits: float) -> Driver:
    """The only host is lost, half a minute after the last commit, and nobody comes."""
    driver = running(topology=with_limits(**limits))
    driver.pass_time(30.0)
    driver.take(driver.core.members({}, driver.now))
    while driver.status["phase"] == "RUNNING":
        driver.pass_time(0.5)
    return driver


def test_a_recovery_that_takes_too_long_is_named_as_that_and_by_no_other_deadline() -> None:
    driver = without_a_host()
    lost_at = driver.now
    while driver.status["phase"] == "RECOVERING":
        driver.pass_time(0.5)
    assert driver.status["error"] == (
        "recovery deadline: source.0 was lost and is not back after 60 s: no agent is there to run it"
    )
    assert 60.0 < driver.now - lost_at < 61.0


def test_the_time_of_a_recovery_is_no_stall_and_what_was_stalled_before_it_is() -> None:
    driver = without_a_host(recovery_timeout_s=300.0)
    driver.pass_time(200.0)
    assert driver.status["phase"] == "RECOVERING"
    driver.take(driver.core.members({"h1": "i1"}, driver.now))
    driver.hear()
    driver.hear(**{name: {"incarnation": 2, "state": UP} for name in ("source_0", "sink_0")})
    assert driver.status["phase"] == "RUNNING"
    driver.pass_time(20.0)
    assert driver.status["phase"] == "RUNNING"
    driver.pass_time(20.0)
    assert "stall deadline: no epoch was committed for 60 s" in driver.status["error"]
