"""The secret to come reaches every agent, or the change is called off; and an agent does as it is told."""

from __future__ import annotations

from typing import Any

from riprap.codec.trust.keys import Authority
from riprap.controller.actions import Reply, Send
from riprap.controller.cluster import SILENT_S_MAX
from riprap.controller.core import Core
from riprap.controller.handover import PATIENCE_S, RESEND_S
from riprap.controller.reports import AgentReport
from riprap.controller.steps import restart_lost

SECRET = b"n" * 32


class Leader:
    """A core with agents that report when the test lets them."""

    def __init__(self, *hosts: str) -> None:
        self.core = Core(1, "me", lambda topology: restart_lost, {}, {host: f"i-{host}" for host in hosts}, 0.0)
        self.number = 0
        for host in hosts:
            self.hear(host)

    def hear(self, host: str, has: bytes = b"", now: float = 0.0) -> None:
        self.number += 1
        key_id = Authority(has).id if has else ""
        self.core.hear(AgentReport(host, f"i-{host}", self.number, next_keys=key_id), now)

    def tick(self, now: float) -> tuple[list[tuple[str, str]], list[Any]]:
        """Who is told what, but for jobs, and what is answered."""
        actions = self.core.tick(now)
        sent = [(a.instance, a.message["type"]) for a in actions if isinstance(a, Send)]
        return [one for one in sent if one[1] != "desired"], [a.result for a in actions if isinstance(a, Reply)]


def test_it_is_answered_when_all_agents_have_it() -> None:
    leader = Leader("a", "b")
    leader.core.rotate("t", SECRET, 1.0)
    assert leader.tick(1.0) == ([("i-a", "next"), ("i-b", "next")], [])
    assert leader.tick(1.1) == ([], [])
    leader.hear("a", SECRET, 1.1)
    assert leader.tick(1.0 + RESEND_S) == ([("i-b", "next")], []), "who has not got it is told again"
    leader.hear("b", b"x" * 32, 1.6)
    assert leader.tick(1.7) == ([], []), "another secret is not that"
    leader.hear("b", SECRET, 1.8)
    assert leader.tick(1.8) == ([], [{"hosts": ["a", "b"], "without": []}])
    assert leader.tick(1.0 + 2 * PATIENCE_S) == ([], []), "and answered once"


def test_it_is_called_off_when_an_agent_does_not_say_that_it_has_it() -> None:
    leader = Leader("a", "b")
    leader.core.rotate("t", SECRET, 1.0)
    leader.tick(1.0)
    leader.hear("a", SECRET, 1.1)
    sent, answered = leader.tick(1.1 + PATIENCE_S)
    assert answered == [{"hosts": ["a"], "without": ["b"]}]
    assert ("i-a", "forget_next") in sent and ("i-b", "forget_next") in sent
    assert leader.tick(2.0 + PATIENCE_S) == ([], [])


def test_a_host_that_goes_meanwhile_is_missed() -> None:
    """Also one that had not reported to this leader yet."""
    leader = Leader("a")
    leader.core.members({"a": "i-a", "b": "i-b"}, 0.5)
    leader.core.rotate("t", SECRET, 1.0)
    leader.hear("a", SECRET, 1.0)
    assert leader.tick(1.0) == ([("i-b", "next")], [])
    leader.core.members({"a": "i-a"}, 2.0)
    assert leader.tick(4.0) == ([], [])
    assert leader.tick(1.1 + PATIENCE_S)[1] == [{"hosts": ["a"], "without": ["b"]}]


def test_a_host_that_was_there_lately_is_missed_and_one_that_left_long_ago_is_not() -> None:
    leader = Leader("a", "b")
    leader.core.members({"a": "i-a"}, 1.0)
    leader.core.rotate("t", SECRET, 10.0)
    leader.hear("a", SECRET, 10.0)
    assert leader.tick(10.1 + PATIENCE_S)[1] == [{"hosts": ["a"], "without": ["b"]}]
    leader.tick(2 * SILENT_S_MAX)
    leader.core.rotate("t", SECRET, 2 * SILENT_S_MAX)
    assert leader.tick(2 * SILENT_S_MAX)[1] == [{"hosts": ["a"], "without": []}]


def test_who_joins_later_is_told_too() -> None:
    leader = Leader("a")
    leader.core.rotate("t", SECRET, 1.0)
    leader.hear("a", SECRET, 1.0)
    assert leader.tick(1.0)[1] == [{"hosts": ["a"], "without": []}]
    leader.core.members({"a": "i-a", "b": "i-b"}, 2.0)
    leader.hear("b", now=2.0)
    assert leader.tick(2.0) == ([("i-b", "next")], [])


def test_an_agent_tells_which_keys_it_was_given_and_never_the_secret() -> None:
    report = AgentReport("h", "i", 1, next_keys=Authority(SECRET).id)
    state = report.state()
    assert AgentReport.read(state).next_keys == Authority(SECRET).id
    assert SECRET not in str(state).encode() and SECRET.hex() not in str(state)
