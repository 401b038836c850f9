"""Reads captures with dpkt, an independent reader, into the fields that the records of packets have."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dpkt
import numpy as np

LINKS = {
    dpkt.pcap.DLT_EN10MB: dpkt.ethernet.Ethernet,
    dpkt.pcap.DLT_LINUX_SLL: dpkt.sll.SLL,
    dpkt.pcap.DLT_LINUX_SLL2: dpkt.sll2.SLL2,
    dpkt.pcap.DLT_NULL: dpkt.loopback.Loopback,
    dpkt.pcap.DLT_LOOP: dpkt.loopback.Loopback,
}
WITH_PORTS = {6, 17, 132, 33, 136}


@dataclass(frozen=True)
class Seen:
    """A packet as either reader sees it; times in microseconds, for dpkt's are floats or decimals."""

    time_us: int
    source: str
    destination: str
    protocol: int
    size: int
    ports: tuple[int, int]
    payload: int | None = field(default=None, compare=False)
    """Bytes behind the transport header, where dpkt parses one that is not of a fragment."""


def records_of(path: Path) -> tuple[list[Seen], int]:
    """The IP packets of a capture that dpkt finds, and how many frames there are in all."""
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        frames = [(time, bytes(frame)) for time, frame in reader]
        link = reader.datalink()
    found = [_seen(time, packet) for time, frame in frames if (packet := _outermost(link, frame)) is not None]
    return found, len(frames)


def _outermost(link: int, frame: bytes) -> Any:
    """The outermost IP header that dpkt can parse, None where there is none."""
    try:
        if link in LINKS:
            packet = LINKS[link](frame)
        else:
            packet = dpkt.ip.IP(frame) if frame[0] >> 4 == 4 else dpkt.ip6.IP6(frame)
    except (dpkt.UnpackError, IndexError):
        return None
    while not isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
        packet = getattr(packet, "data", None)
        if packet is None or isinstance(packet, bytes):
            return None
    return packet


def _seen(time: Any, packet: Any) -> Seen:
    if isinstance(packet, dpkt.ip6.IP6):
        protocol, size, later, transport = packet.p, packet.plen + 40, False, packet.data
        for header in getattr(packet, "all_extension_headers", []):
            later = later or (isinstance(header, dpkt.ip6.IP6FragmentHeader) and header.frag_off > 0)
    else:
        protocol, size, later, transport = packet.p, packet.len, packet.offset > 0, packet.data
    data = bytes(transport)
    ports = (0, 0)
    if protocol in WITH_PORTS and not later and len(data) >= 4:
        ports = (int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big"))
    addresses = [str(ipaddress.ip_address(bytes(address))) for address in (packet.src, packet.dst)]
    return Seen(round(float(time) * 1e6), *addresses, protocol, size, ports, _payload(packet))


def _payload(packet: Any) -> int | None:
    if not isinstance(packet, dpkt.ip.IP) or packet.offset or packet.mf or packet.len == 0:
        return None
    header = 8 if isinstance(packet.data, dpkt.udp.UDP) else getattr(packet.data, "off", 0) * 4
    return max(packet.len - packet.hl * 4 - header, 0) if header >= 8 else None


def ours(records: np.ndarray) -> Iterator[Seen]:
    """The same fields of our records."""
    for record in records:
        yield Seen(
            int(record["time_ns"]) // 1000,
            *(_address(record[end], int(record["version"])) for end in ("source", "destination")),
            int(record["protocol"]),
            int(record["size"]),
            (int(record["source_port"]), int(record["destination_port"])),
        )


def _address(octets: np.ndarray, version: int) -> str:
    data = octets.tobytes()
    if version == 4:
        assert data[:12] == bytes(10) + b"\xff\xff"
        data = data[12:]
    return str(ipaddress.ip_address(data))
