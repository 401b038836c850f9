"""The step of a plan after which all workers begin anew."""

from __future__ import annotations

from collections.abc import Collection

from core_driver import SINK, TOPOLOGY, running

from riprap.codec.ids import WorkerId
from riprap.controller.core import Core
from riprap.controller.record import JobRecord
from riprap.controller.reports import EXITED, UP
from riprap.controller.steps import Rollback, Step, restart_lost
from riprap.controller.view import View


def test_a_rollback_is_durable_before_anybody_hears_of_the_next_round() -> None:
    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        return [*restart_lost(view, lost), Rollback()]

    driver = running(plan=plan)
    assert "round" not in driver.sent[-1]["jobs"]["job"]["view"]
    driver.confirm = False
    driver.hear(sink_0={"state": EXITED})
    assert driver.persists[-1].record.round == 1
    assert "round" not in driver.sent[-1]["jobs"]["job"]["view"], "not before it is durable"
    driver.confirm = True
    driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    assert driver.sent[-1]["jobs"]["job"]["view"]["round"] == 1
    driver.hear(sink_0={"incarnation": 2, "state": UP})
    driver.hear(source_0={"state": EXITED})
    assert driver.persists[-1].record.round == 2, "a loss after a rollback is one more"
    assert driver.core.status("job")["round"] == 2
    stored, _ = JobRecord.from_json(driver.persists[-1].record.to_json(1), "/job")
    assert stored.round == 2
    core = Core(2, "next", lambda topology: plan, {"job": (driver.core.jobs["job"].spec, stored)}, {"h1": "i1"}, 9.0)
    assert core.jobs["job"].round == 2, "another leader goes on from there"


BARRIER = {"scheme": "barrier", "interval_ms": 1000, "min_pause_ms": 0, "timeout_ms": 60_000, "tolerated_failures": 3}


def test_who_goes_back_alone_is_unsettled_until_a_checkpoint_is_whole_whoever_leads() -> None:
    seen: list[set[str]] = []

    def plan(view: View, lost: Collection[WorkerId]) -> list[Step]:
        seen.append({str(worker) for worker in view.unsettled})
        return [*restart_lost(view, lost), *([Rollback("for a reason")] if "source.0" in seen[-1] else [])]

    driver = running(plan=plan, topology={**TOPOLOGY, "fault_tolerance": BARRIER})
    driver.hear(sink_0={"state": EXITED})
    stored, _ = JobRecord.from_json(driver.persists[-1].record.to_json(1), "/job")
    assert stored.unsettled == {SINK} and stored.round == 0
    core = Core(2, "next", lambda topology: plan, {"job": (driver.core.jobs["job"].spec, stored)}, {"h1": "i1"}, 9.0)
    assert core.jobs["job"].unsettled == stored.unsettled
    driver.hear(sink_0={"incarnation": 2, "state": UP})
    driver.now += 1.5
    driver.hear()
    driver.hear(source_0={"checkpoint": 1}, sink_0={"incarnation": 2, "checkpoint": 1})
    marks = driver.persists[-1].record.checkpoints
    assert marks is not None and marks.completed == 1
    assert not driver.persists[-1].record.unsettled
    driver.hear(source_0={"state": EXITED})
    driver.hear(source_0={"incarnation": 2, "state": UP})
    driver.hear(sink_0={"incarnation": 2, "state": EXITED})
    assert seen == [set(), set(), {"source.0"}]
    assert driver.persists[-1].record.round == 1 and not driver.persists[-1].record.unsettled
