"""The deadlines of a job: which one ends it, and how its message names the wait."""

from __future__ import annotations

from test_controller_core import TOPOLOGY, running

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
