"""Other replicas for a job that runs: which begin and end when, and what a new leader makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import Driver

from riprap.codec.errors import ConfigError
from riprap.controller.core import Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.record import JobRecord
from riprap.controller.reports import EXITED, STARTING, UP
from riprap.controller.steps import restart_lost

STAGES: dict[str, Any] = {"source": {"parallelism": 4}, "sink": {"parallelism": 1}}
COPIES = [f"source.{index}~1" for index in range(4)]
SHORT, LONG = (
    ("startup_timeout_s", "recovery_timeout_s", "deployment_timeout_s"),
    ("heartbeat_timeout_s", "stall_timeout_s"),
)
LIMITS = dict.fromkeys(SHORT, 5.0) | dict.fromkeys(LONG, 1e6)
TOPOLOGY = {"stages": STAGES, "copies": COPIES, "wanted": COPIES[:1], "cluster": LIMITS}


def up(driver: Driver, *workers: str, caught_up: bool = True) -> None:
    stats = {"caught_up_at": 1.0} if caught_up else {}
    rows = {one.replace(".", "_"): {"state": UP, "stats": stats, "incarnation": driver.wanted[one]} for one in workers}
    driver.hear(**rows)


def running() -> Driver:
    driver = Driver(topology=TOPOLOGY)
    up(driver, *driver.wanted)
    assert driver.status["phase"] == "RUNNING"
    return driver


def adapt(driver: Driver, *tasks: str) -> None:
    driver.take(driver.core.adapt("asked", "job", list(tasks), driver.now))


def copies(driver: Driver) -> set[str]:
    """The replicas that the agent is to run."""
    return {worker for worker in driver.wanted if "~" in worker}


def states(driver: Driver) -> dict[str, str]:
    return {name: one["state"] for name, one in driver.status["workers"].items() if "~" in name}


def test_only_those_that_are_to_run_do_and_nobody_waits_for_the_others() -> None:
    driver = running()
    assert copies(driver) == {COPIES[0]}
    assert states(driver) == {COPIES[0]: "up"} | dict.fromkeys(COPIES[1:], "off")
    for _ in range(100):
        driver.now += 1.0
        driver.hear()
    assert driver.status["phase"] == "RUNNING"


def test_two_begin_at_a_time_and_the_old_one_ends_when_they_have_caught_up() -> None:
    driver = running()
    adapt(driver, "source.1", "source.2", "source.3")
    assert driver.replies[-1].ticket == "asked"
    assert copies(driver) == {*COPIES[:3]}
    assert driver.status["phase"] == "RUNNING", "nobody waits for them"
    up(driver, COPIES[1], COPIES[2], caught_up=False)
    assert copies(driver) == {*COPIES[:3]}
    up(driver, COPIES[1], COPIES[2])
    assert copies(driver) == {*COPIES}
    up(driver, COPIES[3])
    assert copies(driver) == {*COPIES[1:]}
    assert states(driver)[COPIES[0]] == "off"


def test_the_first_incarnation_of_one_that_begins_late_is_not_the_jobs_first() -> None:
    """Only that one begins from nothing."""
    driver = running()
    adapt(driver, "source.0", "source.2")
    assert (driver.wanted[COPIES[0]], driver.wanted[COPIES[2]]) == (1, 2)


def test_fewer_replicas_end_at_once() -> None:
    driver = running()
    adapt(driver)
    assert not copies(driver)
    driver.hear(**{COPIES[0].replace(".", "_"): {"state": EXITED, "status": -9}})
    assert not driver.status["failures"], "it was ended"


def test_one_that_is_to_end_and_dies_is_not_replaced() -> None:
    driver = running()
    adapt(driver, "source.1")
    driver.hear(**{COPIES[0].replace(".", "_"): {"state": EXITED, "status": -9}})
    assert copies(driver) == {COPIES[1]}
    assert not driver.status["failures"], "it is not missed"


def test_one_that_is_to_end_and_goes_with_its_host_is_up_for_nobody() -> None:
    driver = running()
    adapt(driver, "source.1")
    assert states(driver)[COPIES[0]] == "up"
    driver.take(driver.core.members({"h1": "another"}, driver.now))
    assert states(driver)[COPIES[0]] == "off"
    assert COPIES[0] not in {failure["worker"] for failure in driver.status["failures"]}, "it is not missed"


def test_a_new_leader_takes_one_that_was_ended_for_no_loss() -> None:
    driver = running()
    adapt(driver)
    record = driver.persists[-1].record
    spec = JobSpec.read("job", TOPOLOGY, "/run", "first")
    driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (spec, record)}, {"h1": "i1"}, driver.now)
    driver.hear(**{COPIES[0].replace(".", "_"): {"state": EXITED, "status": -9}})
    assert states(driver)[COPIES[0]] == "off"
    assert not driver.status["failures"] and not copies(driver)


def test_one_that_ended_begins_again_under_the_next_incarnation() -> None:
    driver = running()
    adapt(driver)
    adapt(driver, "source.0")
    assert driver.wanted[COPIES[0]] == 2


def test_a_new_leader_goes_on_with_what_was_decided() -> None:
    driver = running()
    adapt(driver, "source.1")
    record = driver.persists[-1].record
    again, term = JobRecord.from_json(record.to_json(1), "/job")
    assert (again.replicas, term) == (record.replicas, 1)
    spec = JobSpec.read("job", TOPOLOGY, "/run", "first")
    later = Core(2, "next", lambda topology: restart_lost, {"job": (spec, again)}, {"h1": "i1"}, 0.0)
    assert {str(worker) for worker in later.jobs["job"].replicas} == {COPIES[1]}
    assert {str(worker) for worker in later.jobs["job"].running if worker.copy} == {COPIES[0], COPIES[1]}


def test_what_cannot_be_is_refused() -> None:
    driver = running()
    with pytest.raises(ConfigError, match=r"sink\.0 of job job can have no replica"):
        adapt(driver, "sink.0")
    fixed = Driver(topology={"stages": STAGES, "copies": COPIES})
    with pytest.raises(ConfigError, match="are those that it began with"):
        adapt(fixed, "source.1")
    driver.take(driver.core.cancel("t", "job", driver.now))
    with pytest.raises(ConfigError, match="job job is CANCEL"):
        adapt(driver, "source.1")
    with pytest.raises(ConfigError, match=r"`wanted` names other\.0~1, which is no replica of a task"):
        JobSpec.read("job", TOPOLOGY | {"wanted": ["other.0~1"]}, "/run")


def late(driver: Driver) -> dict[str, str]:
    """The states of the replicas once all deadlines of those that begin have passed, one after another."""
    for _ in range(20):
        driver.pass_time(1.0)
        driver.hear()
    assert driver.status["phase"] == "RUNNING", driver.status["error"]
    return states(driver)


def test_a_job_does_without_a_replica_that_begins_while_it_runs_and_is_not_ready_in_time() -> None:
    driver = running()
    adapt(driver, "source.1", "source.2")
    up(driver, COPIES[1])
    driver.hear(**{COPIES[2].replace(".", "_"): {"state": STARTING, "incarnation": 2}})
    assert late(driver) == {COPIES[0]: "off", COPIES[1]: "up", COPIES[2]: "off", COPIES[3]: "off"}
    adapt(driver, "source.1", "source.2")
    assert copies(driver) == set(COPIES[1:3]), "it may be asked for again"


def test_a_job_does_without_one_that_dies_again_and_again_or_is_not_back_in_time() -> None:
    driver = running()
    adapt(driver, "source.0", "source.1", "source.2")
    for incarnation in (2, 3, 4):
        driver.hear(**{COPIES[1].replace(".", "_"): {"state": EXITED, "status": 1, "incarnation": incarnation}})
    driver.hear(**{COPIES[2].replace(".", "_"): {"state": EXITED, "status": -9, "incarnation": 2}})
    assert copies(driver) == {COPIES[0], COPIES[2]}
    assert late(driver) == {COPIES[0]: "up"} | dict.fromkeys(COPIES[1:], "off")


def test_a_next_leader_does_without_it_too() -> None:
    driver = running()
    adapt(driver, "source.0", "source.1")
    spec = JobSpec.read("job", TOPOLOGY, "/run", "first")
    stored = {"job": (spec, driver.persists[-1].record)}
    driver.core = Core(2, "next", lambda topology: restart_lost, stored, {"h1": "i1"}, driver.now)
    driver.hear()
    assert late(driver) == {COPIES[0]: "up"} | dict.fromkeys(COPIES[1:], "off")
