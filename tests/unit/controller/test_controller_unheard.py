"""A new leader and an agent that does not report to it in time, though it and its workers live."""

from __future__ import annotations

from typing import Any

from core_driver import TOPOLOGY

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.actions import Action, Send
from riprap.controller.core import TAKEOVER_S, Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.phases import Phase
from riprap.controller.record import Assignment, JobRecord
from riprap.controller.reports import UP, AgentReport, WorkerReport
from riprap.controller.steps import restart_lost

HOSTS = {"source.0": "h1", "sink.0": "h2"}
MEMBERS = {"h1": "i1", "h2": "i2"}


class Successor:
    """Leads a job that ran, with a worker on each of two hosts; both are members."""

    def __init__(self) -> None:
        tasks = {WorkerId.parse(name): Assignment(Incarnation(1), host, MEMBERS[host]) for name, host in HOSTS.items()}
        stored = {"job": (JobSpec.read("job", TOPOLOGY, "/run"), JobRecord(Phase.RUNNING, tasks=tasks))}
        self.core = Core(2, "next", lambda topology: restart_lost, stored, MEMBERS, 0.0)
        self.now, self.number = 0.0, 0
        self.states: dict[str, list[Any]] = {"i1": [], "i2": []}
        """The states of the sink that the workers of each agent were told of."""

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                seen = action.message["jobs"]["job"]["view"]["workers"].get("sink.0", {})
                self.states[action.instance].append((seen.get("incarnation"), seen.get("state")))

    def hear(self, host: str) -> None:
        self.now, self.number = self.now + 0.1, self.number + 1
        rows = [WorkerReport("job", name, 1, UP, pid=4) for name, at in HOSTS.items() if at == host]
        self.take(self.core.report(AgentReport(host, MEMBERS[host], self.number, rows=rows), self.now))


def test_nobody_is_told_of_a_worker_that_may_be_up_that_it_is_not() -> None:
    """Its peers would take it for lost, and raise none but its next incarnation."""
    leader = Successor()
    leader.hear("h1")
    assert not leader.states["i1"], "it takes over"
    leader.now += TAKEOVER_S
    leader.hear("h1")
    assert leader.states["i1"] == [(None, None)]
    assert leader.core.status("job")["phase"] == "RECOVERING"
    assert leader.core.status("job")["workers"]["sink.0"]["state"] == "unheard"
    leader.hear("h2")
    assert leader.states == {"i1": [(None, None), (1, "up")], "i2": [(1, "up")]}
    assert leader.core.status("job")["phase"] == "RUNNING"


def test_who_has_not_reported_is_named_when_it_was_waited_for_too_long() -> None:
    leader = Successor()
    job = leader.core.jobs["job"]
    while job.phase is not Phase.FAILED:
        leader.hear("h1")
    assert "sink.0 is not ready 30 s after its start: the agent of h2 has not reported" in job.error


def test_one_that_its_agent_does_not_know_is_starting_or_lost_with_its_host() -> None:
    leader = Successor()
    leader.hear("h1")
    leader.now += TAKEOVER_S
    leader.hear("h1")
    leader.take(leader.core.members({"h1": "i1"}, leader.now))
    assert leader.states["i1"] == [(None, None), (2, "starting")]
    leader = Successor()
    leader.hear("h1")
    leader.number += 1
    leader.take(leader.core.report(AgentReport("h2", "i2", leader.number), leader.now))
    assert leader.states["i1"] == [(1, "starting")]
