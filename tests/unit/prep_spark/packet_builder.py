"""Builds captures by hand: frames of every kind, and the files around them."""

from __future__ import annotations

import struct
from ipaddress import ip_address

MICROSECONDS, NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
ETHERNET, RAW, SLL, SLL2, NULL, LOOP, PPP, CISCO = 1, 101, 113, 276, 0, 108, 9, 104


def ipv4(payload: bytes = b"", protocol: int = 17, **options: int) -> bytes:
    """An IPv4 packet from 10.0.0.1 to 10.0.0.2; options: version, words (of header), size, fragment (16 bits)."""
    words = options.get("words", 5)
    header = struct.pack(
        ">BBHHHBBH4s4s",
        options.get("version", 4) << 4 | words,
        0,
        options.get("size", max(words, 5) * 4 + len(payload)),
        1,
        options.get("fragment", 0),
        64,
        protocol,
        0,
        ip_address("10.0.0.1").packed,
        ip_address("10.0.0.2").packed,
    )
    return header + bytes(4 * max(words - 5, 0)) + payload


def ipv6(payload: bytes = b"", protocol: int = 17, size: int | None = None, version: int = 6) -> bytes:
    """An IPv6 packet from fe80::1 to fe80::2; `size` is what the header states of the payload."""
    length = len(payload) if size is None else size
    ends = ip_address("fe80::1").packed + ip_address("fe80::2").packed
    return struct.pack(">IHBB", version << 28, length, protocol, 64) + ends + payload


def udp(payload: bytes = b"data") -> bytes:
    return struct.pack(">HHHH", 1000, 53, 8 + len(payload), 0) + payload


def tcp(flags: int = 0x12) -> bytes:
    return struct.pack(">HHIIHHHH", 1000, 80, 1, 2, 5 << 12 | flags, 100, 0, 0)


def extension(following: int, words: int = 0) -> bytes:
    """One of IPv6's extension headers, of 8 * (words + 1) bytes."""
    return bytes([following, words]) + bytes(6 + 8 * words)


def ipv6_fragment(following: int, offset: int, more: bool = True) -> bytes:
    return struct.pack(">BBHI", following, 0, offset << 3 | more, 7)


def ethernet(packet: bytes, *types: int) -> bytes:
    """A frame; `types` are its Ethernet type, and before it those of tags."""
    *tags, last = types or (0x0800,)
    return bytes(12) + b"".join(struct.pack(">HH", tag, 5) for tag in tags) + struct.pack(">H", last) + packet


def pcap(frames: list[bytes], link: int = ETHERNET, order: str = "<", magic: int = MICROSECONDS) -> bytes:
    """A capture whose packet number n was seen n seconds and n fractions after 1970."""
    records = [
        struct.pack(f"{order}IIII", number, number, len(frame), len(frame)) + frame
        for number, frame in enumerate(frames)
    ]
    return struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link) + b"".join(records)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = ETHERNET, order: str = "<", resolution: int | None = None, offset: int | None = None, snap: int = 0
) -> bytes:
    options = struct.pack(f"{order}HH4s", 2, 3, b"eth\0")  # if_name, to be stepped over
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset is not None:
        options += struct.pack(f"{order}HHq", 14, 8, offset)
    return block(1, struct.pack(f"{order}HHI", link, 0, snap) + options + bytes(4), order)


def enhanced(frame: bytes, ticks: int, order: str = "<", place: int = 0, captured: int | None = None) -> bytes:
    length = len(frame) if captured is None else captured
    fields = struct.pack(f"{order}IIIII", place, ticks >> 32, ticks & 0xFFFFFFFF, length, len(frame))
    return block(6, fields + frame, order)


def simple(frame: bytes, order: str = "<") -> bytes:
    return block(3, struct.pack(f"{order}I", len(frame)) + frame, order)
