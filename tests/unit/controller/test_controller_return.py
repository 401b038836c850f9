"""An agent that was silent for so long that it was forgotten, and comes back to the leader that it had."""

from __future__ import annotations

from core_driver import Driver, running

from riprap.controller.cluster import SILENT_S_MAX
from riprap.controller.deltas import Writer
from riprap.controller.executor import desired_message
from riprap.controller.reports import AgentReport
from riprap.controller.wish import Wish, Wishes


def take_all(driver: Driver, writer: Writer, wishes: Wishes) -> dict[str, Wish] | None:
    """The agent takes all that was sent; its newest wish, None when it brought nothing new."""
    taken = [wishes.take(desired_message(message, writer)) for message in driver.sent]
    driver.sent.clear()
    return taken[-1]


def test_it_takes_what_the_leader_wants_from_then_on() -> None:
    driver, writer, wishes = running(), Writer(), Wishes()
    jobs = take_all(driver, writer, wishes)
    assert jobs is not None and jobs["job"].workers == {"source.0": 1, "sink.0": 1}
    driver.take(driver.core.members({}, driver.now))  # it was stopped: its workers, too
    while driver.now < 2 * SILENT_S_MAX:
        driver.pass_time(1.0)
    assert driver.status["phase"] == "FAILED"
    driver.sent.clear()
    driver.take(driver.core.members({"h1": "i1"}, driver.now))
    rows = list(driver.rows.values())
    report = AgentReport("h1", "i1", driver.report.number + 1, term=1, sequence=wishes.sequence, rows=rows)
    driver.take(driver.core.report(report, driver.now))
    assert take_all(driver, writer, wishes) == {}, "it is to end them"
