"""The two ends of a flow: addresses, ports and protocol, as records of packets hold them and as people read them.

Records are those of `riprap prep packets`: addresses are IPv6, those of IPv4 mapped (::ffff:a.b.c.d), `version` tells.
"""

from __future__ import annotations

import ipaddress

import numpy as np

from riprap.operators.tables import texts

ENDS = np.dtype(
    [
        ("source", "|u1", (16,)),
        ("destination", "|u1", (16,)),
        ("source_port", "<u2"),
        ("destination_port", "<u2"),
        ("protocol", "|u1"),
        ("version", "|u1"),
    ]
)
"""The two ends of a flow; all 0 where the packets do not tell. A version of 0 says so."""

PROTOCOLS = {
    1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 33: "DCCP", 41: "IPv6", 47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6",
    89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP", 136: "UDPLite",
}  # fmt: skip
"""By the numbers of IANA; others are shown as numbers."""


def ends_of(packets: np.ndarray) -> np.ndarray:
    """The ends (ENDS) of each packet of a structured array, as far as it has such fields."""
    ends = np.zeros(len(packets), ENDS)
    for name in ENDS.names or ():
        if name in (packets.dtype.names or ()) and packets.dtype[name] == ENDS[name]:
            ends[name] = packets[name]
    return ends


def as_bytes(ends: np.ndarray) -> np.ndarray:
    """Ends as rows of bytes, which links and backups carry: uint8 (n, 38)."""
    return np.ascontiguousarray(ends).view(np.uint8).reshape(len(ends), ENDS.itemsize)


def of_bytes(rows: np.ndarray) -> np.ndarray:
    """The ends that `as_bytes` turned into rows. ValueError when these are others."""
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != ENDS.itemsize:
        raise ValueError(f"the ends of flows are not {rows.dtype} {rows.shape}")
    return np.ascontiguousarray(rows).reshape(-1).view(ENDS)


def ends_columns(ends: np.ndarray) -> dict[str, np.ndarray]:
    """Columns for people: source, destination, protocol, source_port, destination_port."""
    versions = ends["version"].tolist()
    return {
        "source": texts(map(address, ends["source"], versions)),
        "destination": texts(map(address, ends["destination"], versions)),
        "protocol": texts(PROTOCOLS.get(number, str(number)) for number in ends["protocol"].tolist()),
        "source_port": ends["source_port"],
        "destination_port": ends["destination_port"],
    }


def address(octets: np.ndarray, version: int) -> str:
    """An address as text (RFC 5952); empty where it is not known."""
    if not version:
        return ""
    raw = octets.tobytes()
    return str(ipaddress.IPv4Address(raw[12:]) if version == 4 else ipaddress.IPv6Address(raw))
