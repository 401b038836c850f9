"""Destinations with replicas: which copy writes the output, and what another leader makes of it."""

from __future__ import annotations

from typing import Any

from core_driver import Driver

from riprap.codec.ids import WorkerId
from riprap.controller.core import Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.record import JobRecord
from riprap.controller.reports import EXITED, STARTING, UP
from riprap.controller.steps import restart_lost

STAGES: dict[str, Any] = {"source": {"parallelism": 1}, "sink": {"parallelism": 2}}
TOPOLOGY: dict[str, Any] = {"stages": STAGES, "copies": ["source.0~1", "sink.0~1"]}


def hear(driver: Driver, *workers: str, **fields: Any) -> None:
    """The wanted incarnations of these report."""
    fields = {"state": UP} | fields
    driver.hear(**{name.replace(".", "_"): fields | {"incarnation": driver.wanted[name]} for name in workers})


def running() -> Driver:
    driver = Driver(topology=TOPOLOGY)
    hear(driver, *driver.wanted)
    assert driver.status["phase"] == "RUNNING"
    return driver


def writers(driver: Driver) -> list[str]:
    """Those who are told that they write."""
    view = driver.sent[-1]["jobs"]["job"]["view"]["workers"]
    return [name for name, entry in view.items() if entry.get("writes")]


def die(driver: Driver, *workers: str) -> None:
    driver.hear(**{name.replace(".", "_"): {"state": EXITED, "status": -9} for name in workers})


def test_the_primary_of_a_destination_with_a_replica_writes_and_nobody_else_is_told() -> None:
    assert writers(running()) == ["sink.0"]


def test_when_it_is_lost_the_other_copy_writes_at_once_and_it_stands_by_when_it_is_back() -> None:
    driver = running()
    driver.confirm = False
    die(driver, "sink.0")
    assert writers(driver) == ["sink.0~1"], "before ZooKeeper has it"
    record = driver.persists[-1].record
    assert {str(copy) for copy in record.writers} == {"sink.0~1"}
    assert record.tasks[WorkerId("sink", 0)].incarnation == 2, "who is lost begins no sooner than that is stored"
    driver.take(driver.core.persisted("job", record, driver.now))
    driver.confirm = True
    hear(driver, "sink.0")
    assert writers(driver) == ["sink.0~1"] and driver.status["phase"] == "RUNNING"
    die(driver, "sink.0~1")
    assert writers(driver) == ["sink.0"]
    assert not driver.core.jobs["job"].record().writers


def test_of_two_that_are_lost_the_first_that_is_back_writes() -> None:
    driver = running()
    die(driver, "sink.0", "sink.0~1")
    hear(driver, "sink.0", state=STARTING)
    assert writers(driver) == ["sink.0"], "nobody can"
    hear(driver, "sink.0~1")
    assert writers(driver) == ["sink.0~1"]
    hear(driver, "sink.0")
    assert writers(driver) == ["sink.0~1"]


def test_one_that_has_not_begun_yet_is_waited_for() -> None:
    driver = Driver(topology=TOPOLOGY)
    hear(driver, "sink.0~1")
    assert writers(driver) == ["sink.0"]


def test_a_lost_replica_changes_nothing() -> None:
    driver = running()
    die(driver, "sink.0~1", "source.0")
    assert writers(driver) == ["sink.0"]


def test_a_new_leader_keeps_who_writes_and_decides_anew_what_was_not_stored() -> None:
    driver = running()
    before = driver.persists[-1].record
    die(driver, "sink.0")
    stored, _ = JobRecord.from_json(driver.persists[-1].record.to_json(1), "/job")
    assert stored.writers == driver.persists[-1].record.writers != frozenset()
    spec = JobSpec.read("job", TOPOLOGY, "/run", "first")
    for record in stored, before:
        driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (spec, record)}, {"h1": "i1"}, driver.now)
        driver.hear()
        assert writers(driver) == ["sink.0~1"], record


def test_the_job_is_done_when_those_are_who_write() -> None:
    driver = running()
    die(driver, "sink.0")
    hear(driver, "sink.0", "sink.1", done=True)
    assert driver.status["phase"] == "RUNNING", "the primary stands by"
    hear(driver, "sink.0~1", done=True)
    assert driver.status["phase"] == "FINISHING"
