"""A job beside its hosts: what is refused before the start, and what is said of the loss of a host."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.sections import PlacementOptions
from riprap.configs.topology import Topology
from riprap.engine.run.faults import parse_fault
from riprap.engine.run.host_checks import checks_of, coding_shortages, on_hosts, placement_shortages
from riprap.engine.run.job_schema import JobSchema
from riprap.engine.run.preflight import CheckedJob
from riprap.engine.services.hosts import OwnHost, pretended_hosts


def named(hosts: tuple[OwnHost, ...]) -> dict[str, Any]:
    return {host.name: host.labels for host in hosts}


TWO, FOUR = named(pretended_hosts(2, [])), named(pretended_hosts(4, ["rack=2"]))


def spread(topology: Topology, *labels: str, best_effort: bool = False) -> Topology:
    asked = PlacementOptions(labels, 1, "best_effort" if best_effort else "fail")
    return replace(topology, placement=asked)


def checked(topology: Topology, *faults: str) -> CheckedJob:
    schema = JobSchema(1000, 10, (), ("x",), None)
    return CheckedJob(topology, SimpleNamespace(), schema, [parse_fault(text) for text in faults])  # type: ignore[arg-type]


def test_a_strict_spread_that_the_hosts_do_not_allow_is_refused(topology: Topology) -> None:
    with pytest.raises(ConfigError) as caught:
        on_hosts(checked(spread(topology, "rack")), TWO)
    said = str(caught.value)
    assert "stage processor: 6 tasks are to be spread over rack, and none of the hosts host-1, host-2 has that" in said
    assert "--hosts 4 --domains rack=2" in caught.value.remedy and caught.value.exit_code == 2
    assert placement_shortages(spread(topology, "rack", "host"), FOUR) == []
    on_hosts(checked(spread(topology, "rack", "host")), FOUR)


def test_best_effort_is_a_caution(topology: Topology) -> None:
    assert placement_shortages(spread(topology, "rack"), FOUR | {"h": {"host": "h"}}) == [], "one host without it"
    (first, *_) = on_hosts(checked(spread(topology, "rack", best_effort=True)), TWO).cautions
    assert "none of the hosts host-1, host-2 has that label" in first and "as well as can be" in first


def test_without_agents_nothing_is_said_yet(topology: Topology) -> None:
    job = checked(spread(topology, "rack"))
    assert on_hosts(job, {}) is job


def test_a_host_that_holds_more_pieces_than_may_be_lost_is_told_of(topology: Topology) -> None:
    (shortage,) = coding_shortages(topology, TWO)
    assert "stage processor is coded with k = 4 and r = 2, and host host-1 has 3 of its 6 tasks" in shortage.found
    assert "3 pieces of a row are lost at once, more than r = 2" in shortage.found
    assert shortage.remedy == "have at least 3 values of host, or raise r to 3"
    assert list(coding_shortages(topology, named(pretended_hosts(3, [])))) == [], "as the remedy says"
    assert list(coding_shortages(topology, named(pretended_hosts(1, [])))) == [], "of one host nothing is said"


def test_the_same_of_the_domains_that_the_job_is_spread_over(topology: Topology) -> None:
    assert list(coding_shortages(topology, FOUR)) == []
    (shortage,) = coding_shortages(spread(topology, "rack", "host"), FOUR)
    assert "rack rack-1 has 3 of its 6 tasks" in shortage.found and "3 values of rack" in shortage.remedy


def test_all_copies_on_one_domain_are_told_of(topology: Topology) -> None:
    copied = replace(topology, fault_tolerance=MappingProxyType({"scheme": "replication", "copies": 2}))
    assert list(coding_shortages(copied, TWO)) == []
    three = replace(copied, fault_tolerance=MappingProxyType({"scheme": "replication", "copies": 3}))
    assert list(coding_shortages(three, TWO)) == [], "two of three copies on a host leave one"
    one_rack = {host: {**labels, "rack": "r1"} for host, labels in TWO.items()}
    (shortage,) = coding_shortages(spread(copied, "rack", best_effort=True), one_rack)
    assert "rack r1 has 2 copies of some blocks" in shortage.found and "2 values of rack" in shortage.remedy


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("kill:host:host-9@epoch=1", "there is no host host-9; there are: host-1, host-2"),
        ("kill:domain:rack=rack-1@epoch=1", "there is no domain rack=rack-1; there are: host=host-1, host=host-2"),
        ("kill:stage:procesor@epoch=1", "there are: source, processor, sink"),
    ],
)
def test_a_fault_in_hosts_that_do_not_exist_is_refused(topology: Topology, fault: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        on_hosts(checked(topology, fault), TWO)
    assert words in str(caught.value) and f"fault '{fault}'" in str(caught.value)


def test_hosts_of_a_cluster_without_agents_cannot_be_hit(topology: Topology) -> None:
    with pytest.raises(ConfigError, match="there are: none now"):
        on_hosts(checked(topology, "kill:host:h1@epoch=1"), {})


def test_the_doctor_says_the_same(topology: Topology) -> None:
    def lines(topology: Topology, hosts: dict[str, Any]) -> list[tuple[str, str]]:
        return [(check.name, check.level) for check in checks_of(topology, hosts)]

    one = named(pretended_hosts(1, []))
    assert lines(topology, TWO) == [("loss of a host", "warn")]
    assert lines(topology, one) == lines(topology, FOUR) == [("loss of a host", "ok")]
    assert lines(spread(topology, "rack"), TWO) == [("placement", "FAIL"), ("loss of a host", "warn")]
    assert lines(spread(topology, "rack", best_effort=True), TWO)[0] == ("placement", "warn")
    assert lines(spread(topology, "host"), FOUR) == [("placement", "ok"), ("loss of a host", "ok")]
    plain = replace(topology, fault_tolerance=MappingProxyType({"scheme": "none"}))
    assert lines(plain, TWO) == [], "nothing is coded"


def test_a_placement_is_submitted_as_it_was_read(topology: Topology) -> None:
    plain = spread(topology, "rack", "host").to_dict()
    assert plain["placement"] == {"spread": ["rack", "host"], "max_skew": 1, "when_unsatisfiable": "fail"}
    assert Topology.from_dict(plain).placement == PlacementOptions(("rack", "host"), 1, "fail")
    assert "placement" not in topology.to_dict(), "nothing is asked"
    assert placement_shortages(topology, TWO) == []
