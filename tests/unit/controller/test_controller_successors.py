"""A job that takes the place of one of the same name, which has only just ended."""

from __future__ import annotations

import pytest
from core_driver import TOPOLOGY, Driver

from riprap.controller.actions import Action, SumUp
from riprap.controller.core import Later
from riprap.controller.jobspec import JobSpec


def ended() -> Driver:
    """Its job is cancelled, which ZooKeeper has not confirmed."""
    driver = Driver()
    driver.confirm = False
    driver.take(driver.core.cancel("c", "job", driver.now))
    assert driver.core.jobs["job"].phase == "CANCELLED"
    return driver


def submit(driver: Driver, submission: str) -> list[Action]:
    return driver.core.submit("next", JobSpec.read("job", TOPOLOGY, "/next", submission), driver.now)


def test_the_next_job_waits_until_the_end_is_durable_and_made_known() -> None:
    driver = ended()
    with pytest.raises(Later):
        submit(driver, "second")
    assert driver.status["run_dir"] == "/run"
    actions = driver.core.persisted("job", driver.persists[-1].record, driver.now)
    assert [action.spec.run_dir for action in actions if isinstance(action, SumUp)] == ["/run"]
    driver.take(actions)
    assert driver.replies[-1].ticket == "c"
    driver.take(submit(driver, "second"))
    assert driver.status["run_dir"] == "/next" and driver.persists[-1].create, "with a spec of its own"


def test_the_same_request_made_again_waits_for_nobody() -> None:
    driver = ended()
    spec = JobSpec.read("job", TOPOLOGY, "/run", "first")
    driver.take(driver.core.submit("once more", spec, driver.now))
    driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    assert driver.replies[-1].ticket == "once more" and driver.status["phase"] == "CANCELLED"
