"""Checkpoints and savepoints of a job that ends meanwhile, and those that it ends with, whoever leads then."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import TOPOLOGY, Driver

from riprap.codec.errors import ConfigError
from riprap.controller.actions import Action, Log
from riprap.controller.checkpoints import STOP_LEASE_S
from riprap.controller.core import Core
from riprap.controller.record import JobRecord
from riprap.controller.reports import EXITED, UP
from riprap.controller.steps import restart_lost

LONG = {"heartbeat_timeout_s": 1000}
BARRIER = {"scheme": "barrier", "interval_ms": 1000, "min_pause_ms": 0, "timeout_ms": 60_000, "tolerated_failures": 3}


class LoggingDriver(Driver):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        super().__init__(topology={**TOPOLOGY, "fault_tolerance": BARRIER, "cluster": LONG})
        self.hear(source_0={"state": UP}, sink_0={"state": UP})

    def take(self, actions: list[Action]) -> None:
        self.logs += [action for action in actions if isinstance(action, Log)]
        super().take(actions)

    def logged(self, event: str) -> list[tuple[str, int]]:
        """The folder and the checkpoint of each such event."""
        return [(log.run_dir, log.fields["checkpoint"]) for log in self.logs if log.event == event]

    def decide(self) -> JobRecord:
        """Have all parts of checkpoint 1 saved; the record that says so, which is not confirmed."""
        self.now += 1.0
        self.hear()
        self.confirm = False
        self.save(1)
        record = self.persists[-1].record
        assert record.checkpoints is not None and record.checkpoints.completed == 1
        return record

    def save(self, number: int) -> None:
        """Have all parts saved, and written to where the view says."""
        view = self.sent[-1]["jobs"]["job"]["view"]
        part = {"checkpoint": number, "stats": {"checkpoint": {"savepoint": view.get("savepoint", "")}}}
        self.hear(source_0=part, sink_0=part)

    def confirm_write(self, record: JobRecord) -> None:
        """It is written, and so is its log, as far as that was asked for."""
        self.logs += [persist.log for persist in self.persists if persist.record is record and persist.log]
        self.take(self.core.persisted("job", record, self.now))

    @property
    def told(self) -> Any:
        """The checkpoint in the last view."""
        return self.sent[-1]["jobs"]["job"]["view"]["checkpoint"]


@pytest.mark.parametrize("phase", ["CANCELLING", "FAILED"])
def test_a_checkpoint_that_workers_are_told_of_is_logged_though_the_job_ends(phase: str) -> None:
    """They commit with it and drop the one before, so an attempt that went back to that one would repeat or fail."""
    driver = LoggingDriver()
    record = driver.decide()
    if phase == "FAILED":
        driver.hear(source_0={"error": "boom"})
    else:
        driver.take(driver.core.cancel("c", "job", driver.now))
    assert driver.core.jobs["job"].phase == phase and driver.told == [1, 0]
    driver.confirm_write(record)
    assert driver.told == [0, 1]
    assert driver.logged("completed") == [("/run", 1)]


def test_a_job_that_failed_durably_with_a_checkpoint_tells_nobody_of_it() -> None:
    driver = LoggingDriver()
    record = driver.decide()
    driver.take(driver.core.persist_failed("job", driver.now))
    driver.hear(source_0={"error": "boom"})
    failed = driver.persists[-1].record
    assert (failed.phase, failed.checkpoints) == ("FAILED", record.checkpoints)
    driver.confirm_write(failed)
    assert not driver.logged("completed") and "job" not in driver.sent[-1]["jobs"]


def test_a_job_that_ends_with_a_savepoint_does_so_under_whoever_leads_when_it_is_whole() -> None:
    """Whoever sees savepoint.json counts on it, so a next leader may not let the job go on."""
    driver = LoggingDriver()
    driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))
    record = driver.decide()
    assert not driver.logged("savepoint")
    driver.confirm_write(record)
    assert driver.logged("savepoint") == [("/save", 1)] and driver.status["phase"] == "CANCELLING"
    driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))  # by a client that does not see it yet
    with pytest.raises(ConfigError, match="is CANCELLING"):
        driver.core.savepoint("t", "job", "/other", True, driver.now)
    stored, _ = JobRecord.from_json(record.to_json(1), "/job")
    assert stored.phase == "RUNNING", "it has decided to cancel, and dies before that is durable"
    driver.confirm, spec = True, driver.persists[-1].spec
    driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (spec, stored)}, {"h1": "i1"}, driver.now)
    driver.hear()
    assert driver.status["phase"] == "CANCELLING"
    driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))
    assert driver.logged("savepoint") == [("/save", 1)] * 2


def test_a_job_goes_on_after_any_other_savepoint() -> None:
    driver = LoggingDriver()
    driver.take(driver.core.savepoint("s", "job", "/save", False, driver.now))
    driver.confirm_write(driver.decide())
    assert driver.logged("savepoint") == [("/save", 1)] and driver.status["phase"] == "RUNNING"


def test_a_savepoint_that_is_made_is_not_made_over_while_its_client_cannot_see_it_yet() -> None:
    """The parts of a later checkpoint would lie beside a savepoint.json of this one."""
    driver = LoggingDriver()
    driver.take(driver.core.savepoint("s", "job", "/save", False, driver.now))
    record = driver.decide()
    driver.take(driver.core.savepoint("s", "job", "/save", False, driver.now))
    driver.confirm_write(record)
    driver.confirm = True
    assert driver.logged("savepoint") == [("/save", 1)]
    driver.pass_time(1.0)
    assert driver.told[0] == 2 and "savepoint" not in driver.sent[-1]["jobs"]["job"]["view"]
    driver.hear(source_0={"checkpoint": 2}, sink_0={"checkpoint": 2})
    assert driver.logged("savepoint") == [("/save", 1)]


@pytest.mark.parametrize("under_way", [False, True])
def test_a_job_does_not_end_with_a_savepoint_that_nobody_awaits_any_more(under_way: bool) -> None:
    """Its client was interrupted, or has told its user that it gave up."""
    driver = LoggingDriver()
    if not under_way:
        driver.hear(sink_0={"state": EXITED, "status": -9})
    for _ in range(3):
        driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))
        driver.pass_time(2.0)
    driver.pass_time(STOP_LEASE_S)
    driver.hear(sink_0={"incarnation": 1 if under_way else 2, "state": UP})
    driver.save(driver.told[0])
    driver.pass_time(1.0)
    assert driver.status["phase"] == "RUNNING" and not driver.logged("savepoint")


def test_a_job_ends_with_a_savepoint_that_its_client_awaits_however_long() -> None:
    driver = LoggingDriver()
    for _ in range(20):
        driver.take(driver.core.savepoint("s", "job", "/save", True, driver.now))
        driver.pass_time(2.0)
    driver.save(driver.told[0])
    assert driver.logged("savepoint") == [("/save", 1)] and driver.status["phase"] == "CANCELLING"


@pytest.mark.parametrize("stop", [False, True])
def test_a_checkpoint_with_parts_that_could_not_be_written_is_no_savepoint(stop: bool) -> None:
    """Of a directory without room, or where a host may not write: the job goes on, and who asks again hears of it."""
    driver = LoggingDriver()
    driver.take(driver.core.savepoint("s", "job", "/save", stop, driver.now))
    written = {"checkpoint": 1, "stats": {"checkpoint": {"savepoint": "/save"}}}
    driver.hear(source_0=written, sink_0={"checkpoint": 1, "stats": {"checkpoint": {}}})
    assert driver.told == [0, 1] and not driver.logged("savepoint")
    with pytest.raises(ConfigError, match=r"sink\.0 could not write to /save"):
        driver.core.savepoint("s", "job", "/save", stop, driver.now)
    assert driver.status["phase"] == "RUNNING"
    driver.take(driver.core.savepoint("t", "job", "/save", stop, driver.now))
    driver.save(2)
    assert driver.logged("savepoint") == [("/save", 2)], "once there is room"
