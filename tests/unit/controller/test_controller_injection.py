"""Faults of a job: ordered when their moment has come, durably before an agent hears of them, and once."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import TOPOLOGY, Driver, running

from riprap.codec.errors import ConfigError
from riprap.controller.actions import Action, Log
from riprap.controller.cluster import Cluster
from riprap.controller.core import Core
from riprap.controller.faults import Fault, When
from riprap.controller.jobspec import JobSpec
from riprap.controller.reports import EXITED, UP, AgentReport, WorkerReport
from riprap.controller.steps import restart_lost


def suffering(*faults: Fault) -> dict[str, Any]:
    return {**TOPOLOGY, "faults": [fault.fields() for fault in faults]}


def orders(driver: Driver) -> list[tuple[int, int]]:
    """The number and incarnation of the faults that the agent was last told of."""
    return [(one["number"], one["incarnation"]) for one in driver.sent[-1]["jobs"]["job"]["faults"]]


class SufferingDriver(Driver):
    """Its job runs, and is to suffer one fault; keeps the faults that are logged, by worker and incarnation."""

    def __init__(self) -> None:
        self.injected: list[tuple[str, int]] = []
        super().__init__(topology=suffering(KILL))
        self.hear(source_0={"state": UP}, sink_0={"state": UP})

    def take(self, actions: list[Action]) -> None:
        logs = [action for action in actions if isinstance(action, Log) and action.event == "fault_injected"]
        self.injected += [(log.fields["target"], log.fields["incarnation"]) for log in logs]
        super().take(actions)


KILL = Fault("kill", "source.0", When("epoch", 3))
STOP = Fault("stop", "source.0", When("epoch", 3), for_s=1.0)


@pytest.mark.parametrize(
    ("when", "before", "at"),
    [
        (When("epoch", 3), {"epoch": 2}, {"epoch": 3}),
        (When("items", 500), {"accounted": 499}, {"accounted": 500}),
        (When("seconds", 5), {"stats": {"first_emit_at": 0.0}}, {"stats": {"first_emit_at": -5.0}}),
    ],
)
def test_a_fault_is_ordered_when_its_moment_has_come(when: When, before: dict[str, Any], at: dict[str, Any]) -> None:
    driver = running(topology=suffering(Fault("kill", "source.0", when)))
    driver.hear(sink_0=before)
    assert orders(driver) == []
    driver.hear(sink_0=at)
    assert orders(driver) == [(0, 1)]
    assert [(one["worker"], one["action"]) for one in driver.status["injected"]] == [("source.0", "kill")]


def test_seconds_count_from_the_first_item_of_all_incarnations() -> None:
    """A destination that keeps nothing knows of its own items alone."""
    driver = running(topology=suffering(Fault("kill", "source.0", When("seconds", 5))))
    driver.hear(sink_0={"stats": {"first_emit_at": driver.now - 4.5}})
    driver.hear(sink_0={"state": EXITED, "status": -9})
    driver.hear(sink_0={"incarnation": 2, "state": UP, "stats": {"first_emit_at": driver.now}})
    assert orders(driver) == []
    driver.pass_time(0.5)
    assert orders(driver) == [(0, 1)]


def test_an_order_is_durable_before_it_is_given() -> None:
    driver = running(topology=suffering(KILL))
    driver.confirm = False
    driver.hear(sink_0={"epoch": 3})
    assert orders(driver) == [] and driver.persists[-1].record.injected[0]["hits"] == {"i1": {"source.0": 1}}
    driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    assert orders(driver) == [(0, 1)]


def test_a_fault_is_logged_once_and_not_before_it_is_durable() -> None:
    """Whoever reads the log counts on it: until then another leader may order the fault of another incarnation."""
    driver = SufferingDriver()
    driver.confirm = False
    driver.hear(sink_0={"epoch": 3})
    assert driver.injected == [] and orders(driver) == []
    order = driver.persists[-1].record
    driver.take(driver.core.persisted("job", order, driver.now))
    assert driver.injected == [("source.0", 1)] and orders(driver) == [(0, 1)]
    driver.pass_time(1.0)
    assert driver.injected == [("source.0", 1)]


def test_a_fault_that_a_lost_leader_had_not_made_durable_is_logged_as_it_is_given() -> None:
    driver = SufferingDriver()
    before = driver.persists[-1]
    driver.confirm = False
    driver.hear(sink_0={"epoch": 3})
    stored = {"job": (before.spec, before.record)}
    driver.core = Core(2, "new", lambda topology: restart_lost, stored, {"h1": "i1"}, driver.now)
    driver.confirm = True
    driver.hear(source_0={"state": EXITED, "status": -9})
    driver.hear(source_0={"incarnation": 2, "state": UP})
    assert driver.injected == [("source.0", 2)] and orders(driver) == [(0, 2)]


@pytest.mark.parametrize("ends", [False, True])
def test_a_fault_whose_target_is_gone_before_it_is_durable_is_not_said_to_be_injected(ends: bool) -> None:
    driver = SufferingDriver()
    driver.confirm = False
    driver.hear(sink_0={"epoch": 3})
    order = driver.persists[-1].record
    driver.hear(source_0={"error": "boom"} if ends else {"state": EXITED, "status": -9})
    driver.take(driver.core.persist_failed("job", driver.now) if ends else [])
    driver.pass_time(1.0)
    driver.take(driver.core.persisted("job", driver.persists[-1].record if ends else order, driver.now))
    assert driver.injected == []
    assert ends or driver.status["injected"] == [], "nor is it in the summary"


def test_a_fault_is_for_one_incarnation_and_a_new_leader_does_not_order_it_again() -> None:
    driver = running(topology=suffering(KILL))
    driver.hear(sink_0={"epoch": 3})
    driver.hear(source_0={"state": EXITED, "status": -9})
    driver.hear(source_0={"incarnation": 2, "state": UP})
    assert orders(driver) == [] and driver.wanted == {"source.0": 2, "sink.0": 1}
    stored = {"job": (driver.persists[-1].spec, driver.core.jobs["job"].record())}
    core = Core(2, "new", lambda topology: restart_lost, stored, {"h1": "i1"}, now=100.0)
    rows = [WorkerReport("job", "source.0", 2, UP, 4), WorkerReport("job", "sink.0", 1, UP, 4, epoch=9)]
    core.report(AgentReport("h1", "i1", 1, rows=rows), 100.1)
    assert len(core.status("job")["injected"]) == 1


def test_a_fault_waits_until_its_target_runs() -> None:
    driver = running(topology=suffering(KILL))
    driver.hear(source_0={"state": EXITED, "status": 1})
    driver.hear(sink_0={"epoch": 5})
    assert driver.status["injected"] == []
    driver.hear(source_0={"incarnation": 2, "state": UP})
    assert orders(driver) == [(0, 2)]


@pytest.mark.parametrize("second", [KILL, Fault("kill", "stage:source", When("epoch", 2)), STOP])
def test_a_fault_of_a_target_that_is_being_killed_is_for_the_next_incarnation(second: Fault) -> None:
    """The sinks may report at once that the moments of both have come."""
    driver = running(topology=suffering(KILL, second))
    driver.hear(sink_0={"epoch": 9})
    assert orders(driver) == [(0, 1)], "one kill is enough for an incarnation"
    driver.hear(source_0={"state": EXITED, "status": -9})
    assert len(driver.status["injected"]) == 1
    driver.hear(source_0={"incarnation": 2, "state": UP})
    assert orders(driver) == [(1, 2)]


def test_an_incarnation_can_be_killed_while_it_stands_still() -> None:
    driver = running(topology=suffering(STOP, KILL))
    driver.hear(sink_0={"epoch": 9})
    assert orders(driver) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"action": "kill"},
        Fault("cut", "source.0", When("epoch", 1)).fields(),
        Fault("kill", "agent", When("epoch", 1)).fields(),
    ],
)
def test_what_no_agent_can_inject_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="fault"):
        JobSpec.read("job", {**TOPOLOGY, "faults": [fault]}, "/run")


def test_moments_of_another_clock_are_told_on_the_controllers() -> None:
    cluster = Cluster({"h1": "i1"}, clock="mine")
    stats = {"first_emit_at": 9001.0, "caught_up_at": 0}
    row = WorkerReport("job", "sink.0", 1, UP, 4, ready_at=9000.5, stats=stats)
    cluster.hear(AgentReport("h1", "i1", 1, clock="other", sent_at=9000.0), 100.25)
    cluster.hear(AgentReport("h1", "i1", 2, rows=[row], clock="other", sent_at=9002.0), 102.5)
    assert row.ready_at == 100.75, "by the quickest report"
    assert row.stats == {"first_emit_at": 101.25, "caught_up_at": 0}


def test_moments_of_the_same_clock_stay_as_they_are() -> None:
    row = WorkerReport("job", "sink.0", 1, UP, 4, ready_at=100.5)
    Cluster({"h1": "i1"}, clock="mine").hear(AgentReport("h1", "i1", 1, rows=[row], clock="mine", sent_at=101.0), 102.5)
    assert row.ready_at == 100.5
