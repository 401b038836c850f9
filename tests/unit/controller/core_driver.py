"""Drives the core of a controller by hand: what an agent reports goes in, what comes out is kept for the test."""

from __future__ import annotations

from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller.actions import Action, Persist, Reply, Send
from riprap.controller.core import Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.last_words import ReadLastWords, nothing_said
from riprap.controller.reports import UP, AgentReport, WorkerReport
from riprap.controller.steps import Plan, restart_lost

TOPOLOGY: dict[str, Any] = {"stages": {"source": {"parallelism": 1}, "sink": {"parallelism": 1}}}
SOURCE, SINK = WorkerId("source", 0), WorkerId("sink", 0)


class Driver:
    """A core with one agent whose rows the test sets; writes are confirmed unless it says otherwise."""

    run_dir = "/run"

    def __init__(
        self,
        plan: Plan = restart_lost,
        topology: dict[str, Any] = TOPOLOGY,
        last_words: ReadLastWords = nothing_said,
    ) -> None:
        self.core = Core(1, "me", lambda topology: plan, {}, {"h1": "i1"}, 0.0, last_words)
        self.report = AgentReport("h1", "i1")
        self.rows: dict[str, WorkerReport] = {}
        self.confirm = True
        self.now = 0.0
        self.sent: list[dict[str, Any]] = []
        self.persists: list[Persist] = []
        self.replies: list[Reply] = []
        self.hear()
        self.take(self.core.submit("t", JobSpec.read("job", topology, self.run_dir, "first"), self.now))

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Persist):
                self.persists.append(action)
            elif isinstance(action, Send):
                self.sent.append(action.message)
            elif isinstance(action, Reply):
                self.replies.append(action)
        for action in actions:
            if isinstance(action, Persist) and self.confirm:
                self.take(self.core.persisted("job", action.record, self.now))

    def hear(self, **changes: Any) -> None:
        """The agent reports all rows; `worker=fields` changes one (with _ for .) first."""
        self.now += 0.1
        for name, fields in changes.items():
            worker = name.replace("_", ".")
            row = self.rows.get(worker)
            if row is None or row.incarnation != fields.get("incarnation", row.incarnation):
                row = WorkerReport("job", worker, fields.get("incarnation", 1), pid=4)
            for field, value in fields.items():
                setattr(row, field, value)
            self.rows[worker] = row
        self.report.number += 1
        rows = [WorkerReport.read(row.row()) for row in self.rows.values()]
        self.take(self.core.report(AgentReport("h1", "i1", self.report.number, rows=rows), self.now))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.core.tick(self.now))

    @property
    def status(self) -> dict[str, Any]:
        return self.core.status("job")

    @property
    def wanted(self) -> dict[str, int]:
        """What the agent was last told to run."""
        return dict(self.sent[-1]["jobs"].get("job", {}).get("workers", {}))


def running(**arguments: Any) -> Driver:
    driver = Driver(**arguments)
    driver.hear(source_0={"state": UP, "stats": {"epoch": 0}}, sink_0={"state": UP})
    assert driver.status["phase"] == "RUNNING"
    return driver
