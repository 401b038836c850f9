"""The step of a plan after which all workers begin anew."""

from __future__ import annotations

from collections.abc import Collection

from test_controller_core import running

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
    stored, _ = JobRecord.from_json(driver.persists[-1].record.to_json(1), "/job")
    assert stored.round == 2
    core = Core(2, "next", lambda topology: plan, {"job": (driver.core.jobs["job"].spec, stored)}, {"h1": "i1"}, 9.0)
    assert core.jobs["job"].round == 2, "another leader goes on from there"
