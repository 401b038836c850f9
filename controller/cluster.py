"""The agents: who is a member (ZooKeeper says so), and what each last reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controller.record import Assignment
from controller.reports import AgentReport

SILENCE_S = 1.0  # ten reports long
SILENT_S_MAX = 60.0  # how long a report of an agent that is no member is kept


@dataclass(slots=True)
class Agent:
    """One agent process, and what this leader last told it."""

    report: AgentReport
    heard_at: float
    told: dict[str, object] = field(default_factory=dict)
    """The jobs of the desired state last sent."""
    sequence: int = 0
    """Its number; 0 before any. Invariant: it grows with each change of `told`."""
    told_at: float = 0.0


class Cluster:
    """Membership by host, reports by instance; a host is usable when its member instance has reported."""

    def __init__(self, members: Mapping[str, str]) -> None:
        self.members = dict(members)
        self.agents: dict[str, Agent] = {}

    def set_members(self, members: Mapping[str, str]) -> None:
        """The whole current membership, host -> instance."""
        self.members = dict(members)

    def hear(self, report: AgentReport, now: float) -> bool:
        """Take a report; False when it is older than one already taken."""
        known = self.agents.get(report.instance)
        if known is None:
            self.agents[report.instance] = Agent(report, now)
            return True
        if report.number <= known.report.number:
            return False
        known.report, known.heard_at = report, now
        return True

    def usable_hosts(self) -> dict[str, str]:
        """Hosts that can be given work, sorted, with the instance of their agent."""
        return {host: instance for host, instance in sorted(self.members.items()) if instance in self.agents}

    def gone(self, assignment: Assignment, now: float) -> bool:
        """Whether the agent process that holds this assignment is lost, as far as anyone can tell.

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
