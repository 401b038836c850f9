"""Gives the agents the secret that is to be the cluster's, and knows when all of them have it."""

from __future__ import annotations

from typing import Any

from riprap.codec.trust.keys import Authority
from riprap.controller.actions import Action, Reply, Send
from riprap.controller.cluster import Cluster

RESEND_S = 0.5
PATIENCE_S = 8.0  # shorter than that of clients


class Handover:
    """The handover of one leadership. Whoever joins while this leader leads is told too, unless an agent was missed.

    Invariant: a host that was there when it began is missed when it goes: it would come back without the new keys.
    """

    def __init__(self) -> None:
        self._id = ""
        self._message: dict[str, Any] = {}
        self._ticket: Any = None
        self._until = 0.0
        self._hosts: set[str] = set()
        self._told_at: dict[str, float] = {}

    def begin(self, ticket: Any, secret: bytes, cluster: Cluster, now: float) -> None:
        """Tell all agents; `step` answers with their hosts, and with those that have not said in time that they have
        it. An earlier request is not answered any more."""
        self._id, self._message = Authority(secret).id, {"type": "next", "secret": secret}
        self._ticket, self._until, self._told_at = ticket, now + PATIENCE_S, {}
        self._hosts = set(_present(cluster))

    def step(self, cluster: Cluster, now: float) -> list[Action]:
        """Act on the time that has passed, and on the reports that have come."""
        if not self._message:
            return []
        present = _present(cluster)
        self._hosts.update(present)
        lacking = sorted(host for host in self._hosts if not self._has(cluster, present.get(host, "")))
        reached = [present[host] for host in lacking if host in present]
        due = [instance for instance in reached if now >= self._told_at.get(instance, 0.0) + RESEND_S]
        self._told_at |= dict.fromkeys(due, now)
        actions: list[Action] = [Send(instance, self._message) for instance in due]
        if self._ticket is not None and (not lacking or now > self._until):
            actions.append(Reply(self._ticket, {"hosts": sorted(self._hosts - {*lacking}), "without": lacking}))
            self._ticket = None
            if lacking:
                self._message = {}
                actions += [Send(instance, {"type": "forget_next"}) for instance in present.values()]
        return actions

    def _has(self, cluster: Cluster, instance: str) -> bool:
        agent = cluster.agents.get(instance)
        return agent is not None and agent.report.next_keys == self._id


def _present(cluster: Cluster) -> dict[str, str]:
    """The agents by host: members, and those heard of lately, who may have workers and come back."""
    heard = sorted(cluster.agents.items(), key=lambda one: one[1].heard_at)
    return {**{agent.report.host: instance for instance, agent in heard}, **cluster.members}
