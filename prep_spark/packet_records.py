"""The record of a packet, 64 bytes, and the reasons why some packets have none."""

from __future__ import annotations

import numpy as np

DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("source", "|u1", (16,)),
        ("destination", "|u1", (16,)),
        ("source_port", "<u2"),
        ("destination_port", "<u2"),
        ("protocol", "|u1"),
        ("version", "|u1"),
        ("flags", "<u2"),
        ("size", "<u4"),
        ("payload", "<u4"),
        ("flow", "<u8"),
    ]
)
"""Record of a packet, after its outermost IP header.

`time_ns` counts from 1970; addresses are IPv6, those of IPv4 mapped (::ffff:a.b.c.d, RFC 4291, 2.5.5.2). `protocol` is
the one behind all extension headers. Ports are 0 where the protocol has none, in all fragments but the first, and where
they were not captured. `flags` holds TCP's nine, with FRAGMENT and LATER_FRAGMENT. `size` is the length of the whole
IP packet in bytes, as its header states it; a stated length of 0 (segmentation left to the network card) is taken from
the frame. `payload` is what of it the transport carries: the bytes behind the header of TCP, UDP, UDP-Lite, SCTP or
DCCP, of other protocols and of later fragments those behind the IP headers. A transport header whose length was not
captured counts with its least. `flow` is `flow_hash` of the 5-tuple: addresses, protocol, ports.
"""

FRAGMENT = 0x4000
"""The packet is a fragment."""
LATER_FRAGMENT = 0x8000
"""The packet is a fragment, and not the first."""

KEPT = "kept"
REASONS = (KEPT, "link", "not_ip", "truncated", "malformed", "cut", "broken")
"""The outcomes of packets: a record, or skipped because

- `link`: the capture's link type is not known,
- `not_ip`: neither IPv4 nor IPv6,
- `truncated`: not even the IP header was captured whole,
- `malformed`: an IP header that contradicts itself, or a block of pcapng that does,
- `cut`: the file ends within it (once a file),
- `broken`: its length cannot be true, so nothing behind it can be found (once a file).
"""


def flow_hash(packets: np.ndarray) -> np.ndarray:
    """64-bit hashes of the 5-tuples of records: source, destination, protocol, source port, destination port.

    Five little-endian words, two of the source, two of the destination and one that holds protocol, destination port
    and source port from its bits 32, 16 and 0 on, are chained by SplitMix64 (Steele, Lea, Flood: "Fast splittable
    pseudorandom number generators", OOPSLA 2014, figure 15): h = mix(h + word + 0x9E3779B97F4A7C15), starting with 0.
    The two directions of a conversation are different flows, and so are fragments that carry no ports.
    """
    addresses = np.ascontiguousarray(np.concatenate([packets["source"], packets["destination"]], axis=1)).view("<u8")
    ports = packets["destination_port"].astype(np.uint64) << np.uint64(16) | packets["source_port"]
    words = np.column_stack([addresses, packets["protocol"].astype(np.uint64) << np.uint64(32) | ports])
    h = np.zeros(len(words), np.uint64)
    with np.errstate(over="ignore"):
        for word in words.T:
            z = h + word + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            h = z ^ (z >> np.uint64(31))
    return h
