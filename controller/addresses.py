"""The address at which other hosts reach this one: the one given, or the one from which ZooKeeper is reached."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping

from kazoo.hosts import collect_hosts

from riprap.codec.errors import ConfigError

ONE_HOST = ""
"""The address of an agent that serves this host alone: its workers listen on no network."""


def own_address(given: str) -> str:
    """A given address as numbers; ConfigError unless it is an IPv4 address, or a name of one, of this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((given, 0))
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"--address {given}: not an address of this host ({error})",
                "name an IPv4 address of this host that the other hosts reach; `ip -4 addr` lists them",
            ) from error
        return str(probe.getsockname()[0])


def address_towards(zookeeper: str) -> str:
    """The address from which this host reaches ZooKeeper, loopback only when every server is reached by that.

    ConfigError when there is no way to any of them.
    """
    servers, _ = collect_hosts(zookeeper)
    found = [address for host, port in servers if (address := _from_here(host, port))]
    if not found:
        raise ConfigError(f"this host has no way to ZooKeeper {zookeeper}", "check the address, or name --address IP")
    return next((address for address in found if not is_loopback(address)), found[0])


def is_loopback(address: str) -> bool:
    """True when only this host reaches it."""
    return address == ONE_HOST or ipaddress.ip_address(address).is_loopback


def check_reach(host: str, address: str, others: Mapping[str, str]) -> None:
    """Refuse to join agents who cannot reach each other: ConfigError says which one was given no address.

    `others` are the addresses of the agents by host. Agents that name loopback addresses share one machine.
    """
    for name, other in others.items():
        reach = _reach(address), _reach(other)
        if 0 in reach or reach[0] != reach[1]:
            mine = reach[0] <= reach[1]
            whom, instead, command = (host, name, "agent") if mine else (name, host, "up` or `riprap agent")
            raise ConfigError(
                f"workers of host {instead} cannot reach those of host {whom}, whose agent was given no address",
                f"start `riprap {command}` of {whom} with --address IP, an address of it that {instead} reaches",
            )


def _reach(address: str) -> int:
    """Reach of an address: 0 by sockets of its host alone, 1 on its machine, 2 from other hosts."""
    return 0 if address == ONE_HOST else 1 if is_loopback(address) else 2


def _from_here(host: str, port: int) -> str:
    """The address that a packet to that server would bear; empty when there is no route. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except (OSError, UnicodeError):
            return ""
        return str(probe.getsockname()[0])
