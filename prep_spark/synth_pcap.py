"""Draws packets like those of a backbone link: Zipf-distributed flows, packets of 40 to 1,500 bytes, some fragments.

The file is a pcap of Ethernet frames cut to their headers, as traces are published. Two cities' files of one seed have
sources of their own and share every other destination; on the same seconds they visit the same hosts, so that their
streams can be joined (AFX 6.1, Experiment 4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

FLOWS = 100_000
DESTINATIONS = 20_000
FLOW_SKEW = 1.1
DESTINATION_SKEW = 1.0
PACKETS_PER_SECOND = 10_000
START_SECONDS = 1_458_000_000
SIZES = np.array((40, 52, 576, 1420, 1500))
SIZE_SHARES = np.array((0.3, 0.15, 0.05, 0.2, 0.3))
TCP_SHARE = 0.85
FRAGMENT_SHARE = 0.002
ARP_SHARE = 0.001
HEADERS_BYTES = 54  # Ethernet, IPv4, TCP

FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, HEADERS_BYTES, 1)

FRAME = np.dtype(
    [
        ("seconds", "<u4"), ("microseconds", "<u4"), ("captured", "<u4"), ("wire", "<u4"),
        ("macs", "S12"), ("ethertype", ">u2"),
        ("version", "u1"), ("service", "u1"), ("size", ">u2"), ("id", ">u2"), ("fragment", ">u2"),
        ("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("destination", ">u4"),
        ("source_port", ">u2"), ("destination_port", ">u2"), ("seq", ">u4"), ("ack", ">u4"),
        ("flags", ">u2"), ("window", ">u2"), ("tcp_checksum", ">u2"), ("urgent", ">u2"),
    ]
)  # fmt: skip
"""A packet's header in the file, and the headers that are captured; behind UDP's 8 bytes lies payload."""


def generator(seed: int, city: int) -> Callable[[int], bytes]:
    """A function that draws the given number of packets of a city, as the bytes of a capture."""
    rng = np.random.default_rng((seed, city))
    table = _flows(seed, city)
    ranks = _zipf(FLOWS, FLOW_SKEW)
    made = 0

    def chunk(packets: int) -> bytes:
        nonlocal made
        frames = np.zeros(packets, FRAME)
        _put_times(frames, made, rng)
        made += packets
        frames["ethertype"] = np.where(rng.random(packets) < ARP_SHARE, 0x0806, 0x0800)
        _put_headers(frames, table[np.searchsorted(ranks, rng.random(packets))], rng)
        return frames.tobytes()

    return chunk


def _flows(seed: int, city: int) -> np.ndarray:
    """The flows: source, destination, protocol and ports of each; the most frequent first."""
    rng = np.random.default_rng((seed, city, 1))
    hosts = np.random.default_rng((seed, 2)).choice(1 << 24, DESTINATIONS, replace=False)
    ranks = np.searchsorted(_zipf(DESTINATIONS, DESTINATION_SKEW), rng.random(FLOWS))
    own = np.where(ranks % 2, 0, 10 + city) << 24  # every other destination is in a network of the city's own
    flows = np.zeros(FLOWS, FRAME)
    flows["destination"] = hosts[ranks] + np.where(own, own, 203 << 24)
    flows["source"] = ((100 + city) << 24) + rng.integers(0, 1 << 24, FLOWS)
    flows["protocol"] = np.where(rng.random(FLOWS) < TCP_SHARE, 6, 17)
    flows["source_port"] = rng.integers(1024, 65536, FLOWS)
    flows["destination_port"] = rng.choice((80, 443, 53, 25, 8080), FLOWS)
    return flows


def _zipf(count: int, skew: float) -> np.ndarray:
    """Cumulative probabilities of ranks whose frequencies fall as 1 / rank^skew."""
    weights = np.cumsum(1 / np.arange(1, count + 1) ** skew)
    return weights / weights[-1]


def _put_times(frames: np.ndarray, first: int, rng: np.random.Generator) -> None:
    """Put the packets' times, evenly spaced except for some jitter, in order."""
    numbers = first + np.arange(len(frames)) + rng.random(len(frames))
    microseconds = (numbers * (1_000_000 / PACKETS_PER_SECOND)).astype(np.int64)
    frames["seconds"] = START_SECONDS + microseconds // 1_000_000
    frames["microseconds"] = microseconds % 1_000_000


def _put_headers(frames: np.ndarray, flows: np.ndarray, rng: np.random.Generator) -> None:
    for name in ("source", "destination", "protocol", "source_port", "destination_port"):
        frames[name] = flows[name]
    frames["captured"] = HEADERS_BYTES
    frames["size"] = rng.choice(SIZES, len(frames), p=SIZE_SHARES)
    frames["wire"] = frames["size"].astype(np.uint32) + 14
    frames["version"] = 0x45
    frames["ttl"] = 64
    frames["fragment"] = np.where(rng.random(len(frames)) < FRAGMENT_SHARE, 185, 0)  # one that begins at byte 1,480
    is_tcp = flows["protocol"] == 6
    frames["flags"] = np.where(is_tcp, 0x5010, 0)
    udp_bytes = np.where(is_tcp, 0, frames["size"].astype(np.uint32) - 20) << 16
    frames["seq"] = np.where(is_tcp, rng.integers(0, 1 << 32, len(frames)), udp_bytes)
