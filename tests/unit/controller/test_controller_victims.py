"""Groups as targets: whom they name, in what a cluster orders and kills, and the refusal of names that do not exist."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import Driver
from test_controller_placement import Many, hosts_of

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.controller.actions import Reply, Send
from riprap.controller.faults import Fault, When
from riprap.controller.injection import orders_for
from riprap.controller.jobspec import JobSpec
from riprap.controller.reports import UP
from riprap.controller.victims import check_group, hosts_in, is_group, names_hosts, workers_in

HOSTS = hosts_of("r1", "r2", "r1")
PLACED = {"read.0": "h1", "count.0": "h2", "count.1": "h3", "counts.0": "h3"}


@pytest.mark.parametrize(
    ("target", "workers", "hosts"),
    [
        ("host:h3", ["count.1", "counts.0"], ["h3"]),
        ("domain:rack=r1", ["read.0", "count.1", "counts.0"], ["h1", "h3"]),
        ("domain:host=h2", ["count.0"], ["h2"]),
        ("stage:count", ["count.0", "count.1"], []),
        ("primaries", list(PLACED), []),
        ("host:h9", [], []),
    ],
)
def test_a_group_names_its_workers_and_its_hosts(target: str, workers: list[str], hosts: list[str]) -> None:
    assert is_group(target) and workers_in(target, PLACED, HOSTS) == workers and hosts_in(target, HOSTS) == hosts
    assert names_hosts(target) == target.startswith(("host", "domain"))


def test_a_replica_is_no_primary_and_is_of_the_stage() -> None:
    placed = {"count.0": "h1", "count.0~1": "h2"}
    assert workers_in("primaries", placed, HOSTS) == ["count.0"]
    assert workers_in("stage:count", placed, HOSTS) == [*placed]


@pytest.mark.parametrize(
    "target", ["count.0", "agent", "host:", "host:a b", "domain:rack", "domain:=x", "stage:A", "random:a"]
)
def test_what_is_no_group(target: str) -> None:
    assert not is_group(target)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("host:h9", "there is no host h9; there are: h1, h2, h3"),
        ("domain:rack=r9", "there are: host=h1, host=h2, host=h3, rack=r1, rack=r2"),
        ("domain:zone=a", "there is no domain zone=a"),
        ("stage:sink", "there is no stage sink; there are: read, count"),
    ],
)
def test_unknown_names_are_refused_with_those_that_exist(target: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_group(target, ["read", "count"], HOSTS)
    assert words in str(caught.value) and caught.value.remedy and caught.value.exit_code == 2


def suffering(target: str, action: str = "kill") -> dict[str, Any]:
    fault = Fault(action, target, When("epoch", 0), 0.0 if action == "kill" else 1.0)
    return {"stages": {"a": {"parallelism": 6}, "z": {"parallelism": 1}}, "faults": [fault.fields()]}


def ordered(many: Many) -> dict[str, list[str]]:
    """The workers that each host's agent is to hit; an asterisk for the agent itself."""
    job, found = many.core.jobs["job"], {}
    for host, instance in many.members.items():
        orders = orders_for(job, instance)
        found[host] = [one["fault"]["target"] + "*" * one.get("with_agent", False) for one in orders]
    return found


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("host:h2", {"h1": [], "h2": ["a.1*", "a.4*"], "h3": []}),
        ("domain:rack=r1", {"h1": ["a.0*", "a.3*", "z.0*"], "h2": [], "h3": ["a.2*", "a.5*"]}),
        ("stage:a", {"h1": ["a.0", "a.3"], "h2": ["a.1", "a.4"], "h3": ["a.2", "a.5"]}),
        ("primaries", {"h1": ["a.0", "a.3", "z.0"], "h2": ["a.1", "a.4"], "h3": ["a.2", "a.5"]}),
    ],
)
def test_a_cluster_orders_a_group_at_once_and_each_agent_its_part(target: str, expected: dict[str, list[str]]) -> None:
    many = Many(suffering(target), HOSTS)
    many.report()
    many.report()
    assert ordered(many) == expected
    hit = sorted(worker.rstrip("*") for part in expected.values() for worker in part)
    assert sorted(one["worker"] for one in many.core.status("job")["injected"]) == hit
    assert many.events.count("fault_injected") == len(hit) and len(many.persists[-1].record.injected) == 1
    many.kill([WorkerId.parse(worker) for worker in hit])
    many.report()
    assert ordered(many) == {"h1": [], "h2": [], "h3": []}, "of incarnations that are gone"


@pytest.mark.parametrize(
    ("target", "action", "words"),
    [
        ("stage:b", "kill", "there is no stage b"),
        ("host:h1", "stop", "cannot go on by itself"),
        ("agent", "kill", "no worker"),
    ],
)
def test_a_submission_with_an_impossible_group_is_refused(target: str, action: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        JobSpec.read("job", suffering(target, action), "/run")


def test_a_client_kills_a_group_the_agents_after_their_workers() -> None:
    many = Many({"stages": {"a": {"parallelism": 6}}}, HOSTS)
    many.report()
    *sends, reply = many.core.kill("t", "job", "domain:rack=r1")
    assert [
        (one.instance, one.message["type"], one.message.get("worker")) for one in sends if isinstance(one, Send)
    ] == [
        ("i-h1", "kill", "a.0"),
        ("i-h3", "kill", "a.2"),
        ("i-h1", "kill", "a.3"),
        ("i-h3", "kill", "a.5"),
        ("i-h1", "kill_agent", None),
        ("i-h3", "kill_agent", None),
    ]
    assert isinstance(reply, Reply)
    assert reply.result == {"workers": ["a.0", "a.2", "a.3", "a.5"], "hosts": ["h1", "h3"]}
    for target, words in (("host:h9", "h1, h2, h3"), ("stage:b", "there are: a")):
        with pytest.raises(ConfigError, match=words):
            many.core.kill("t", "job", target)


def test_a_group_of_which_nothing_runs_is_refused() -> None:
    driver = Driver()
    with pytest.raises(ConfigError, match="no worker of stage:sink of job job runs now"):
        driver.core.kill("t", "job", "stage:sink")
    driver.hear(source_0={"state": UP}, sink_0={"state": UP})
    *_, reply = driver.core.kill("t", "job", "stage:sink")
    assert isinstance(reply, Reply) and reply.result == {"workers": ["sink.0"], "hosts": []}


def test_a_host_whose_agent_is_silent_gets_nothing_while_others_speak() -> None:
    many = Many({"stages": {"a": {"parallelism": 3}}}, HOSTS)
    many.report()
    silent = many.members.pop("h3")  # no report any more, though ZooKeeper still has it
    many.core.members(many.members | {"h3": silent}, many.now)
    many.now += 1.1
    many.kill([WorkerId("a", 0), WorkerId("a", 1)])
    many.report()
    many.report()
    assert set(many.placed("a").values()) == {"h1", "h2", "h3"}
    assert many.placed("a")[WorkerId("a", 2)] == "h3", "it is not lost yet"
    assert {many.placed("a")[WorkerId("a", n)] for n in (0, 1)} <= {"h1", "h2"}
