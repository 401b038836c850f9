"""The end of a job as clients hear of it: never one that a next leader could go on from."""

from __future__ import annotations

import pytest
from core_driver import Driver, running

from riprap.controller.core import Core
from riprap.controller.reports import EXITED
from riprap.controller.steps import restart_lost


def ending(how: str) -> Driver:
    """Its job has ended, as its leader has decided and ZooKeeper has not confirmed."""
    driver = running()
    if how == "FAILED":
        driver.confirm = False
        driver.hear(source_0={"error": "boom"})
    else:
        driver.hear(sink_0={"done": True})
        driver.confirm = False
        driver.hear(source_0={"state": EXITED, "status": 0}, sink_0={"state": EXITED, "status": 0})
    assert driver.persists[-1].record.phase == how
    return driver


@pytest.mark.parametrize(("how", "before"), [("FAILED", "RUNNING"), ("COMPLETED", "FINISHING")])
def test_an_end_is_told_once_it_is_durable(how: str, before: str) -> None:
    driver = ending(how)
    (listed,) = driver.core.list_jobs()
    told = driver.status["phase"], driver.core.phases()["job"], listed["phase"]
    assert told == (before,) * 3 and not driver.status["error"] and not listed["error"]
    driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    (listed,) = driver.core.list_jobs()
    assert (driver.status["phase"], driver.core.phases()["job"], listed["phase"]) == (how,) * 3
    assert bool(driver.status["error"]) == bool(listed["error"]) == (how == "FAILED")


def test_a_job_that_a_next_leader_goes_on_with_was_never_said_to_have_failed() -> None:
    driver = ending("FAILED")
    told = driver.status["phase"]
    spec, record = driver.persists[-1].spec, driver.persists[-2].record
    driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (spec, record)}, {"h1": "i1"}, driver.now)
    driver.confirm = True
    driver.hear(source_0={"error": ""})
    assert (told, driver.status["phase"]) == ("RUNNING", "RUNNING")


def test_an_error_that_a_worker_met_itself_is_not_said_to_be_its_operators() -> None:
    driver = running()
    said = "no backup server has confirmed what source.0 saved for 30 s"
    driver.hear(source_0={"error": said, "remedy": "start them again"})
    assert (driver.status["error"], driver.status["remedy"]) == (f"worker failed: source.0: {said}", "start them again")
