"""The agents: which are members, as ZooKeeper says, and the last report of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.controller.labels import HostLabels, labelled
from riprap.controller.record import Assignment
from riprap.controller.reports import AgentReport

SILENCE_S = 1.0  # ten reports long
SILENT_S_MAX = 60.0  # how long a report of an agent that is no member is kept


@dataclass(slots=True)
class KnownAgent:
    """One agent process, and the last desired state that this leader told it."""

    report: AgentReport
    heard_at: float
    ahead_s: float = 0.0
    """Lead of this controller's clock over the agent's, as far as is known; at least that, and the time that its
    quickest report took. 0 where the two read the same clock."""
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The jobs of the desired state last sent."""
    sequence: int = 0
    """Its number; 0 before any. Invariant: it grows with each change of `told`."""
    told_at: float = 0.0


class Cluster:
    """Membership by host, reports by instance; a host is usable when its member instance has reported."""

    def __init__(self, members: Mapping[str, str], clock: str = "") -> None:
        self.clock = clock
        self.members = dict(members)
        self.agents: dict[str, KnownAgent] = {}

    def set_members(self, members: Mapping[str, str]) -> None:
        """The whole current membership, host -> instance."""
        self.members = dict(members)

    def hear(self, report: AgentReport, now: float) -> bool:
        """Take a report, with its moments told on our clock; False when it is older than one already taken."""
        known = self.agents.get(report.instance)
        if known is not None and report.number <= known.report.number:
            return False
        ahead_s = 0.0 if report.clock == self.clock else now - report.sent_at
        if known is None:
            self.agents[report.instance] = known = KnownAgent(report, now, ahead_s)
        known.report, known.heard_at, known.ahead_s = report, now, min(known.ahead_s, ahead_s)
        if known.ahead_s:
            for row in report.rows:
                row.move(known.ahead_s)
        return True

    def usable_hosts(self) -> dict[str, str]:
        """Hosts that can be given work, sorted, with the instance of their agent."""
        return {host: instance for host, instance in sorted(self.members.items()) if instance in self.agents}

    def speaking(self, now: float) -> dict[str, HostLabels]:
        """The hosts to give further work to, with their labels: members whose agents report, or all where none does.

        One whose agent is silent may be lost, as ZooKeeper will say when its session ends.
        """
        hosts = self.hosts()
        heard = {host: self.agents[instance].heard_at for host, instance in self.usable_hosts().items()}
        return {host: hosts[host] for host, at in heard.items() if now - at <= SILENCE_S} or hosts

    def hosts(self) -> dict[str, HostLabels]:
        """The hosts that can be given work, with their labels."""
        return {host: self.labels_of(host, instance) for host, instance in self.usable_hosts().items()}

    def labels_of(self, host: str, instance: str) -> HostLabels:
        """The labels of a host as the agent there gave them, also for a while after that agent is lost."""
        agent = self.agents.get(instance)
        return labelled(host, agent.report.labels if agent is not None else {})

    def gone(self, assignment: Assignment, now: float) -> bool:
        """True when the agent process that holds this assignment is lost, as far as anyone can tell.

        Another instance has taken its host's name; or it is a member no more and silent as well. An agent that goes on
        reporting has only lost its session, as all do when ZooKeeper was away for longer than sessions last; it will
        register again.
        """
        member = self.members.get(assignment.host)
        if member is not None:
            return member != assignment.instance
        agent = self.agents.get(assignment.instance)
        return agent is None or now - agent.heard_at > SILENCE_S

    def unheard(self, assigned: Collection[str]) -> set[str]:
        """The instances, members or holders of assignments, that have not reported to this leader yet."""
        return {*self.members.values(), *assigned} - self.agents.keys()

    def forget_silent(self, now: float) -> None:
        """Drop the reports of agents that left long ago."""
        present = set(self.members.values())
        for instance, agent in list(self.agents.items()):
            if instance not in present and now - agent.heard_at > SILENT_S_MAX:
                del self.agents[instance]
