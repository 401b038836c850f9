"""Which address an agent is reached at, and which agents cannot join one cluster."""

from __future__ import annotations

import pytest

from riprap.codec.errors import ConfigError
from riprap.controller.addresses import ONE_HOST, address_towards, check_reach, is_loopback, own_address


def test_an_address_of_this_host_is_given_back_in_numbers() -> None:
    assert own_address("localhost") == own_address("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("given", ["192.0.2.1", "a..b"])
def test_an_address_of_another_host_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=f"--address {given}: not an address of this host") as error:
        own_address(given)
    assert "ip -4 addr" in error.value.remedy


def test_zookeeper_on_this_host_is_reached_from_loopback() -> None:
    assert address_towards("127.0.0.1:2181/chroot") == address_towards("localhost:1") == "127.0.0.1"


def test_no_way_to_zookeeper_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no way to ZooKeeper"):
        address_towards("a..b:2181")


@pytest.mark.parametrize(("address", "local"), [(ONE_HOST, True), ("127.0.0.5", True), ("10.0.0.7", False)])
def test_loopback_is_told_apart(address: str, local: bool) -> None:
    assert is_loopback(address) is local


@pytest.mark.parametrize(("mine", "others"), [("10.0.0.7", ["10.0.0.8"]), ("127.0.0.1", ["127.0.0.1"]), (ONE_HOST, [])])
def test_agents_that_can_reach_each_other_may_join(mine: str, others: list[str]) -> None:
    check_reach("me", mine, {f"h{number}": other for number, other in enumerate(others)})


@pytest.mark.parametrize(
    ("mine", "other", "alone"),
    [
        (ONE_HOST, "10.0.0.8", "me"),
        ("127.0.0.1", "10.0.0.8", "me"),
        ("10.0.0.7", ONE_HOST, "there"),
        ("10.0.0.7", "127.0.0.1", "there"),
        ("127.0.0.1", ONE_HOST, "there"),
        (ONE_HOST, "127.0.0.1", "me"),
    ],
)
def test_the_agent_that_others_cannot_reach_is_named(mine: str, other: str, alone: str) -> None:
    with pytest.raises(ConfigError, match=f"those of host {alone}, whose agent was given no address") as error:
        check_reach("me", mine, {"fine": mine, "there": other} if mine else {"there": other})
    assert f"of {alone} with --address IP" in error.value.remedy
